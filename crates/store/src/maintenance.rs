//! Maintenance of a durable store. The host calls it from time to time, because the store has no clock.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use windlass_core::error::Result;

/// The result of a maintenance run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MaintenanceReport {
    /// Removed records, excluding text chunks.
    pub records: u64,
    /// Removed text chunks.
    pub chunks: u64,
    /// Bytes in use afterwards.
    pub stored_bytes: u64,
    /// Damage that was found and left as it is.
    pub findings: Vec<String>,
    /// Set where the limit of bytes cannot be met.
    pub over_limit: Option<OverLimit>,
}

/// A store whose limit of bytes is smaller than the rows that retention never removes: open jobs, files, values, secrets and the
/// records of sessions and agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverLimit {
    /// Bytes of the database in use.
    pub used: u64,
    /// Bytes of the rows that retention never removes.
    pub unremovable: u64,
    /// How many bytes may be used.
    pub limit: u64,
}

/// A store that needs maintenance.
#[async_trait]
pub trait Maintenance: Send + Sync {
    /// Applies the retention policy and writes the log back.
    async fn maintain_store(&self, now: DateTime<Utc>) -> Result<MaintenanceReport>;

    /// Returns the bytes in use.
    async fn stored_bytes(&self) -> Result<u64>;

    /// Returns the free bytes of the store's file system.
    async fn free_bytes(&self) -> Result<u64>;
}
