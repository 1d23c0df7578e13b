//! Saved sessions: named bookmarks of threads.
//!
//! A session is one host record: a thread and its last included turn. Saving copies nothing, showing reads the thread, and resuming forks it there. A
//! session is deleted with its thread.

mod change;
mod list;
mod redact;
mod resume;
mod save;
mod show;

use chrono::Utc;
use windlass_protocol::{ErrorCode, SessionMetadata};
use windlass_store::HostRecord;

use super::RequestContext;
use crate::error::{ApiError, Result};
use crate::ids;
use crate::locks::NamedLock;
use crate::service::Service;
use crate::store::records as stored;
use crate::threads::FoundThread;

/// The kind of the records.
const KIND: &str = "saved_session";
/// The name of the lock for writing sessions. Writes are rare and short.
const WRITING: &str = "saved sessions";
/// Maximum length of a title.
const TITLE_CHARS: usize = 200;

fn not_found(id: &str) -> ApiError {
    let text = format!("Session not found: {id}");
    ApiError::new(ErrorCode::SessionNotFound, text)
}

/// Validates a title from a client.
fn checked_title(title: &str) -> Result<String> {
    let title = title.trim();
    let is_long = title.chars().nth(TITLE_CHARS).is_some();
    if title.is_empty() || is_long || title.chars().any(char::is_control) {
        let text = format!("a title has 1 to {TITLE_CHARS} characters, and no control characters");
        return Err(ApiError::field("/title", text));
    }
    Ok(title.to_owned())
}

impl Service {
    /// Locks the sessions for writing. Lock order: the lock of a thread, then this one.
    async fn writing_sessions(&self) -> NamedLock {
        self.write_locks.lock(WRITING).await
    }

    /// Returns all sessions that the caller may see, unordered.
    async fn sessions(&self, ctx: &RequestContext) -> Result<Vec<SessionMetadata>> {
        let records = self.store.records().list(KIND).await?;
        // An unreadable session is logged and does not hide the others.
        let read = records.iter().filter_map(|record| {
            let read = stored::session(&record.body);
            read.inspect_err(|error| {
                tracing::error!(%error, session = record.name, "a saved session cannot be read");
            })
            .ok()
        });
        Ok(read
            .filter(|session| self.can_access(ctx, session))
            .collect())
    }

    /// For an agent, sessions of other owners do not exist.
    fn can_access(&self, ctx: &RequestContext, session: &SessionMetadata) -> bool {
        let agent = ctx.caller.agent();
        agent.is_none() || agent == session.agent.as_deref()
    }

    async fn session(&self, ctx: &RequestContext, id: &str) -> Result<SessionMetadata> {
        if !ids::is_session(id) {
            return Err(not_found(id));
        }
        let found = self.session_if_any(ctx, id).await?;
        found.ok_or_else(|| not_found(id))
    }

    async fn session_if_any(
        &self,
        ctx: &RequestContext,
        id: &str,
    ) -> Result<Option<SessionMetadata>> {
        let Some(record) = self.store.records().get(KIND, id).await? else {
            return Ok(None);
        };
        let session = stored::session(&record.body).map_err(ApiError::internal)?;
        Ok(Some(session).filter(|session| self.can_access(ctx, session)))
    }

    /// Finds a session with its thread. Without its thread, the session does not exist either.
    pub(crate) async fn session_and_thread(
        &self,
        ctx: &RequestContext,
        id: &str,
    ) -> Result<(SessionMetadata, FoundThread)> {
        let session = self.session(ctx, id).await?;
        match self.find_if_any(&session.thread_id).await? {
            Some(thread) => Ok((session, thread)),
            None => Err(not_found(id).with_message(format!(
                "Session not found: {id}; its thread {} was removed",
                session.thread_id
            ))),
        }
    }

    async fn store_session(&self, session: &SessionMetadata) -> Result<()> {
        let record = HostRecord {
            name: session.id.clone(),
            body: stored::stored_session(session)
                .map_err(ApiError::internal)?
                .into(),
        };
        self.store.records().put(KIND, record, Utc::now()).await?;
        Ok(())
    }

    /// Deletes the sessions of a deleted thread.
    pub(crate) async fn forget_sessions(
        &self,
        ctx: &RequestContext,
        thread_id: &str,
    ) -> Result<()> {
        let _guard = self.writing_sessions().await;
        for session in self.sessions(ctx).await? {
            if session.thread_id == thread_id {
                self.store.records().remove(KIND, &session.id).await?;
            }
        }
        Ok(())
    }
}
