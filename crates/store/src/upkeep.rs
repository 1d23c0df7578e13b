//! What a durable store asks its host to do from time to time: the store has no clock of its own.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use windlass_core::error::Result;

/// What upkeep did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Upkept {
    /// Records that were removed, but for pieces of text.
    pub records: u64,
    /// Pieces of streamed text that were removed.
    pub chunks: u64,
    /// How many bytes are in use afterwards.
    pub stored_bytes: u64,
    /// What is damaged and was left alone.
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

/// A store that wants upkeep.
#[async_trait]
pub trait Upkeep: Send + Sync {
    /// Removes what retention does not keep, and writes back what waits to be.
    async fn keep_up(&self, now: DateTime<Utc>) -> Result<Upkept>;

    /// Returns how many bytes are in use.
    async fn stored_bytes(&self) -> Result<u64>;

    /// Returns how many bytes are left where the store keeps its files.
    async fn room(&self) -> Result<u64>;
}
