//! The inputs of a session that wait for their turns: listing, changing and removing them.

use windlass_core::error::Result;
use windlass_core::message::{ContentPart, InputMessage};
use windlass_core::typed_id::{SessionId, TurnId};
use windlass_turn::{Input, QueueEdit, Queued};

use super::InProcessRuntime;
use crate::thread::ThreadCommand;
use crate::turn_context::{ContextRequest, assemble};

impl InProcessRuntime {
    /// Returns the queued inputs of a session, the next one first. No turn is resumed.
    pub async fn queued_inputs(&self, session_id: SessionId) -> Result<Vec<Queued>> {
        let thread = self.inner.thread(session_id).await?;
        Ok(thread.queue().iter().cloned().collect())
    }

    /// Fails if the model or external agent that an input names does not accept its content. An input that starts a turn at
    /// once is checked anyway; one that waits is otherwise checked only when its turn begins.
    ///
    /// # Errors
    ///
    /// [`AgentLoopError::UnsupportedInput`](windlass_core::error::AgentLoopError::UnsupportedInput).
    pub async fn check_input(&self, session_id: SessionId, input: &InputMessage) -> Result<()> {
        if !input.content.iter().any(ContentPart::is_image) {
            return Ok(());
        }
        let request = ContextRequest {
            controls: input.controls.clone(),
            discovery: self.recorded_tools(session_id).await?,
            ..ContextRequest::default()
        };
        // Boxed because few inputs have images, and the future of every input would be as large.
        let assembled = Box::pin(assemble(&self.inner, session_id, request)).await?;
        assembled.context.check_images()
    }

    /// Changes the content or the position of a queued input. Returns the queue after the change, once it is durable.
    ///
    /// # Errors
    ///
    /// [`AgentLoopError::TurnNotQueued`](windlass_core::error::AgentLoopError::TurnNotQueued) if the turn has begun or ended,
    /// or does not exist.
    pub async fn edit_queued_input(
        &self,
        session_id: SessionId,
        turn_id: TurnId,
        edit: QueueEdit,
    ) -> Result<Vec<Queued>> {
        self.ask(session_id, |reply| ThreadCommand::EditQueued {
            turn_id,
            edit,
            reply,
        })
        .await
    }

    /// Removes a queued input: its turn ends as cancelled without having begun. A turn that has begun is not stopped.
    ///
    /// # Errors
    ///
    /// [`AgentLoopError::TurnNotQueued`](windlass_core::error::AgentLoopError::TurnNotQueued) if the turn has begun or ended,
    /// or does not exist.
    pub async fn remove_queued_input(
        &self,
        session_id: SessionId,
        turn_id: TurnId,
        reason: Option<String>,
    ) -> Result<()> {
        let input = Box::new(Input::RemoveQueued { turn_id, reason });
        self.ask(session_id, |reply| ThreadCommand::Decide { input, reply })
            .await
    }
}
