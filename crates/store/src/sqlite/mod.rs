//! All stores in one SQLite database: the journal, records, files, keys and secrets.
//!
//! A data directory contains `windlass.db` with its write-ahead log, `windlass.lock`, which names the process that may write, and `windlass.commits`,
//! which reveals a lost log. One connection writes, in groups; readers have connections of their own. The documentation of the modules explains the
//! decisions.

mod cached;
mod error;
mod inner;
mod journal;
mod numbers;
mod open;
mod options;
mod queries;
mod read;
mod retention;
mod stores;
mod times;
mod transfer;
mod verify;
mod write;

use std::sync::Arc;

pub use crate::durable::chain::ChainKey;
pub use error::SqliteError;
use inner::Inner;
pub use journal::{SqliteJournal, StreamInfo};
pub use open::owner::while_unowned;
pub use options::{OnLostCommits, OpenCheck, SqliteOptions, SqliteRetention};
pub use queries::{RebuildProgress, RebuildReport, SqliteQueries};
pub use retention::compact::CompactReport;
pub use retention::maintain::Maintained;
pub use stores::files::SqliteSessionFileStore;
pub use stores::host_records::SqliteHostRecords;
pub use stores::ledger::SqliteLedger;
pub use stores::records::SqliteRecords;
pub use stores::runs::SqliteRuns;
pub use stores::secrets::SecretsKey;
pub use stores::storage::SqliteSessionStorageStore;
pub use transfer::backup::{BackupError, BackupProgress, BackupReport};
pub use transfer::export::ExportReport;
pub use transfer::import::{ImportReport, ImportedRecords};
pub use transfer::restore::{
    HostFile, Prefer, RestoreError, RestoreOptions, RestoreReport, RestoreStep, restore,
};
pub use verify::verify_report::Finding;
pub use verify::{Report, StreamHead};

/// A database with all stores of a runtime; clones share it.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

impl SqliteStore {
    /// Opens the store of a directory for reading and writing. Creates it if it does not exist.
    pub async fn open(options: SqliteOptions) -> Result<Self, SqliteError> {
        let inner = run_blocking(move || open::open(options)).await?;
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Opens the store of a directory read-only, even if another process writes or the database is damaged.
    ///
    /// Watchers are only notified of writes of this process, so a read-only store never notifies them.
    pub async fn open_read_only(options: SqliteOptions) -> Result<Self, SqliteError> {
        let inner = run_blocking(move || open::open_read_only(options)).await?;
        Ok(Self {
            inner: Arc::new(inner),
        })
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

    /// Returns the read model: threads, turns and runs.
    #[must_use]
    pub fn queries(&self) -> SqliteQueries {
        SqliteQueries {
            inner: Arc::clone(&self.inner),
        }
    }

    /// Returns the records that the host stores next to its sessions.
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

    /// Checks that all stored secrets were sealed with the given key. Without this check, a wrong key is detected when a secret is read.
    pub async fn check_secrets_key(&self) -> Result<(), SqliteError> {
        let cipher = self.inner.cipher.clone();
        let other = self.read(move |reader| cipher.sealed_with_another_key(reader));
        match other.await? {
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
            .map_or(0, write::writer::Writer::commits)
    }

    /// Waits until all pages have been checked, if [`OpenCheck::Glance`] defers that. Returns the damage as an error.
    ///
    /// After damage was found, every write fails with it.
    pub async fn checked(&self) -> Result<(), SqliteError> {
        let Some(mut check) = self.inner.check.clone() else {
            return Ok(());
        };
        let found = check.wait_for(Option::is_some).await;
        // No check runs: the store is closed, or was opened with another check.
        let findings = found.ok().and_then(|found| found.clone());
        match findings.unwrap_or_default() {
            findings if findings.is_empty() => Ok(()),
            findings => Err(SqliteError::Damaged {
                path: self.inner.readers.location().database(),
                findings,
            }),
        }
    }

    /// Writes pending jobs, ends the writer and releases the lock. Otherwise this happens soon after the last clone is dropped.
    pub async fn close(self) {
        self.inner.readers.close();
        if let Some(writer) = &self.inner.writer {
            writer.close().await;
        }
    }
}

/// Runs work on a thread that may block. A panic becomes an error.
async fn run_blocking<T: Send + 'static, E: From<SqliteError> + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| SqliteError::Unavailable(error.to_string()))?
}
