//! Values and secrets of sessions.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, Row};
use secrecy::ExposeSecret;
use windlass_core::error::Result;
use windlass_core::traits::{KeyInfo, SecretInfo, SessionStorageStore};
use windlass_core::typed_id::SessionId;

use super::secrets::Sealed;
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::inner::Inner;
use crate::sqlite::numbers::first_value;
use crate::sqlite::times::{now, time};
use crate::sqlite::write::writer::WriteContext;

/// Values and secrets in a SQLite database, separately for each session; clones share them.
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
    async fn delete(&self, table: &str, session: SessionId, name: &str) -> Result<bool> {
        let sql = format!("DELETE FROM {table} WHERE session = ?1 AND name = ?2");
        let key = (session.uuid().into_bytes(), name.to_owned());
        Ok(self.inner.execute(sql, key).await? > 0)
    }

    async fn list(&self, table: &'static str, session: SessionId) -> Result<Vec<NameAndTimes>> {
        let list = move |reader: &Connection| {
            let sql = format!(
                "SELECT name, created_at, updated_at FROM {table} WHERE session = ?1 ORDER BY name"
            );
            let times = |row: &Row<'_>| Ok((row.get(0)?, time(row, 1)?, time(row, 2)?));
            Ok(reader.list_rows(&sql, [session.uuid().as_bytes()], times)?)
        };
        self.inner.read(list).await
    }
}

#[async_trait]
impl SessionStorageStore for SqliteSessionStorageStore {
    async fn set_value(&self, session_id: SessionId, key: &str, value: &str) -> Result<()> {
        let sql = "INSERT INTO entries (session, name, value, created_at, updated_at) \
            VALUES (?1, ?2, ?3, ?4, ?4) ON CONFLICT (session, name) \
            DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at";
        let session = session_id.uuid().into_bytes();
        let row = (session, key.to_owned(), value.to_owned(), now());
        self.inner.execute(sql, row).await.map(drop)
    }

    async fn get_value(&self, session_id: SessionId, key: &str) -> Result<Option<String>> {
        let key = (session_id.uuid().into_bytes(), key.to_owned());
        let find = move |reader: &Connection| {
            let sql = "SELECT value FROM entries WHERE session = ?1 AND name = ?2";
            Ok(reader.find_row(sql, key, first_value)?)
        };
        self.inner.read(find).await
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
        let Sealed {
            key_id,
            nonce,
            bytes,
        } = self.inner.cipher.seal(session_id, name, value)?;
        let sql = "INSERT INTO secrets (session, name, key_id, nonce, sealed, created_at, updated_at) \
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6) ON CONFLICT (session, name) DO UPDATE SET \
            key_id = excluded.key_id, nonce = excluded.nonce, sealed = excluded.sealed, \
            updated_at = excluded.updated_at";
        let session = session_id.uuid().into_bytes();
        let row = (session, name.to_owned(), key_id, nonce, bytes, now());
        self.inner.execute(sql, row).await.map(drop)
    }

    async fn get_secret(&self, session_id: SessionId, name: &str) -> Result<Option<String>> {
        let key = (session_id.uuid().into_bytes(), name.to_owned());
        let find = move |reader: &Connection| {
            let sql = "SELECT key_id, nonce, sealed FROM secrets WHERE session = ?1 AND name = ?2";
            Ok(reader.find_row(sql, key, |row| {
                Ok(Sealed {
                    key_id: row.get(0)?,
                    nonce: row.get(1)?,
                    bytes: row.get(2)?,
                })
            })?)
        };
        let sealed: Result<Option<Sealed>> = self.inner.read(find).await;
        let Some(sealed) = sealed? else {
            return Ok(None);
        };
        let secret = self.inner.cipher.open(session_id, name, &sealed)?;
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
        let delete = move |work: &mut WriteContext<'_>| {
            for table in ["entries", "secrets"] {
                let sql = format!("DELETE FROM {table} WHERE session = ?1");
                work.db
                    .execute_cached(&sql, [session_id.uuid().as_bytes()])?;
            }
            Ok(())
        };
        self.inner.write(delete).await
    }
}
