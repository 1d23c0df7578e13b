//! What a host keeps beside its sessions, in kinds that only it can read: a daemon's environments, for example.

mod memory;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use windlass_core::error::Result;

pub use memory::MemoryHostRecords;

/// A record of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRecord {
    /// Names it among those of its kind.
    pub name: String,
    /// What it holds.
    pub body: Bytes,
}

/// A record of the host that is written with an [append](crate::journal::Journal::append), or removed by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// Of which kind it is.
    pub kind: &'static str,
    /// Names it among those of its kind.
    pub key: String,
    /// What it holds from then on; `None` removes it.
    pub value: Option<Bytes>,
}

/// Keeps records of the host by kind and name.
#[async_trait]
pub trait HostRecords: Send + Sync {
    /// Finds a record.
    async fn get(&self, kind: &'static str, name: &str) -> Result<Option<HostRecord>>;

    /// Lists the records of a kind by name.
    async fn list(&self, kind: &'static str) -> Result<Vec<HostRecord>>;

    /// Lists records of a kind, the greatest name first, from behind one on: at most `limit`; costs what it returns.
    async fn page(
        &self,
        kind: &'static str,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<HostRecord>>;

    /// Adds records, each of its kind, or replaces those of their names; all or nothing.
    async fn put_all(
        &self,
        records: Vec<(&'static str, HostRecord)>,
        at: DateTime<Utc>,
    ) -> Result<()>;

    /// Adds a record or replaces the one of its name.
    async fn put(&self, kind: &'static str, record: HostRecord, at: DateTime<Utc>) -> Result<()> {
        self.put_all(vec![(kind, record)], at).await
    }

    /// Adds a record; tells whether its name was free.
    async fn add(&self, kind: &'static str, record: HostRecord, at: DateTime<Utc>) -> Result<bool>;

    /// Removes a record; tells whether it was there.
    async fn remove(&self, kind: &'static str, name: &str) -> Result<bool>;

    /// Removes the records of a kind that are older than a time, and of the rest all but the newest; returns how many.
    async fn trim(&self, kind: &'static str, before: DateTime<Utc>, newest: usize)
    -> Result<usize>;
}
