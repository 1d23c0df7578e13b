//! Listing sessions without loading them into memory.

use windlass_core::error::Result;
use windlass_core::session::Session;
use windlass_core::typed_id::SessionId;
use windlass_store::{Listed, StreamKey, ThreadQuery, ThreadRow};

use super::InProcessRuntime;
use crate::errors::from_query;

/// A session in a list.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SessionSummary {
    /// Its record; status and usage come from the thread.
    pub session: Session,
    /// Progress of its turns.
    pub thread: ThreadRow,
}

impl SessionSummary {
    fn new(mut session: Session, thread: ThreadRow) -> Self {
        apply_thread(&mut session, &thread);
        Self { session, thread }
    }
}

/// Updates status, usage and time of a session's record from its thread.
pub(crate) fn apply_thread(session: &mut Session, thread: &ThreadRow) {
    // A fork without its own turn has the status and usage that it was created with.
    if thread.turns > 0 || thread.origin.is_none() {
        session.status = thread.status();
    }
    session.usage = thread.usage.or(session.usage);
    session.updated_at = session.updated_at.max(thread.updated_at);
}

impl InProcessRuntime {
    /// Lists the sessions with events, most recently updated first. It reads an index, and loads no session into memory.
    pub async fn session_summaries(&self, query: ThreadQuery) -> Result<Listed<SessionSummary>> {
        let backends = &self.inner.backends;
        let listed = backends.queries()?.threads(query).await;
        let listed = listed.map_err(from_query)?;
        let mut entries = Vec::with_capacity(listed.entries.len());
        for thread in listed.entries {
            // A host may write streams that are not sessions.
            let Ok(session_id) = thread.stream.as_str().parse() else {
                continue;
            };
            if let Some(session) = backends.session_store.get_session(session_id).await? {
                entries.push(SessionSummary::new(session, thread));
            }
        }
        Ok(Listed {
            entries,
            next: listed.next,
        })
    }

    /// Returns the list entry of one session; `None` if it has no events or does not exist.
    pub async fn session_summary(&self, session_id: SessionId) -> Result<Option<SessionSummary>> {
        let backends = &self.inner.backends;
        let thread = backends
            .queries()?
            .thread(&StreamKey::from(session_id))
            .await;
        let thread = thread.map_err(from_query)?;
        let session = backends.session_store.get_session(session_id).await?;
        let both = session.zip(thread);
        Ok(both.map(|(session, thread)| SessionSummary::new(session, thread)))
    }
}
