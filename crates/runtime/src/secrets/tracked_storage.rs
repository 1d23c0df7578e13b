//! The store of a session's values and secrets, which registers every secret that passes through it.

use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::error::Result;
use windlass_core::traits::{KeyInfo, SecretInfo, SessionStorageStore};
use windlass_core::typed_id::SessionId;

use super::KnownSecrets;

/// Forwards all calls to a store, and registers its secrets.
pub(crate) struct SecretTrackingStorage {
    pub(crate) store: Arc<dyn SessionStorageStore>,
    pub(crate) secrets: Arc<KnownSecrets>,
}

#[async_trait]
impl SessionStorageStore for SecretTrackingStorage {
    async fn set_value(&self, session_id: SessionId, key: &str, value: &str) -> Result<()> {
        self.store.set_value(session_id, key, value).await
    }
    async fn get_value(&self, session_id: SessionId, key: &str) -> Result<Option<String>> {
        self.store.get_value(session_id, key).await
    }
    async fn delete_value(&self, session_id: SessionId, key: &str) -> Result<bool> {
        self.store.delete_value(session_id, key).await
    }
    async fn list_keys(&self, session_id: SessionId) -> Result<Vec<KeyInfo>> {
        self.store.list_keys(session_id).await
    }
    async fn set_secret(&self, session_id: SessionId, name: &str, value: &str) -> Result<()> {
        self.store.set_secret(session_id, name, value).await?;
        self.secrets.note(session_id, name, value);
        Ok(())
    }
    async fn get_secret(&self, session_id: SessionId, name: &str) -> Result<Option<String>> {
        let value = self.store.get_secret(session_id, name).await?;
        match &value {
            Some(value) => self.secrets.note(session_id, name, value),
            None => self.secrets.forget(session_id, name),
        }
        Ok(value)
    }
    async fn delete_secret(&self, session_id: SessionId, name: &str) -> Result<bool> {
        let deleted = self.store.delete_secret(session_id, name).await?;
        self.secrets.forget(session_id, name);
        Ok(deleted)
    }
    async fn list_secrets(&self, session_id: SessionId) -> Result<Vec<SecretInfo>> {
        self.store.list_secrets(session_id).await
    }
    async fn forget_session(&self, session_id: SessionId) -> Result<()> {
        self.secrets.forget_session(session_id);
        self.store.forget_session(session_id).await
    }
}
