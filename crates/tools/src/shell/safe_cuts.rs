//! Offsets at which an output may be cut: half of a secret would not be recognized and masked.

use std::ops::Range;

use windlass_core::traits::SecretPlaces;
use windlass_process::Excerpt;

use crate::secrets::{self, same_length_text};

/// A piece of an output and its surroundings.
pub(super) struct OutputPiece<'a> {
    pub(super) bytes: &'a [u8],
    /// Whether unknown bytes came before it.
    pub(super) is_cut_before: bool,
    /// Whether unknown bytes may follow.
    pub(super) is_cut_after: bool,
}

/// The part of a piece that may be shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct VisiblePart {
    pub(super) range: Range<usize>,
    /// Offset from which a secret may begin that is not complete yet.
    pub(super) settled: usize,
}

impl OutputPiece<'_> {
    /// Selects the part to show from an offset on: at most `max` bytes, unless a secret is longer than that.
    pub(super) fn shown(
        &self,
        places: Option<&dyn SecretPlaces>,
        start: usize,
        max: usize,
    ) -> VisiblePart {
        let limit = start.saturating_add(max);
        let Some(places) = places else {
            let settled = self.bytes.len();
            return VisiblePart {
                range: start..limit.min(settled).max(start),
                settled,
            };
        };
        let text = same_length_text(self.bytes);
        let visible_from = if self.is_cut_before {
            secrets::partial_prefix(places, self.bytes)
        } else {
            0
        };
        let settled = if self.is_cut_after {
            secrets::settled(places, self.bytes)
        } else {
            text.len()
        };
        let start = places.outside_from(&text, start.max(visible_from));
        let limit = limit.min(settled);
        let mut end = places.outside_before(&text, limit);
        if end <= start && limit > start {
            end = places.outside_from(&text, limit);
        }
        VisiblePart {
            range: start..end.max(start),
            settled,
        }
    }
}

/// Removes partial secrets on both sides of the gap.
pub(super) fn cut_at_gap(places: &dyn SecretPlaces, excerpt: &mut Excerpt) {
    if excerpt.left_out() == 0 {
        return;
    }
    let head = secrets::settled(places, &excerpt.head);
    excerpt.head.truncate(head);
    let tail = secrets::partial_prefix(places, &excerpt.tail);
    excerpt.tail.drain(..tail);
}
