//! Removing a thread with all that is recorded of it.

use windlass_core::error::AgentLoopError;
use windlass_core::typed_id::SessionId;
use windlass_protocol::api::Call;
use windlass_protocol::operations as op;

use super::RequestContext;
use crate::error::{ApiError, Result};
use crate::handle::Handle;
use crate::ids;
use crate::service::Service;
use crate::threads::FoundThread;
use crate::tokens::TokenScope;

/// Removes a thread in which nothing runs. What a fork shares with it stays until the last such fork goes.
impl Handle<op::DeleteThread> for Service {
    async fn handle(&self, context: &RequestContext, call: Call<op::DeleteThread>) -> Result<()> {
        let id = &call.path.id;
        let not_found = || ApiError::thread_not_found(id);
        let session_id = ids::parse_thread(id).ok_or_else(not_found)?;
        let _alone = self.changing.lock(&session_id.to_string()).await;
        match self.look_up(session_id).await? {
            Some(found) => self.remove_found(context, found).await,
            None if self.is_half_removed(context, session_id).await? => {
                self.runtime.remove_idle_session(session_id).await?;
                self.forget_rest(context, session_id).await;
                Ok(())
            }
            None => {
                // A process that ended between the two left its saved sessions behind.
                if context.caller.scope == TokenScope::Admin {
                    self.forget_sessions(context, &ids::thread(session_id))
                        .await?;
                }
                Err(not_found())
            }
        }
    }
}

impl Service {
    async fn remove_found(&self, context: &RequestContext, found: FoundThread) -> Result<()> {
        self.runtime.remove_idle_session(found.id).await?;
        if let Some(agent) = found.thread.agent.filter(|_| !found.thread.archived) {
            self.rooms.give_back(&agent);
        }
        self.forget_rest(context, found.id).await;
        Ok(())
    }

    /// Removes what is kept beside a thread. The thread is gone, so what goes wrong is told in the log.
    async fn forget_rest(&self, context: &RequestContext, id: SessionId) {
        self.forget_files(id).await;
        // One that stays is not found any more, because its thread is not; removing the thread again clears it away.
        if let Err(error) = self.forget_sessions(context, &ids::thread(id)).await {
            tracing::warn!(%error, "saved sessions of a removed thread are still kept");
        }
    }

    /// Tells whether the process ended in the middle of a removal: the conversation is gone, and the session's record is not. Whose
    /// it was is gone too, so only an admin may finish it.
    async fn is_half_removed(&self, context: &RequestContext, id: SessionId) -> Result<bool> {
        if context.caller.scope != TokenScope::Admin {
            return Ok(false);
        }
        let is_ours = match self.runtime.session(id).await {
            Err(AgentLoopError::SessionNotFound(_)) => false,
            session => session?.harness_id == self.settings.harness_id,
        };
        Ok(is_ours && self.runtime.events_since(id, 0, 1).await?.is_empty())
    }

    /// Removes what was kept of the files that its turns changed.
    async fn forget_files(&self, id: SessionId) {
        let Some(checkpoints) = self.settings.environments.checkpoints() else {
            return;
        };
        let forgetting = tokio::task::spawn_blocking(move || checkpoints.forget(id));
        if let Ok(Err(error)) = forgetting.await {
            tracing::warn!(%error, "files of a removed thread are still kept");
        }
    }
}
