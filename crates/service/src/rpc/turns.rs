//! Turns of our own sessions, as those who call their runs off reach them.

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
            // One that came to its end meanwhile, or went with its session, needs no stopping.
            Ok(()) | Err(AgentLoopError::NoActiveTurn(_) | AgentLoopError::SessionNotFound(_)) => {
                Ok(())
            }
            Err(error) => Err(RunError::Storage(error.to_string())),
        }
    }
}
