//! Keys and secrets in memory.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use secrecy::{ExposeSecret, SecretString};
use windlass_core::error::Result;
use windlass_core::traits::{KeyInfo, SecretInfo, SessionStorageStore};
use windlass_core::typed_id::SessionId;
use windlass_macros::OpaqueDebug;

use windlass_core::lock::Shared;

/// A value with its times.
struct Entry<V> {
    value: V,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

type NamedEntries<V> = BTreeMap<String, Entry<V>>;

/// The values of one session. A [`SecretString`] wipes its bytes whenever it is dropped: on replacement, deletion and removal of the session.
#[derive(Default)]
struct SessionEntries {
    values: NamedEntries<String>,
    secrets: NamedEntries<SecretString>,
}

/// Keys and secrets in memory, separately for each session; clones share them.
#[derive(OpaqueDebug, Default, Clone)]
pub struct InMemorySessionStorageStore {
    sessions: Shared<HashMap<SessionId, SessionEntries>>,
}

impl InMemorySessionStorageStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn look<R>(&self, session_id: SessionId, look: impl FnOnce(&SessionEntries) -> R) -> Option<R> {
        self.sessions.read().get(&session_id).map(look)
    }

    /// Deletes from a session, and the session's own entry with its last name.
    fn delete(
        &self,
        session_id: SessionId,
        delete: impl FnOnce(&mut SessionEntries) -> bool,
    ) -> bool {
        let mut sessions = self.sessions.write();
        let Some(entries) = sessions.get_mut(&session_id) else {
            return false;
        };
        let deleted = delete(entries);
        if entries.values.is_empty() && entries.secrets.is_empty() {
            sessions.remove(&session_id);
        }
        deleted
    }
}

fn put<V>(names: &mut NamedEntries<V>, name: &str, value: V) {
    let now = Utc::now();
    match names.get_mut(name) {
        Some(entry) => {
            entry.value = value;
            entry.updated_at = now;
        }
        None => {
            let entry = Entry {
                value,
                created_at: now,
                updated_at: now,
            };
            names.insert(name.to_owned(), entry);
        }
    }
}

/// Lists names with their times of creation and update.
fn list<V, I>(
    names: &NamedEntries<V>,
    info: impl Fn(String, DateTime<Utc>, DateTime<Utc>) -> I,
) -> Vec<I> {
    let names = names.iter();
    names
        .map(|(name, entry)| info(name.clone(), entry.created_at, entry.updated_at))
        .collect()
}

#[async_trait]
impl SessionStorageStore for InMemorySessionStorageStore {
    async fn set_value(&self, session_id: SessionId, key: &str, value: &str) -> Result<()> {
        let mut sessions = self.sessions.write();
        let entries = sessions.entry(session_id).or_default();
        put(&mut entries.values, key, value.to_owned());
        Ok(())
    }

    async fn get_value(&self, session_id: SessionId, key: &str) -> Result<Option<String>> {
        let found = self.look(session_id, |entries| {
            entries.values.get(key).map(|entry| entry.value.clone())
        });
        Ok(found.flatten())
    }

    async fn delete_value(&self, session_id: SessionId, key: &str) -> Result<bool> {
        Ok(self.delete(session_id, |entries| entries.values.remove(key).is_some()))
    }

    async fn list_keys(&self, session_id: SessionId) -> Result<Vec<KeyInfo>> {
        let listed = self.look(session_id, |entries| {
            list(&entries.values, |key, created_at, updated_at| KeyInfo {
                key,
                created_at,
                updated_at,
            })
        });
        Ok(listed.unwrap_or_default())
    }

    async fn set_secret(&self, session_id: SessionId, name: &str, value: &str) -> Result<()> {
        let mut sessions = self.sessions.write();
        let entries = sessions.entry(session_id).or_default();
        put(&mut entries.secrets, name, SecretString::from(value));
        Ok(())
    }

    async fn get_secret(&self, session_id: SessionId, name: &str) -> Result<Option<String>> {
        let found = self.look(session_id, |entries| {
            let entry = entries.secrets.get(name)?;
            Some(entry.value.expose_secret().to_owned())
        });
        Ok(found.flatten())
    }

    async fn delete_secret(&self, session_id: SessionId, name: &str) -> Result<bool> {
        Ok(self.delete(session_id, |entries| entries.secrets.remove(name).is_some()))
    }

    async fn list_secrets(&self, session_id: SessionId) -> Result<Vec<SecretInfo>> {
        let listed = self.look(session_id, |entries| {
            list(&entries.secrets, |name, created_at, updated_at| {
                SecretInfo {
                    name,
                    created_at,
                    updated_at,
                }
            })
        });
        Ok(listed.unwrap_or_default())
    }

    async fn forget_session(&self, session_id: SessionId) -> Result<()> {
        self.sessions.write().remove(&session_id);
        Ok(())
    }
}
