//! All stores in one SQLite database: the journal, records, files, keys and secrets.
//!
//! A data directory holds `windlass.db` with its write-ahead log, `windlass.lock`, which names the process that may
//! write, and `windlass.commits`, which finds a log that was lost. One connection writes, in groups; readers have
//! connections of their own. The pages of these modules say what is decided where.

mod ancestry;
mod backup;
mod commit_thread;
mod commit_times;
mod committer;
mod compact;
mod condense;
mod connect;
mod counter;
mod doorbells;
mod error;
mod export;
mod files;
mod findings;
mod fork;
mod heads;
mod host_records;
mod import;
mod inner;
mod inspect;
mod journal;
mod kept;
mod ledger;
mod maintain;
mod manifest;
mod numbers;
mod open;
mod options;
mod orphans;
mod owner;
mod page_check;
mod prune;
mod queries;
mod read_threads;
mod readers;
mod record;
mod records;
mod removing;
mod restore;
mod rights;
mod runs;
mod schema;
mod secrets;
mod shrink;
mod spans;
mod staging;
mod storage;
mod sweep;
mod times;
mod verify;
mod wal;
mod writer;

use std::sync::Arc;

pub use crate::durable::chain::ChainKey;
pub use backup::{BackupError, BackupProgress, BackupReport};
pub use compact::CompactReport;
pub use error::SqliteError;
pub use export::ExportReport;
pub use files::SqliteSessionFileStore;
pub use findings::Finding;
pub use host_records::SqliteHostRecords;
pub use import::{ImportReport, ImportedRecords};
use inner::Inner;
pub use journal::{SqliteJournal, StreamInfo};
pub use ledger::SqliteLedger;
pub use maintain::Maintained;
pub use options::{OnLostCommits, OpenCheck, SqliteOptions, SqliteRetention};
pub use owner::while_unowned;
pub use queries::{RebuildProgress, RebuildReport, SqliteQueries};
pub use records::SqliteRecords;
pub use restore::{
    HostFile, Prefer, RestoreError, RestoreOptions, RestoreReport, RestoreStep, restore,
};
pub use runs::SqliteRuns;
pub use secrets::SecretsKey;
pub use staging::FileTrouble;
pub use storage::SqliteSessionStorageStore;
pub use verify::{Report, StreamHead};

/// A database with everything that a runtime keeps; clones share it.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

impl SqliteStore {
    /// Opens the store of a directory for reading and writing, and makes it if it is not there.
    pub async fn open(options: SqliteOptions) -> Result<Self, SqliteError> {
        blocking(move || open::open(options)).await
    }

    /// Opens the store of a directory for reading, also while another process writes, or where it is damaged.
    ///
    /// Doorbells ring only for what this process writes, so here they do not.
    pub async fn open_read_only(options: SqliteOptions) -> Result<Self, SqliteError> {
        blocking(move || open::open_read_only(options)).await
    }

    /// Returns the journal.
    #[must_use]
    pub fn journal(&self) -> SqliteJournal {
        SqliteJournal {
            inner: Arc::clone(&self.inner),
        }
    }

    /// Returns the harnesses, agents and sessions.
    #[must_use]
    pub fn records(&self) -> SqliteRecords {
        SqliteRecords {
            inner: Arc::clone(&self.inner),
        }
    }

    /// Returns the runs.
    #[must_use]
    pub fn runs(&self) -> SqliteRuns {
        SqliteRuns {
            inner: Arc::clone(&self.inner),
        }
    }

    /// Returns what answers about threads, turns and runs.
    #[must_use]
    pub fn queries(&self) -> SqliteQueries {
        SqliteQueries {
            inner: Arc::clone(&self.inner),
        }
    }

    /// Returns what the host keeps beside its sessions.
    #[must_use]
    pub fn host_records(&self) -> SqliteHostRecords {
        SqliteHostRecords {
            inner: Arc::clone(&self.inner),
        }
    }

    /// Returns the spending ledger.
    #[must_use]
    pub fn ledger(&self) -> SqliteLedger {
        SqliteLedger {
            inner: Arc::clone(&self.inner),
        }
    }

    /// Returns the files of sessions.
    #[must_use]
    pub fn files(&self) -> SqliteSessionFileStore {
        SqliteSessionFileStore::new(Arc::clone(&self.inner))
    }

    /// Returns the values and secrets of sessions.
    #[must_use]
    pub fn storage(&self) -> SqliteSessionStorageStore {
        SqliteSessionStorageStore {
            inner: Arc::clone(&self.inner),
        }
    }

    /// Makes sure that all stored secrets were sealed with the key that was given. Without it, each is found out when
    /// somebody reads it.
    pub async fn check_secrets_key(&self) -> Result<(), SqliteError> {
        let vault = self.inner.vault.clone();
        let foreign = self.inner.readers.read(move |reader| vault.foreign(reader));
        match foreign.await? {
            Some(name) => Err(SqliteError::WrongSecretsKey(name)),
            None => Ok(()),
        }
    }

    /// Returns how many commits this database has seen.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.inner
            .writer
            .as_ref()
            .map_or(0, writer::Writer::commits)
    }

    /// Waits until all pages have been looked at, where [`OpenCheck::Glance`] puts that off; tells what is damaged.
    ///
    /// Nothing is written any more once damage was found, and each attempt is told why.
    pub async fn checked(&self) -> Result<(), SqliteError> {
        let Some(mut check) = self.inner.check.clone() else {
            return Ok(());
        };
        let found = check.wait_for(Option::is_some).await;
        // Nobody looks: the store is closed, or was opened with another check.
        let findings = found.ok().and_then(|found| found.clone());
        match findings.unwrap_or_default() {
            findings if findings.is_empty() => Ok(()),
            findings => Err(SqliteError::Damaged {
                path: self.inner.readers.location().database(),
                findings,
            }),
        }
    }

    /// Writes what waits, ends the writer and gives up the lock. Without it, the same happens soon after the last clone
    /// is dropped.
    pub async fn close(self) {
        self.inner.readers.close();
        if let Some(writer) = &self.inner.writer {
            writer.close().await;
        }
    }
}

async fn blocking(
    work: impl FnOnce() -> Result<Inner, SqliteError> + Send + 'static,
) -> Result<SqliteStore, SqliteError> {
    let opened = tokio::task::spawn_blocking(work).await;
    let inner = opened.map_err(|error| SqliteError::Unavailable(error.to_string()))??;
    Ok(SqliteStore {
        inner: Arc::new(inner),
    })
}
