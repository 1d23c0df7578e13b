//! Cancellation of turns through the run RPC.

use async_trait::async_trait;
use windlass_core::error::AgentLoopError;
use windlass_core::typed_id::{SessionId, TurnId};
use windlass_runs::{RunError, Turns};
use windlass_runtime::InProcessRuntime;

pub(super) struct OwnTurns(pub(super) InProcessRuntime);

#[async_trait]
impl Turns for OwnTurns {
    async fn interrupt(
        &self,
        session_id: SessionId,
        turn_id: TurnId,
        reason: String,
    ) -> Result<(), RunError> {
        let stopped = self.0.interrupt(session_id, Some(turn_id), Some(reason));
        match stopped.await {
            // A turn that has ended meanwhile, or was removed with its thread, needs no interrupt.
            Ok(()) | Err(AgentLoopError::NoActiveTurn(_) | AgentLoopError::SessionNotFound(_)) => {
                Ok(())
            }
            Err(error) => Err(RunError::Storage(error.to_string())),
        }
    }
}
