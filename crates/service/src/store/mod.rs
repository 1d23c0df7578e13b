//! What only the API knows, and the library does not.

mod kept;

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use windlass_protocol::Environment;
use windlass_store::{HostRecords, RunLog, Upkept};

use crate::error::ApiError;

pub use kept::HostWireStore;

/// How long an answer is kept for a repeated request.
pub(crate) const KEPT_FOR: TimeDelta = TimeDelta::hours(24);

/// The answer to a request that carried an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    /// The digest of the request: method, path and body.
    pub request: String,
    /// The status.
    pub status: u16,
    /// The media type of the body.
    pub content_type: Option<String>,
    /// The body.
    pub body: Vec<u8>,
    /// When it was given.
    pub at: DateTime<Utc>,
}

/// Keeps what only the API knows. A durable one makes it survive restarts.
#[async_trait]
pub trait WireStore: Send + Sync {
    /// Returns the answer that was given under a key, if it is not too old.
    async fn answer(&self, key: &str) -> Result<Option<StoredAnswer>, ApiError>;
    /// Keeps an answer under a key.
    async fn keep_answer(&self, key: &str, answer: StoredAnswer) -> Result<(), ApiError>;
    /// Returns all environments by id.
    async fn environments(&self) -> Result<Vec<Environment>, ApiError>;
    /// Adds an environment; tells whether the id was free.
    async fn add_environment(&self, environment: Environment) -> Result<bool, ApiError>;
    /// Removes an environment; tells whether it was there.
    async fn remove_environment(&self, id: &str) -> Result<bool, ApiError>;
    /// Removes what is not to be kept any more, and writes back what waits to be.
    async fn maintain(&self, _now: DateTime<Utc>) -> Result<Upkept, ApiError> {
        Ok(Upkept::default())
    }
    /// Returns how many bytes are in use; `None` where that is not known.
    async fn stored_bytes(&self) -> Result<Option<u64>, ApiError> {
        Ok(None)
    }
    /// Tells whether what is to be kept can be.
    async fn check_writes(&self) -> Result<(), ApiError> {
        Ok(())
    }
    /// Returns where records of other kinds are kept, such as saved sessions.
    fn records(&self) -> Arc<dyn HostRecords>;
    /// Returns where runs are kept.
    fn runs(&self) -> Arc<dyn RunLog>;
}
