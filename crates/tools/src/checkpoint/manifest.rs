//! The state of a workspace: a list of paths with their entries.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::path_text;

/// Version of the stored format.
const VERSION: u32 = 1;

/// ID of a checkpoint: the digest of its manifest. Equal states have equal IDs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CheckpointId(pub(super) String);

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The entry at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum ManifestEntry {
    Directory {
        mode: u32,
    },
    File {
        mode: u32,
        size: u64,
        digest: String,
    },
    /// A symbolic link with its target as written.
    Link {
        #[serde(with = "path_text")]
        target: PathBuf,
    },
    /// A file that is too large to store, or an entry of another type. Changes are detected and cannot be undone.
    #[serde(rename = "unkept")]
    NotStored {
        size: u64,
        modified: i64,
    },
    /// Not scanned, including everything below: ignored, hidden, `.git`, a cache, nested too deep, or unreadable.
    Unseen,
}

impl ManifestEntry {
    pub(super) fn is_directory(&self) -> bool {
        matches!(self, Self::Directory { .. })
    }

    /// Returns whether the entry can be restored from stored content.
    pub(super) fn is_restorable(&self) -> bool {
        !matches!(self, Self::NotStored { .. } | Self::Unseen)
    }
}

/// The state of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Manifest {
    pub(super) entries: BTreeMap<PathBuf, ManifestEntry>,
}

#[derive(Serialize, Deserialize)]
struct StoredManifest {
    version: u32,
    entries: Vec<StoredEntry>,
}

#[derive(Serialize, Deserialize)]
struct StoredEntry {
    #[serde(with = "path_text")]
    path: PathBuf,
    #[serde(flatten)]
    entry: ManifestEntry,
}

impl Manifest {
    pub(super) fn to_bytes(&self) -> serde_json::Result<Vec<u8>> {
        let entries = self.entries.iter().map(|(path, entry)| StoredEntry {
            path: path.clone(),
            entry: entry.clone(),
        });
        serde_json::to_vec(&StoredManifest {
            version: VERSION,
            entries: entries.collect(),
        })
    }

    /// Parses a manifest; `None` if it is invalid or has another version.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let stored: StoredManifest = serde_json::from_slice(bytes).ok()?;
        (stored.version == VERSION).then(|| {
            let entries = stored.entries.into_iter();
            Self {
                entries: entries.map(|it| (it.path, it.entry)).collect(),
            }
        })
    }

    /// Returns the entry at a path; `Unseen` for every path below one that was not scanned.
    pub(super) fn get(&self, path: &Path) -> Option<ManifestEntry> {
        if let Some(entry) = self.entries.get(path) {
            return Some(entry.clone());
        }
        let unseen = |above: &Path| self.entries.get(above) == Some(&ManifestEntry::Unseen);
        path.ancestors()
            .skip(1)
            .any(unseen)
            .then_some(ManifestEntry::Unseen)
    }

    /// Returns the paths at which two states differ.
    pub(super) fn differences<'a>(&'a self, other: &'a Self) -> BTreeSet<&'a PathBuf> {
        let paths = self.entries.keys().chain(other.entries.keys());
        let differ = |path: &&PathBuf| self.get(path) != other.get(path);
        paths.filter(differ).collect()
    }

    /// Returns the digests and sizes of all stored files.
    pub(super) fn digests(&self) -> impl Iterator<Item = (&str, u64)> {
        self.entries.values().filter_map(|entry| match entry {
            ManifestEntry::File { digest, size, .. } => Some((digest.as_str(), *size)),
            _ => None,
        })
    }
}
