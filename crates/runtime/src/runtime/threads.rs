//! Listing sessions without having them in memory.

use windlass_core::error::Result;
use windlass_core::session::Session;
use windlass_core::typed_id::SessionId;
use windlass_store::{Listed, StreamKey, ThreadQuery, ThreadRow};

use super::InProcessRuntime;
use crate::errors::from_query;

/// A session, as a list shows it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SessionSummary {
    /// Its record, with its title; status and usage are the thread's.
    pub session: Session,
    /// What its turns have done.
    pub thread: ThreadRow,
}

impl SessionSummary {
    fn new(mut session: Session, thread: ThreadRow) -> Self {
        // A fork that has no turn of its own is as it was made.
        if thread.turns > 0 || thread.origin.is_none() {
            session.status = thread.status();
        }
        session.usage = thread.usage.or(session.usage);
        session.updated_at = session.updated_at.max(thread.updated_at);
        Self { session, thread }
    }
}

impl InProcessRuntime {
    /// Lists the sessions in which something has happened, the one that was updated last first. It reads an index, and
    /// brings no session into memory.
    pub async fn session_summaries(&self, query: ThreadQuery) -> Result<Listed<SessionSummary>> {
        let backends = &self.inner.backends;
        let listed = backends.queries()?.threads(query).await;
        let listed = listed.map_err(from_query)?;
        let mut entries = Vec::with_capacity(listed.entries.len());
        for thread in listed.entries {
            // A host may write streams that are no sessions.
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

    /// Returns one session as a list shows it; `None` while nothing has happened in it, or where it is not there.
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
