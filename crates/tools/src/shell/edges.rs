//! Where an output may be cut: half of a secret has no mask.

use std::ops::Range;

use windlass_core::traits::SecretPlaces;
use windlass_process::Excerpt;

use crate::secrets::{self, plain};

/// A piece of an output, and what is known of what stands around it.
pub(super) struct Piece<'a> {
    pub(super) bytes: &'a [u8],
    /// Whether something came before it that is not known.
    pub(super) is_cut_before: bool,
    /// Whether something may follow that is not known.
    pub(super) is_cut_after: bool,
}

/// What may be shown of a piece.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) range: Range<usize>,
    /// From here on nobody knows yet whether a secret begins.
    pub(super) settled: usize,
}

impl Piece<'_> {
    /// Chooses what to show of the piece from a place on: so many bytes, and more only where a secret is longer than that.
    pub(super) fn shown(
        &self,
        places: Option<&dyn SecretPlaces>,
        start: usize,
        max: usize,
    ) -> Shown {
        let wanted = start.saturating_add(max);
        let Some(places) = places else {
            let settled = self.bytes.len();
            return Shown {
                range: start..wanted.min(settled).max(start),
                settled,
            };
        };
        let text = plain(self.bytes);
        let begun = match self.is_cut_before {
            true => secrets::begun(places, self.bytes),
            false => 0,
        };
        let settled = match self.is_cut_after {
            true => secrets::settled(places, self.bytes),
            false => text.len(),
        };
        let start = places.outside_from(&text, start.max(begun));
        let wanted = wanted.min(settled);
        let mut end = places.outside_before(&text, wanted);
        if end <= start && wanted > start {
            end = places.outside_from(&text, wanted);
        }
        Shown {
            range: start..end.max(start),
            settled,
        }
    }
}

/// Takes the halves of secrets from both sides of what is left out.
pub(super) fn cut_at_gap(places: &dyn SecretPlaces, excerpt: &mut Excerpt) {
    if excerpt.left_out() == 0 {
        return;
    }
    let head = secrets::settled(places, &excerpt.head);
    excerpt.head.truncate(head);
    let tail = secrets::begun(places, &excerpt.tail);
    excerpt.tail.drain(..tail);
}
