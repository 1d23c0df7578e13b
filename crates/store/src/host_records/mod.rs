//! Records that a host stores next to its sessions, in kinds that only the host can decode: a daemon's environments, for example.

mod memory;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use windlass_core::error::Result;

pub use memory::MemoryHostRecords;

/// A record of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRecord {
    /// Unique within its kind.
    pub name: String,
    /// The encoded record.
    pub body: Bytes,
}

/// A host record that an [append](crate::journal::Journal::append) writes or removes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowWrite {
    pub kind: &'static str,
    /// The name of the record, unique within its kind.
    pub key: String,
    /// The new value; `None` removes the record.
    pub value: Option<Bytes>,
}

/// Storage of host records by kind and name.
#[async_trait]
pub trait HostRecords: Send + Sync {
    /// Finds a record by kind and name.
    async fn get(&self, kind: &'static str, name: &str) -> Result<Option<HostRecord>>;

    /// Lists the records of a kind by name.
    async fn list(&self, kind: &'static str) -> Result<Vec<HostRecord>>;

    /// Lists records of a kind in descending order of names, after a given name: at most `limit`. The cost depends only on the result.
    async fn page(
        &self,
        kind: &'static str,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<HostRecord>>;

    /// Adds or replaces records of any kinds; all or nothing.
    async fn put_all(
        &self,
        records: Vec<(&'static str, HostRecord)>,
        at: DateTime<Utc>,
    ) -> Result<()>;

    /// Adds a record or replaces the one of its name.
    async fn put(&self, kind: &'static str, record: HostRecord, at: DateTime<Utc>) -> Result<()> {
        self.put_all(vec![(kind, record)], at).await
    }

    /// Adds a record; returns false if a record with its name exists.
    async fn add(&self, kind: &'static str, record: HostRecord, at: DateTime<Utc>) -> Result<bool>;

    /// Removes a record; returns whether it existed.
    async fn remove(&self, kind: &'static str, name: &str) -> Result<bool>;

    /// Removes the records of a kind that are older than a time, and of the rest all but the newest; returns how many.
    async fn trim(&self, kind: &'static str, before: DateTime<Utc>, newest: usize)
    -> Result<usize>;
}
