//! Attribution of file changes to a call while others were running.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::digest_of;
use super::manifest::ManifestEntry;
use super::path_text;

/// A file that a call wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnWrite {
    #[serde(with = "path_text")]
    path: PathBuf,
    /// Digest of the previous content; `None` if there was no text file.
    before: Option<String>,
    after: String,
}

/// Attribution of a difference that appeared while a call was running.
pub(super) enum Attribution {
    Own,
    /// Another program wrote the same file, so the author is unknown.
    Unknown,
    Other,
}

impl OwnWrite {
    pub(crate) fn new(path: PathBuf, before: Option<&[u8]>, after: &[u8]) -> Self {
        Self {
            path,
            before: before.map(digest_of),
            after: digest_of(after),
        }
    }

    /// Attributes the difference at a path, given the entries before and after the call.
    fn attribute(
        &self,
        path: &Path,
        before: Option<&ManifestEntry>,
        after: Option<&ManifestEntry>,
    ) -> Attribution {
        if path == self.path {
            let is_same = digest(before) == self.before.as_deref()
                && digest(after) == Some(&self.after)
                && (before.is_none() || self.before.is_some());
            return if is_same {
                Attribution::Own
            } else {
                Attribution::Unknown
            };
        }
        // The directory was created for the file.
        let is_new_directory = before.is_none() && after.is_some_and(ManifestEntry::is_directory);
        if is_new_directory && self.path.starts_with(path) {
            Attribution::Own
        } else {
            Attribution::Other
        }
    }
}

/// Attributes the difference at a path, given all writes of a call.
pub(super) fn attribute(
    writes: &[OwnWrite],
    path: &Path,
    before: Option<&ManifestEntry>,
    after: Option<&ManifestEntry>,
) -> Attribution {
    writes
        .iter()
        .map(|write| write.attribute(path, before, after))
        .find(|attribution| !matches!(attribution, Attribution::Other))
        .unwrap_or(Attribution::Other)
}

fn digest(entry: Option<&ManifestEntry>) -> Option<&str> {
    match entry {
        Some(ManifestEntry::File { digest, .. }) => Some(digest),
        _ => None,
    }
}
