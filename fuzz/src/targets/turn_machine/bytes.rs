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
}
