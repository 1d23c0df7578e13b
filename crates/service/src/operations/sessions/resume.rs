//! Resumes a saved session: creates a fork at its turn.

use windlass_protocol::{ForkThread, ResumedSession, TurnPolicyParams};

use crate::operations::prelude::*;
use crate::operations::threads::create::non_blank;

/// Creates a thread that starts with a session's history.
impl Handle<op::ResumeSession> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::ResumeSession>,
    ) -> Result<ResumedSession> {
        let id = &call.path.id;
        let request = call.request;
        ctx.caller.check_trust(&TurnPolicyParams {
            mode: request.mode,
            ..TurnPolicyParams::default()
        })?;
        let (session, parent) = self.session_and_thread(ctx, id).await?;
        let fork = ForkThread {
            turn_id: Some(session.turn_id.clone()),
            model: non_blank(request.model),
        };
        let is_stored = match self.find_turn(&parent, &session.turn_id).await {
            Ok(turn) => !turn.is_pruned,
            Err(error) if error.code() == ErrorCode::TurnNotFound => false,
            Err(error) => return Err(error),
        };
        // An earlier attempt of the request may have created the thread while the turn still existed.
        if !is_stored && self.already_created(ctx).await?.is_none() {
            return Err(ApiError::turn_not_found().with_message(format!(
                "Session {id} cannot be resumed: retention removed the records of its turn {}; its thread {} still exists",
                session.turn_id, session.thread_id
            )));
        }
        let thread = self.fork_thread(ctx, &parent, fork, request.mode).await?;
        let (count, title) = (session.message_count, &session.title);
        Ok(ResumedSession {
            summary: format!("Resumed \"{title}\" with {count} messages"),
            thread_id: thread.id,
            session_id: session.id,
            message_count: count,
        })
    }
}
