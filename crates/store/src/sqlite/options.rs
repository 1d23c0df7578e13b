//! Options of a store.

use std::path::PathBuf;
use std::time::Duration;

use windlass_core::setters;

use super::stores::secrets::SecretsKey;
use crate::durable::chain::ChainKey;

/// How a store is opened.
#[derive(Debug, Clone)]
#[must_use]
pub struct SqliteOptions {
    /// The data directory. It is created if it does not exist, and belongs to this store alone.
    pub directory: PathBuf,
    /// The key of the chain of digests. A database is bound to the key of its creation.
    pub chain_key: Option<ChainKey>,
    /// The key that secrets are sealed with; without it none can be stored or read.
    pub secrets_key: Option<SecretsKey>,
    /// The limits that [`SqliteStore::maintain`](super::SqliteStore::maintain) enforces.
    pub retention: SqliteRetention,
    /// The reaction to missing acknowledged commits.
    pub on_lost_commits: OnLostCommits,
    /// The extent of the check before the store is used.
    pub check: OpenCheck,
    /// Maximum size of the database in bytes; `None` is no limit.
    pub max_bytes: Option<u64>,
    /// Kinds of [host records](crate::HostRecord) that `retention.max_bytes` removes, the oldest first, before any record of a
    /// session. Records of other kinds are never removed by retention.
    pub expendable_records: &'static [&'static str],
}

/// Limits for ended turns; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SqliteRetention {
    /// The maximum age of streamed text chunks. Later records contain the whole text.
    pub text_chunks: Option<Duration>,
    /// The maximum age of records.
    pub max_age: Option<Duration>,
    /// Maximum size of the database in bytes; the oldest records are removed first.
    pub max_bytes: Option<u64>,
}

/// The reaction to a counter file that is ahead of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnLostCommits {
    /// The open fails, and nothing is changed.
    #[default]
    Refuse,
    /// The store opens without the lost commits. Streams may end before records that clients have already seen.
    Accept,
}

/// The extent of the check before a store is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OpenCheck {
    /// The size of the file and both ends of each table, which takes about a millisecond. All pages are checked after the open, while the store is in
    /// use. Once damage is found, every write fails, and [`SqliteStore::checked`](super::SqliteStore::checked) returns the damage.
    #[default]
    Glance,
    /// All pages of the database; takes as long as reading it.
    Structure,
    /// No check; damage is detected on read.
    Nothing,
}

impl SqliteOptions {
    /// Retains everything; no keys.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            chain_key: None,
            secrets_key: None,
            retention: SqliteRetention::default(),
            on_lost_commits: OnLostCommits::default(),
            check: OpenCheck::default(),
            max_bytes: None,
            expendable_records: &[],
        }
    }
    setters! {
        /// Sets the key of the chain.
        with_chain_key(ChainKey) |builder, key| builder.chain_key = Some(key);
        /// Sets the key that secrets are sealed with.
        with_secrets_key(SecretsKey) |builder, key| builder.secrets_key = Some(key);
        /// Sets the limits of retention.
        with_retention(SqliteRetention) |builder, retention| builder.retention = retention;
        /// Sets the reaction to missing commits.
        on_lost_commits(OnLostCommits) |builder, policy| builder.on_lost_commits = policy;
        /// Sets the extent of the check before use.
        with_check(OpenCheck) |builder, check| builder.check = check;
        /// Sets the kinds of host records that go before the records of sessions.
        with_expendable_records(&'static [&'static str]) |builder, kinds| builder.expendable_records = kinds;
        /// Sets the maximum size of the database in bytes.
        with_max_bytes(u64) |builder, bytes| builder.max_bytes = Some(bytes);
    }
}
