//! Going on from a saved session: a fork at its turn.

use windlass_protocol::{ForkThread, ResumeSession, ResumedSession};

use super::Asked;
use crate::error::Result;
use crate::service::create::filled;

impl Asked {
    /// Makes a thread that begins with a session.
    pub(crate) async fn resume_session(
        &self,
        id: &str,
        request: ResumeSession,
    ) -> Result<ResumedSession> {
        self.caller.check_trust(None, None, request.mode)?;
        let (session, parent) = self.session_and_thread(id).await?;
        let fork = ForkThread {
            turn_id: Some(session.turn_id),
            model: filled(request.model),
        };
        let thread = self.fork_found(&parent, fork, request.mode).await?;
        let (count, title) = (session.message_count, &session.title);
        Ok(ResumedSession {
            summary: format!("Resumed \"{title}\" with {count} messages"),
            thread_id: thread.id,
            session_id: session.id,
            message_count: count,
        })
    }
}
