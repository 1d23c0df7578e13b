//! Deletes a thread with all its records.

use windlass_core::error::AgentLoopError;
use windlass_core::typed_id::SessionId;

use crate::ids;
use crate::operations::prelude::*;
use crate::threads::FoundThread;
use crate::tokens::TokenScope;

/// Deletes a thread without a running turn. Records that forks share remain until the last such fork is deleted.
impl Handle<op::DeleteThread> for Service {
    async fn handle(&self, ctx: &RequestContext, call: Call<op::DeleteThread>) -> Result<()> {
        let id = &call.path.id;
        let not_found = || ApiError::thread_not_found(id);
        let session_id = ids::parse_thread(id).ok_or_else(not_found)?;
        let _guard = self.write_locks.lock(&session_id.to_string()).await;
        match self.look_up(session_id).await? {
            Some(found) => self.remove_found(ctx, found).await,
            None if self.is_half_removed(ctx, session_id).await? => {
                self.runtime.remove_idle_session(session_id).await?;
                self.forget_rest(ctx, session_id).await;
                Ok(())
            }
            None => {
                // If a process ended after the thread was deleted, its saved sessions may remain.
                if ctx.caller.scope == TokenScope::Admin {
                    self.forget_sessions(ctx, &ids::thread(session_id)).await?;
                }
                Err(not_found())
            }
        }
    }
}

impl Service {
    async fn remove_found(&self, ctx: &RequestContext, found: FoundThread) -> Result<()> {
        self.runtime.remove_idle_session(found.id).await?;
        if let Some(agent) = found.thread.agent.filter(|_| !found.thread.archived) {
            self.thread_quota.release_for_agent(&agent);
        }
        self.forget_rest(ctx, found.id).await;
        Ok(())
    }

    /// Deletes data that belongs to a thread. The thread is already gone, so errors are only logged.
    async fn forget_rest(&self, ctx: &RequestContext, id: SessionId) {
        self.forget_files(id).await;
        // A session that remains is never found, because its thread is gone. Deleting the thread again removes it.
        if let Err(error) = self.forget_sessions(ctx, &ids::thread(id)).await {
            tracing::warn!(%error, "the saved sessions of a deleted thread could not be deleted");
        }
    }

    /// Returns whether a process ended in the middle of a deletion: the conversation is gone, but the session's record is not. Its owner is unknown
    /// by then, so only an admin may complete the deletion.
    async fn is_half_removed(&self, ctx: &RequestContext, id: SessionId) -> Result<bool> {
        if ctx.caller.scope != TokenScope::Admin {
            return Ok(false);
        }
        let is_served = match self.runtime.session(id).await {
            Err(AgentLoopError::SessionNotFound(_)) => false,
            session => session?.harness_id == self.settings.harness_id,
        };
        Ok(is_served && self.runtime.events_since(id, 0, 1).await?.is_empty())
    }

    /// Deletes the checkpoints of the files that its turns changed.
    async fn forget_files(&self, id: SessionId) {
        let Some(checkpoints) = self.settings.environments.checkpoints() else {
            return;
        };
        let forgetting = tokio::task::spawn_blocking(move || checkpoints.forget(id));
        if let Ok(Err(error)) = forgetting.await {
            tracing::warn!(%error, "the checkpoints of a deleted thread could not be deleted");
        }
    }
}
