//! A counter of commits beside the database.
//!
//! SQLite takes a write-ahead log that is gone or cut for an older state of the database, and says nothing. So every
//! commit has a number, kept in the database with the commit itself, and written to a small file once the commit is
//! durable. A file that is ahead of its database means that acknowledged commits are gone; one that is behind means
//! nothing, because it may lag.
//!
//! The file is written after each commit, which a crash of the process cannot undo, and synced after every
//! [`SYNC_EVERY`] commits and at the end: a sync per commit would double the price of each. After a power failure a cut
//! log may thus go unnoticed if it lost fewer commits than that.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::chain::digest;

/// How many commits go by between two syncs.
const SYNC_EVERY: u64 = 256;

const MAGIC: &[u8; 8] = b"windlass";
const BYTES: usize = 40;

/// What the file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count {
    /// The database that it belongs to.
    pub(crate) database: [u8; 16],
    /// Its newest commit.
    pub(crate) commits: u64,
}

/// What is found in place of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    /// A file that was not written by us, or not to its end.
    Unreadable,
    Counter(Count),
}

/// Reads the file without changing it.
pub(crate) fn read(path: &Path) -> io::Result<Found> {
    let mut bytes = Vec::with_capacity(BYTES);
    match File::open(path) {
        Ok(file) => file.take(BYTES as u64 + 1).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(error),
    };
    Ok(decode(&bytes).map_or(Found::Unreadable, Found::Counter))
}

fn encode(count: Count) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..24].copy_from_slice(&count.database);
    bytes[24..32].copy_from_slice(&count.commits.to_le_bytes());
    let check = digest(&bytes[..32]);
    bytes[32..].copy_from_slice(&check[..8]);
    bytes
}

fn decode(bytes: &[u8]) -> Option<Count> {
    let database = bytes.get(8..24)?.try_into().ok()?;
    let commits = u64::from_le_bytes(bytes.get(24..32)?.try_into().ok()?);
    let count = Count { database, commits };
    (bytes == encode(count)).then_some(count)
}

/// The file, open for writing.
#[derive(Debug)]
pub(crate) struct Counter {
    file: File,
    database: [u8; 16],
    synced: u64,
}

impl Counter {
    /// Opens the file and sets it.
    pub(crate) fn open(path: &Path, count: Count) -> io::Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)?;
        file.set_len(BYTES as u64)?;
        let mut counter = Self {
            file,
            database: count.database,
            synced: count.commits,
        };
        counter.write(count.commits)?;
        counter.file.sync_data()?;
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

    /// Makes the counter itself durable.
    pub(crate) fn sync(&mut self, commits: u64) -> io::Result<()> {
        self.file.sync_data()?;
        self.synced = commits;
        Ok(())
    }

    fn write(&mut self, commits: u64) -> io::Result<()> {
        let database = self.database;
        self.file
            .write_all_at(&encode(Count { database, commits }), 0)
    }
}
