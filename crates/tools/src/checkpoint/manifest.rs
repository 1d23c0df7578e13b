//! What a workspace held: a list of paths, each with what was there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::path_text;

/// The version of the list, as it is stored.
const VERSION: u32 = 1;

/// Names a checkpoint: the digest of its list. Two equal states have the same name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CheckpointId(pub(super) String);

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Entry {
    Directory {
        mode: u32,
    },
    File {
        mode: u32,
        size: u64,
        digest: String,
    },
    /// A link, as it is written.
    Link {
        #[serde(with = "path_text")]
        target: PathBuf,
    },
    /// A file that is too large to keep, or something that is no file. A change of it is noticed and cannot be undone.
    Unkept {
        size: u64,
        modified: i64,
    },
    /// Not looked at, nor anything below: ignored, hidden, a repository's own records, or not to be read.
    Unseen,
}

impl Entry {
    pub(super) fn is_directory(&self) -> bool {
        matches!(self, Self::Directory { .. })
    }

    /// Tells whether what is there can be made from what is kept.
    pub(super) fn is_kept(&self) -> bool {
        !matches!(self, Self::Unkept { .. } | Self::Unseen)
    }
}

/// What a workspace held.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Manifest {
    pub(super) entries: BTreeMap<PathBuf, Entry>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    entries: Vec<StoredEntry>,
}

#[derive(Serialize, Deserialize)]
struct StoredEntry {
    #[serde(with = "path_text")]
    path: PathBuf,
    #[serde(flatten)]
    entry: Entry,
}

impl Manifest {
    pub(super) fn to_bytes(&self) -> serde_json::Result<Vec<u8>> {
        let entries = self.entries.iter().map(|(path, entry)| StoredEntry {
            path: path.clone(),
            entry: entry.clone(),
        });
        serde_json::to_vec(&Stored {
            version: VERSION,
            entries: entries.collect(),
        })
    }

    /// Reads a list; `None` of what is none, or of another version.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let stored: Stored = serde_json::from_slice(bytes).ok()?;
        (stored.version == VERSION).then(|| {
            let entries = stored.entries.into_iter();
            Self {
                entries: entries.map(|it| (it.path, it.entry)).collect(),
            }
        })
    }

    /// Returns what was at a path: also `Unseen` for all that lies below what was not looked at.
    pub(super) fn get(&self, path: &Path) -> Option<Entry> {
        if let Some(entry) = self.entries.get(path) {
            return Some(entry.clone());
        }
        let unseen = |above: &Path| self.entries.get(above) == Some(&Entry::Unseen);
        path.ancestors()
            .skip(1)
            .any(unseen)
            .then_some(Entry::Unseen)
    }

    /// Returns the paths at which two states differ.
    pub(super) fn differing<'a>(&'a self, other: &'a Self) -> BTreeSet<&'a PathBuf> {
        let paths = self.entries.keys().chain(other.entries.keys());
        let differ = |path: &&PathBuf| self.get(path) != other.get(path);
        paths.filter(differ).collect()
    }

    /// Returns the digests of all files that are kept.
    pub(super) fn digests(&self) -> impl Iterator<Item = (&str, u64)> {
        self.entries.values().filter_map(|entry| match entry {
            Entry::File { digest, size, .. } => Some((digest.as_str(), *size)),
            _ => None,
        })
    }
}

/// What is different between two checkpoints, by path below the root.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Only in the second.
    pub added: Vec<PathBuf>,
    /// In both, and not the same.
    pub changed: Vec<PathBuf>,
    /// Only in the first.
    pub removed: Vec<PathBuf>,
}

impl Changes {
    pub(super) fn between(a: &Manifest, b: &Manifest) -> Self {
        let mut changes = Self::default();
        for path in a.differing(b) {
            let list = match (a.get(path), b.get(path)) {
                (None, _) => &mut changes.added,
                (_, None) => &mut changes.removed,
                _ => &mut changes.changed,
            };
            list.push(path.clone());
        }
        changes
    }

    /// Tells whether the two are the same.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}
