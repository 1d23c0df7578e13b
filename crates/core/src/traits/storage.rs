//! Keys and secrets of a session.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::typed_id::SessionId;

/// Prefix of the mask that replaces a secret in a record; the secret's name and `]` follow.
pub const SECRET_MASK: &str = "[secret:";

/// A key without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyInfo {
    pub key: String,
    /// The time of the first write.
    pub created_at: DateTime<Utc>,
    /// The time of the last write.
    pub updated_at: DateTime<Utc>,
}

/// A secret without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretInfo {
    pub name: String,
    /// The time of the first write.
    pub created_at: DateTime<Utc>,
    /// The time of the last write.
    pub updated_at: DateTime<Utc>,
}

/// Values and secrets by name, separate for each session.
#[async_trait]
pub trait SessionStorageStore: Send + Sync {
    /// Creates or overwrites a value.
    async fn set_value(&self, session_id: SessionId, key: &str, value: &str) -> Result<()>;
    /// Returns a value; `None` if the key is not set.
    async fn get_value(&self, session_id: SessionId, key: &str) -> Result<Option<String>>;
    /// Deletes a value; returns whether it existed.
    async fn delete_value(&self, session_id: SessionId, key: &str) -> Result<bool>;
    /// Lists the keys by name.
    async fn list_keys(&self, session_id: SessionId) -> Result<Vec<KeyInfo>>;
    /// Creates or overwrites a secret.
    async fn set_secret(&self, session_id: SessionId, name: &str, value: &str) -> Result<()>;
    /// Returns a secret; `None` if the name is not set.
    async fn get_secret(&self, session_id: SessionId, name: &str) -> Result<Option<String>>;
    /// Deletes a secret; returns whether it existed.
    async fn delete_secret(&self, session_id: SessionId, name: &str) -> Result<bool>;
    /// Lists the secrets by name, without their values.
    async fn list_secrets(&self, session_id: SessionId) -> Result<Vec<SecretInfo>>;
    /// Drops the state of a removed session.
    async fn forget_session(&self, _session_id: SessionId) -> Result<()> {
        Ok(())
    }
}
