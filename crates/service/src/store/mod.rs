//! Storage of data that only the API has.

mod host_records;
pub(crate) mod records;

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use windlass_protocol::EnvironmentInfo;
use windlass_store::{HostRecords, MaintenanceReport, RunLog};

use crate::error::ApiError;

pub use host_records::HostWireStore;

/// Retention of responses for repeated requests.
pub(crate) const ANSWER_RETENTION: TimeDelta = TimeDelta::hours(24);

/// The response to a request with an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAnswer {
    /// The digest of the request: method, path and body.
    pub request: String,
    /// HTTP status of the response.
    pub status: u16,
    /// The media type of the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Complete response body; in a record it follows the other fields.
    #[serde(skip)]
    pub body: Vec<u8>,
    /// When the response was created.
    pub at: DateTime<Utc>,
}

/// Stores data that only the API has. With a durable implementation, the data survives restarts.
#[async_trait]
pub trait WireStore: Send + Sync {
    /// Returns the response stored under a key, if it has not expired.
    async fn answer(&self, key: &str) -> Result<Option<StoredAnswer>, ApiError>;
    /// Stores a response under a key.
    async fn store_answer(&self, key: &str, answer: StoredAnswer) -> Result<(), ApiError>;
    /// Returns all environments by id.
    async fn environments(&self) -> Result<Vec<EnvironmentInfo>, ApiError>;
    /// Adds an environment; returns whether the ID was free.
    async fn add_environment(&self, environment: EnvironmentInfo) -> Result<bool, ApiError>;
    /// Removes an environment; returns whether it existed.
    async fn remove_environment(&self, id: &str) -> Result<bool, ApiError>;
    /// Removes expired data and flushes pending writes.
    async fn maintain(&self, _now: DateTime<Utc>) -> Result<MaintenanceReport, ApiError> {
        Ok(MaintenanceReport::default())
    }
    /// Returns the number of bytes in use; `None` if unknown.
    async fn stored_bytes(&self) -> Result<Option<u64>, ApiError> {
        Ok(None)
    }
    /// Checks that the store accepts writes.
    async fn check_writes(&self) -> Result<(), ApiError> {
        Ok(())
    }
    /// Returns the store of other records, such as saved sessions.
    fn records(&self) -> Arc<dyn HostRecords>;
    /// Returns the store of runs.
    fn runs(&self) -> Arc<dyn RunLog>;
}
