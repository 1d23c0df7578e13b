//! Choices read from bytes.

/// Reads one choice after the other; when the bytes are used up, every choice is the first.
#[derive(Debug)]
pub(super) struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Chooses a number below `n`.
    pub(super) fn below(&mut self, n: usize) -> usize {
        match self.rest.split_first() {
            Some((first, rest)) => {
                self.rest = rest;
                usize::from(*first) % n.max(1)
            }
            None => 0,
        }
    }

    /// Says yes once in `n` times, and no when the bytes are used up.
    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    pub(super) fn pick<'t, T>(&mut self, from: &'t [T]) -> Option<&'t T> {
        match from.len() {
            0 => None,
            n => from.get(self.below(n)),
        }
    }

    /// Picks a word; none when there are none.
    pub(super) fn word<'t>(&mut self, from: &[&'t str]) -> &'t str {
        self.pick(from).copied().unwrap_or_default()
    }

    /// Returns the next bytes, at most `n`.
    pub(super) fn take(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(n.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Chooses how often something is repeated: mostly a few times, now and then up to `most`.
    pub(super) fn times(&mut self, most: usize) -> usize {
        match self.below(8) {
            0..=4 => self.below(6),
            5 | 6 => self.below(256).min(most),
            _ => most * (1 + self.below(16)) / 16,
        }
    }
}
