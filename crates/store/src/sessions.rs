//! Sessions in memory.

use std::collections::HashMap;

use async_trait::async_trait;
use chrono::Utc;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::session::Session;
use windlass_core::traits::{SessionMutator, SessionStore};
use windlass_core::typed_id::SessionId;
use windlass_macros::OpaqueDebug;

use windlass_core::lock::Shared;

/// Sessions in memory; clones share them.
#[derive(OpaqueDebug, Default, Clone)]
pub struct InMemorySessionStore {
    /// Boxed, so that the empty places of the table take little memory.
    sessions: Shared<HashMap<SessionId, Box<Session>>>,
}

impl InMemorySessionStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a session or replaces the one with its id.
    pub async fn add_session(&self, session: Session) {
        self.sessions.write().insert(session.id, Box::new(session));
    }

    /// Changes a session atomically; returns whether it exists.
    pub fn modify(&self, session_id: SessionId, change: impl FnOnce(&mut Session)) -> bool {
        match self.sessions.write().get_mut(&session_id) {
            Some(session) => {
                change(session);
                true
            }
            None => false,
        }
    }

    /// Returns whether a session exists.
    #[must_use]
    pub fn contains(&self, session_id: SessionId) -> bool {
        self.sessions.read().contains_key(&session_id)
    }

    /// Removes a session and returns it.
    pub fn remove_session(&self, session_id: SessionId) -> Option<Session> {
        self.sessions
            .write()
            .remove(&session_id)
            .map(|session| *session)
    }

    /// Lists the sessions, the oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<Session> {
        let mut sessions: Vec<Session> = self
            .sessions
            .read()
            .values()
            .map(|session| Session::clone(session))
            .collect();
        sessions.sort_by_key(|session| (session.created_at, session.id.uuid()));
        sessions
    }
}

#[async_trait]
impl SessionStore for InMemorySessionStore {
    async fn get_session(&self, session_id: SessionId) -> Result<Option<Session>> {
        Ok(self
            .sessions
            .read()
            .get(&session_id)
            .map(|session| Session::clone(session)))
    }
}

#[async_trait]
impl SessionMutator for InMemorySessionStore {
    async fn update_session_title(&self, session_id: SessionId, title: String) -> Result<Session> {
        let mut sessions = self.sessions.write();
        let session = sessions
            .get_mut(&session_id)
            .ok_or_else(|| AgentLoopError::store(format!("session not found: {session_id}")))?;
        session.title = Some(title);
        session.updated_at = Utc::now();
        Ok(Session::clone(session))
    }
}
