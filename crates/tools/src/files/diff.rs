//! What a change did, as a unified diff.

use std::time::Duration;

use similar::{Algorithm, TextDiff};

/// How much of a diff is shown.
const MAX_DIFF_BYTES: usize = 16 * 1024;
/// How long the shortest diff is looked for; after that a longer one does.
const PATIENCE: Duration = Duration::from_millis(200);

/// Returns the diff between two texts, cut at a line where it is too long, with the number of lines added and removed.
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
            .timeout(PATIENCE)
            .diff_lines(before, after);
        let (mut added, mut removed) = (0, 0);
        for op in diff.ops() {
            let (tag, old, new) = op.as_tag_tuple();
            if tag != similar::DiffTag::Equal {
                removed += old.len();
                added += new.len();
            }
        }
        // A name may hold line ends, which would look like lines of the diff.
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
        let cut = || "the diff is cut; the change itself is whole".to_owned();
        self.is_cut.then(cut)
    }
}
