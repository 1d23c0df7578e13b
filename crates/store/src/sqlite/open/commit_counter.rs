//! A counter of commits next to the database.
//!
//! SQLite takes a missing or truncated write-ahead log for an older state of the database, and reports no error. So every commit has a number, which
//! is part of the commit, and which is written to a small file once the commit is durable. A file that is ahead of its database means that
//! acknowledged commits are lost. A file that lags is normal. A missing one is allowed too, because a backup of a database alone has none.
//!
//! The file is written after each commit, which a crash of the process cannot undo. It is synced after every [`SYNC_EVERY`] commits and at shutdown,
//! because a sync per commit would double the cost of each. After a power failure, a truncated log that lost fewer commits than that may go
//! unnoticed.
//!
//! The file also contains its own inode number, so that a copy is recognized. Files that are copied one after the other during writes are of
//! different moments: the counter of such a copy may be ahead of its log although no commit was lost.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::rights;
use crate::durable::chain::digest;

/// The number of commits between two syncs.
const SYNC_EVERY: u64 = 256;

const MAGIC: &[u8; 8] = b"windlass";
const BYTES: usize = 48;
/// How long the file was before it named its inode.
const EARLIER_BYTES: usize = 40;

/// The contents of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommitCount {
    /// The database that it belongs to.
    pub(crate) database: [u8; 16],
    /// Its newest commit.
    pub(crate) commits: u64,
}

/// The result of reading the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CounterFile {
    Missing,
    /// An empty file: the first open was interrupted.
    Blank,
    /// A file that was not written by us, or not to its end.
    Unreadable,
    Counter(CommitCount),
    /// A counter that was written to another file than this one.
    Copy(CommitCount),
}

/// Reads the file without changing it.
pub(crate) fn read(path: &Path) -> io::Result<CounterFile> {
    let mut bytes = Vec::with_capacity(BYTES);
    let inode = match File::open(path) {
        Ok(file) => {
            let inode = file.metadata()?.ino();
            file.take(BYTES as u64 + 1).read_to_end(&mut bytes)?;
            inode
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(CounterFile::Missing),
        Err(error) => return Err(error),
    };
    if bytes.len() <= BYTES && bytes.iter().all(|byte| *byte == 0) {
        return Ok(CounterFile::Blank);
    }
    Ok(match decode(&bytes) {
        None => CounterFile::Unreadable,
        Some((count, Some(written))) if written != inode => CounterFile::Copy(count),
        Some((count, _)) => CounterFile::Counter(count),
    })
}

fn encode(count: CommitCount, inode: u64) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..24].copy_from_slice(&count.database);
    bytes[24..32].copy_from_slice(&count.commits.to_le_bytes());
    bytes[32..40].copy_from_slice(&inode.to_le_bytes());
    let check = digest(&bytes[..40]);
    bytes[40..].copy_from_slice(&check[..8]);
    bytes
}

/// Decodes the contents, and the inode number if there is one.
fn decode(bytes: &[u8]) -> Option<(CommitCount, Option<u64>)> {
    let (content, check) = bytes.split_last_chunk::<8>()?;
    if !content.starts_with(MAGIC) || digest(content)[..8] != *check {
        return None;
    }
    let number = |from: usize| -> Option<u64> {
        let bytes = content.get(from..from + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    let inode = match bytes.len() {
        BYTES => Some(number(32)?),
        EARLIER_BYTES => None,
        _ => return None,
    };
    let count = CommitCount {
        database: content.get(8..24)?.try_into().ok()?,
        commits: number(24)?,
    };
    Some((count, inode))
}

/// The file, open for writing.
#[derive(Debug)]
pub(crate) struct Counter {
    file: File,
    inode: u64,
    database: [u8; 16],
    synced: u64,
}

impl Counter {
    /// Replaces the file atomically by one with this count, and opens it.
    pub(crate) fn open(path: &Path, count: CommitCount) -> io::Result<Self> {
        let fresh = path.with_extension("commits.new");
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(rights::OF_FILES)
            .open(&fresh)?;
        let counter = Self {
            inode: file.metadata()?.ino(),
            file,
            database: count.database,
            synced: count.commits,
        };
        counter.write(count.commits)?;
        counter.file.sync_data()?;
        fs::rename(&fresh, path)?;
        if let Some(directory) = path.parent() {
            File::open(directory)?.sync_all()?;
        }
        Ok(counter)
    }

    /// Notes that a commit is durable.
    pub(crate) fn note(&mut self, commits: u64) -> io::Result<()> {
        self.write(commits)?;
        if commits - self.synced >= SYNC_EVERY {
            self.sync(commits)?;
        }
        Ok(())
    }

    /// Syncs the counter file.
    pub(crate) fn sync(&mut self, commits: u64) -> io::Result<()> {
        self.file.sync_data()?;
        self.synced = commits;
        Ok(())
    }

    fn write(&self, commits: u64) -> io::Result<()> {
        let database = self.database;
        let bytes = encode(CommitCount { database, commits }, self.inode);
        self.file.write_all_at(&bytes, 0)
    }
}
