//! Listing sessions without having them in memory.

use std::collections::HashMap;

use windlass_core::error::Result;
use windlass_core::session::Session;
use windlass_core::typed_id::SessionId;
use windlass_store::{Listed, StreamKey, ThreadCursor, ThreadEntry, ThreadFilter, Window};

use super::InProcessRuntime;
use crate::errors::from_journal;

/// A session, as a list shows it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SessionSummary {
    /// Its record, with its title; status and usage are the thread's.
    pub session: Session,
    /// What its turns have done.
    pub thread: ThreadEntry,
}

impl SessionSummary {
    fn new(mut session: Session, thread: ThreadEntry) -> Self {
        session.status = thread.status();
        session.usage = thread.usage.or(session.usage);
        session.updated_at = session.updated_at.max(thread.activity);
        Self { session, thread }
    }
}

impl InProcessRuntime {
    /// Lists the sessions in which something has happened, the one with the newest activity first. It reads an index, and
    /// brings no session into memory.
    pub async fn session_summaries(
        &self,
        filter: ThreadFilter,
        window: Window<ThreadCursor>,
    ) -> Result<Listed<SessionSummary, ThreadCursor>> {
        let backends = &self.inner.backends;
        let listed = backends.journal.threads(filter, window).await;
        let listed = listed.map_err(from_journal)?;
        let mut entries = Vec::with_capacity(listed.entries.len());
        for thread in listed.entries {
            // Runs from outside have threads without sessions.
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

    /// Returns the number of the newest event of each session in which something has happened. It reads an index, so
    /// whoever keeps what he has read of many sessions knows which of them to read on.
    pub async fn latest_sequences(&self) -> Result<HashMap<SessionId, u64>> {
        let heads = self.inner.backends.journal.heads().await;
        let heads = heads.map_err(from_journal)?.into_iter();
        let latest = heads.filter_map(|(stream, head)| Some((stream.as_str().parse().ok()?, head)));
        Ok(latest.collect())
    }

    /// Returns one session as a list shows it; `None` while nothing has happened in it, or where it is not there.
    pub async fn session_summary(&self, session_id: SessionId) -> Result<Option<SessionSummary>> {
        let backends = &self.inner.backends;
        let thread = backends.journal.thread(&StreamKey::from(session_id)).await;
        let thread = thread.map_err(from_journal)?;
        let session = backends.session_store.get_session(session_id).await?;
        let both = session.zip(thread);
        Ok(both.map(|(session, thread)| SessionSummary::new(session, thread)))
    }
}
