//! Stats and digests of files from the last scan, so that only files with a different stat are read again. It is only a cache: losing it costs one
//! read of every file.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use cap_std::fs::{Metadata, MetadataExt};
use serde::{Deserialize, Serialize};

use super::blobs::{Fsync, write_file};
use super::path_text;

const VERSION: u32 = 1;
/// A file changed this shortly before it was read may change again without a new timestamp: some file systems have a resolution of a second or two.
const RACY_NANOS: i64 = 2_000_000_000;

/// Metadata that identifies a version of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stat {
    dev: u64,
    ino: u64,
    pub(super) size: u64,
    pub(super) modified: i64,
    changed: i64,
}

impl Stat {
    pub(super) fn new(metadata: &Metadata) -> Self {
        Self {
            dev: cap_fs_ext::MetadataExt::dev(metadata),
            ino: cap_fs_ext::MetadataExt::ino(metadata),
            size: metadata.len(),
            modified: nanos(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanos(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

fn nanos(seconds: i64, nanos: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

/// Returns the current time in nanoseconds.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    })
}

/// Stat and digest of a file that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct IndexedFile {
    stat: Stat,
    digest: String,
    read_at: i64,
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct Index {
    files: HashMap<PathBuf, IndexedFile>,
}

#[derive(Serialize, Deserialize)]
struct StoredIndex {
    version: u32,
    files: Vec<StoredIndexEntry>,
}

#[derive(Serialize, Deserialize)]
struct StoredIndexEntry {
    #[serde(with = "path_text")]
    path: PathBuf,
    #[serde(flatten)]
    file: IndexedFile,
}

impl Index {
    pub(super) fn load(path: &Path) -> Self {
        let stored = fs::read(path).ok();
        let stored = stored
            .and_then(|bytes| serde_json::from_slice::<StoredIndex>(&bytes).ok())
            .filter(|stored| stored.version == VERSION);
        let files = stored.into_iter().flat_map(|stored| stored.files);
        Self {
            files: files.map(|it| (it.path, it.file)).collect(),
        }
    }

    pub(super) fn save(&self, path: &Path) -> std::io::Result<()> {
        let files = self.files.iter().map(|(path, file)| StoredIndexEntry {
            path: path.clone(),
            file: file.clone(),
        });
        let stored = StoredIndex {
            version: VERSION,
            files: files.collect(),
        };
        write_file(path, &serde_json::to_vec(&stored)?, Fsync::No)
    }

    /// Returns the digest of a file whose stat is unchanged.
    pub(super) fn digest(&self, path: &Path, stat: &Stat) -> Option<&str> {
        let file = self.files.get(path)?;
        let is_settled = file.stat.changed.saturating_add(RACY_NANOS) < file.read_at;
        (file.stat == *stat && is_settled).then_some(&file.digest)
    }

    /// Copies an entry from an older index.
    pub(super) fn copy(&mut self, path: &Path, older: &Self) {
        if let Some(file) = older.files.get(path) {
            self.files.insert(path.to_owned(), file.clone());
        }
    }

    pub(super) fn insert(&mut self, path: &Path, stat: Stat, digest: String, read_at: i64) {
        self.files.insert(
            path.to_owned(),
            IndexedFile {
                stat,
                digest,
                read_at,
            },
        );
    }

    /// Removes the files whose content is no longer stored.
    pub(super) fn retain(&mut self, is_stored: impl Fn(&str) -> bool) {
        self.files.retain(|_, file| is_stored(&file.digest));
    }
}
