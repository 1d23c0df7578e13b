//! The unified diff of a change.

use std::time::Duration;

use similar::{Algorithm, TextDiff};

/// Maximum size of the shown diff.
const MAX_DIFF_BYTES: usize = 16 * 1024;
/// Time to search for the shortest diff; after that a longer one is used.
const DIFF_TIMEOUT: Duration = Duration::from_millis(200);

/// The diff between two texts, truncated at a line if it is too long, with the number of lines added and removed.
pub(super) struct Diff {
    pub(super) text: String,
    pub(super) added: usize,
    pub(super) removed: usize,
    pub(super) is_cut: bool,
}

impl Diff {
    pub(super) fn between(path: &str, before: &str, after: &str) -> Self {
        let diff = TextDiff::configure()
            .algorithm(Algorithm::Myers)
            .timeout(DIFF_TIMEOUT)
            .diff_lines(before, after);
        let (mut added, mut removed) = (0, 0);
        for op in diff.ops() {
            let (tag, old, new) = op.as_tag_tuple();
            if tag != similar::DiffTag::Equal {
                removed += old.len();
                added += new.len();
            }
        }
        // A name can contain newlines, which would look like lines of the diff.
        let path = path.replace(char::is_control, "\u{fffd}");
        let mut text = diff
            .unified_diff()
            .header(&format!("a/{path}"), &format!("b/{path}"))
            .to_string();
        let is_cut = text.len() > MAX_DIFF_BYTES;
        if is_cut {
            let end = text.as_bytes()[..MAX_DIFF_BYTES]
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |end| end + 1);
            text.truncate(end);
        }
        Self {
            text,
            added,
            removed,
            is_cut,
        }
    }

    pub(super) fn remark(&self) -> Option<String> {
        let cut = || "the diff is truncated; the change itself is complete".to_owned();
        self.is_cut.then(cut)
    }
}
