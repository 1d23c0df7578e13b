//! Values and secrets of sessions.

use std::sync::Arc;

use async_trait::async_trait;
use secrecy::ExposeSecret;
use windlass_core::error::Result;
use windlass_core::traits::{KeyInfo, SecretInfo, SessionStorageStore};
use windlass_core::typed_id::SessionId;

use super::secrets::Sealed;
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::inner::Inner;
use crate::sqlite::numbers::first_value;
use crate::sqlite::times::{now, time};

/// Values and secrets in a SQLite database, each session for itself; clones share them.
#[derive(Debug, Clone)]
pub struct SqliteSessionStorageStore {
    pub(crate) inner: Arc<Inner>,
}

/// The listed columns of a value or a secret.
type NameAndTimes = (
    String,
    chrono::DateTime<chrono::Utc>,
    chrono::DateTime<chrono::Utc>,
);

impl SqliteSessionStorageStore {
    async fn delete(&self, table: &'static str, session: SessionId, name: &str) -> Result<bool> {
        let name = name.to_owned();
        self.inner
            .write(move |work| {
                let deleted = work.db.execute_cached(
                    &format!("DELETE FROM {table} WHERE session = ?1 AND name = ?2"),
                    (session.uuid().as_bytes(), name),
                )?;
                Ok(deleted > 0)
            })
            .await
    }

    async fn list(&self, table: &'static str, session: SessionId) -> Result<Vec<NameAndTimes>> {
        self.inner
            .read(move |reader| {
                Ok(reader.list_rows(&format!(
                "SELECT name, created_at, updated_at FROM {table} WHERE session = ?1 ORDER BY name"
            ), [session.uuid().as_bytes()], |row| {
                Ok((row.get(0)?, time(row, 1)?, time(row, 2)?))
            })?)
            })
            .await
    }
}

#[async_trait]
impl SessionStorageStore for SqliteSessionStorageStore {
    async fn set_value(&self, session_id: SessionId, key: &str, value: &str) -> Result<()> {
        let (key, value) = (key.to_owned(), value.to_owned());
        self.inner
            .write(move |work| {
                let sql = "INSERT INTO entries (session, name, value, created_at, updated_at) \
                     VALUES (?1, ?2, ?3, ?4, ?4) ON CONFLICT (session, name) \
                     DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at";
                work.db
                    .execute_cached(sql, (session_id.uuid().as_bytes(), key, value, now()))?;
                Ok(())
            })
            .await
    }

    async fn get_value(&self, session_id: SessionId, key: &str) -> Result<Option<String>> {
        let key = key.to_owned();
        self.inner
            .read(move |reader| {
                Ok(reader.find_row(
                    "SELECT value FROM entries WHERE session = ?1 AND name = ?2",
                    (session_id.uuid().as_bytes(), key),
                    first_value,
                )?)
            })
            .await
    }

    async fn delete_value(&self, session_id: SessionId, key: &str) -> Result<bool> {
        self.delete("entries", session_id, key).await
    }

    async fn list_keys(&self, session_id: SessionId) -> Result<Vec<KeyInfo>> {
        let named = self.list("entries", session_id).await?.into_iter();
        let info = |(key, created_at, updated_at)| KeyInfo {
            key,
            created_at,
            updated_at,
        };
        Ok(named.map(info).collect())
    }

    async fn set_secret(&self, session_id: SessionId, name: &str, value: &str) -> Result<()> {
        let sealed = self.inner.vault.seal(session_id, name, value)?;
        let name = name.to_owned();
        self.inner.write(move |work| {
            let sql = "INSERT INTO secrets (session, name, key_id, nonce, sealed, created_at, updated_at) \
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6) ON CONFLICT (session, name) DO UPDATE SET \
                     key_id = excluded.key_id, nonce = excluded.nonce, sealed = excluded.sealed, \
                     updated_at = excluded.updated_at";
            work.db.execute_cached(sql, (
                    session_id.uuid().as_bytes(),
                    name,
                    sealed.key_id,
                    sealed.nonce,
                    sealed.bytes,
                    now(),
                ))?;
            Ok(())
        })
        .await
    }

    async fn get_secret(&self, session_id: SessionId, name: &str) -> Result<Option<String>> {
        let key = name.to_owned();
        let sealed: Result<Option<Sealed>> = self
            .inner
            .read(move |reader| {
                Ok(reader.find_row(
                    "SELECT key_id, nonce, sealed FROM secrets WHERE session = ?1 AND name = ?2",
                    (session_id.uuid().as_bytes(), key),
                    |row| {
                        Ok(Sealed {
                            key_id: row.get(0)?,
                            nonce: row.get(1)?,
                            bytes: row.get(2)?,
                        })
                    },
                )?)
            })
            .await;
        let Some(sealed) = sealed? else {
            return Ok(None);
        };
        let secret = self.inner.vault.open(session_id, name, &sealed)?;
        Ok(Some(secret.expose_secret().to_owned()))
    }

    async fn delete_secret(&self, session_id: SessionId, name: &str) -> Result<bool> {
        self.delete("secrets", session_id, name).await
    }

    async fn list_secrets(&self, session_id: SessionId) -> Result<Vec<SecretInfo>> {
        let named = self.list("secrets", session_id).await?.into_iter();
        let info = |(name, created_at, updated_at)| SecretInfo {
            name,
            created_at,
            updated_at,
        };
        Ok(named.map(info).collect())
    }

    async fn forget_session(&self, session_id: SessionId) -> Result<()> {
        self.inner
            .write(move |work| {
                for table in ["entries", "secrets"] {
                    work.db.execute_cached(
                        &format!("DELETE FROM {table} WHERE session = ?1"),
                        [session_id.uuid().as_bytes()],
                    )?;
                }
                Ok(())
            })
            .await
    }
}
