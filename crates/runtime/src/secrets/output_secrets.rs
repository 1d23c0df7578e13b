//! The positions of a session's secrets, as offered to tools.

use std::ops::Range;

use windlass_core::traits::SecretPlaces;

use super::Mask;

/// Tools use it so that they never cut a secret in two. Only the operator's secrets are masked through it; all other output belongs to the tool.
pub(super) struct OutputSecrets {
    pub(super) all: Mask,
    pub(super) operator: Option<Mask>,
}

impl SecretPlaces for OutputSecrets {
    fn longest(&self) -> usize {
        self.all.longest()
    }

    fn around(&self, text: &str, place: usize) -> Option<Range<usize>> {
        self.all.around(text, place)
    }

    fn settled(&self, text: &str) -> usize {
        SecretPlaces::settled(&self.all, text)
    }

    fn begun(&self, text: &str) -> usize {
        self.all.begun(text)
    }

    fn masks<'a>(&'a self, text: &str) -> Vec<(Range<usize>, &'a str)> {
        let operator = self.operator.as_ref();
        operator.map_or_else(Vec::new, |mask| mask.masks(text))
    }
}
