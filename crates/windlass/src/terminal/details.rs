//! Results and thoughts that the terminal shows in part, so that the user can open them by their number.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::proposal::StyledLine;
use super::{Colour, Style};

/// Maximum size of all stored lines, in bytes. The oldest results are removed first.
const MAX_BYTES: usize = 32 << 20;

/// The stored results of a chat. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Details(Arc<Mutex<Stored>>);

#[derive(Default)]
struct Stored {
    results: VecDeque<Arc<Detail>>,
    /// Number of removed results.
    removed: usize,
    bytes: usize,
}

/// A result or thought.
pub(crate) struct Detail {
    heading: String,
    lines: Vec<StyledLine>,
}

impl Detail {
    /// Formats the lines with their heading.
    pub(crate) fn format(&self, style: Style) -> impl Iterator<Item = String> {
        let heading = style.unmarked(&self.heading, &mut None);
        let heading = style.paint(Colour::Bold, &heading);
        let lines = self.lines.iter();
        std::iter::once(heading).chain(lines.map(move |(colour, line)| style.paint(*colour, line)))
    }

    fn bytes(&self) -> usize {
        self.lines.iter().map(|(_, line)| line.len() + 1).sum()
    }
}

impl Details {
    /// Stores a result and returns its number, from 1.
    pub(super) fn add(&self, heading: String, lines: Vec<StyledLine>) -> usize {
        let mut stored = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let detail = Detail { heading, lines };
        stored.bytes += detail.bytes();
        stored.results.push_back(Arc::new(detail));
        while stored.bytes > MAX_BYTES
            && stored.results.len() > 1
            && let Some(oldest) = stored.results.pop_front()
        {
            stored.bytes -= oldest.bytes();
            stored.removed += 1;
        }
        stored.removed + stored.results.len()
    }

    /// Returns the result with a number, or the last one.
    pub(crate) fn get(&self, number: Option<usize>) -> Option<Arc<Detail>> {
        let stored = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match number {
            None => stored.results.back().cloned(),
            Some(number) => {
                let index = number.checked_sub(stored.removed + 1)?;
                stored.results.get(index).cloned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_is_found_by_its_number_until_there_are_too_many() {
        let details = Details::default();
        let add = |name: &str, size: usize| {
            let line = (Colour::Plain, "x".repeat(size));
            details.add(name.to_owned(), vec![line])
        };
        assert!(details.get(None).is_none());
        assert_eq!((add("a", 1), add("b", 1)), (1, 2));
        let heading = |number| details.get(number).map(|detail| detail.heading.clone());
        assert_eq!(heading(Some(1)).as_deref(), Some("a"));
        assert_eq!(heading(None).as_deref(), Some("b"));
        assert!(heading(Some(0)).is_none() && heading(Some(3)).is_none());
        assert_eq!(add("large", MAX_BYTES), 3);
        assert!(heading(Some(2)).is_none());
        assert_eq!(heading(Some(3)).as_deref(), Some("large"));
    }
}
