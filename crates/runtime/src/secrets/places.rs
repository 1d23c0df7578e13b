//! The positions of a session's secrets, as offered to tools.

use std::ops::Range;

use windlass_core::traits::SecretPlaces;

use super::Mask;

/// Tools use it so that they never cut a secret in two. Only the operator's secrets are masked through it; all other output belongs to the tool.
pub(super) struct Places {
    pub(super) known: Mask,
    pub(super) named: Option<Mask>,
}

impl SecretPlaces for Places {
    fn longest(&self) -> usize {
        self.known.longest()
    }

    fn around(&self, text: &str, place: usize) -> Option<Range<usize>> {
        self.known.around(text, place)
    }

    fn settled(&self, text: &str) -> usize {
        SecretPlaces::settled(&self.known, text)
    }

    fn begun(&self, text: &str) -> usize {
        self.known.begun(text)
    }

    fn masks<'a>(&'a self, text: &str) -> Vec<(Range<usize>, &'a str)> {
        let named = self.named.as_ref();
        named.map_or_else(Vec::new, |named| named.masks(text))
    }
}
