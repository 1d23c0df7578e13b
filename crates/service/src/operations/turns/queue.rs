//! Input for a busy thread: joining the running turn, and the queue of inputs that wait for their turns.

use windlass_core::error::AgentLoopError;
use windlass_core::message::{ContentPart, InputMessage, Message};
use windlass_core::typed_id::TurnId;
use windlass_protocol::{InputQueue, Mode, QueuedInput, Turn};
use windlass_runtime::{OnBusy, QueueEdit, Queued};

use crate::operations::prelude::*;
use crate::operations::turns::start::require_prompt;
use crate::operations::turns::steer::with_request_digest;
use crate::threads::FoundThread;
use crate::{ids, view};

/// Converts the policy of a request. An input that finds no turn to join is queued.
pub(crate) fn policy(on_busy: windlass_protocol::OnBusy) -> OnBusy {
    use windlass_protocol::OnBusy as Wire;
    match on_busy {
        Wire::Refuse => OnBusy::Refuse,
        Wire::Queue | Wire::Steer => OnBusy::Queue,
        Wire::Interrupt => OnBusy::Interrupt,
    }
}

impl Service {
    /// Returns a queued turn.
    pub(crate) async fn queued_turn(
        &self,
        found: &FoundThread,
        turn_id: TurnId,
    ) -> Result<Option<Turn>> {
        let queue = self.runtime.queued_inputs(found.id).await?;
        let mut queue = queue.iter();
        let queued = queue.find(|queued| queued.turn_id == turn_id);
        Ok(queued.map(|queued| view::queued_turn(found.id, turn_id, &queued.message)))
    }
}

/// Returns the queued inputs of a thread.
impl Handle<op::ListQueue> for Service {
    async fn handle(&self, _: &RequestContext, call: Call<op::ListQueue>) -> Result<InputQueue> {
        let found = self.find(&call.path.id).await?;
        let queue = self.runtime.queued_inputs(found.id).await?;
        Ok(wire_queue(&queue))
    }
}

/// Changes the text or the position of a queued input.
impl Handle<op::EditQueuedInput> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::EditQueuedInput>,
    ) -> Result<QueuedInput> {
        let (turn_id, request) = (&call.path.turn_id, call.request);
        if request.prompt.is_none() && request.position.is_none() {
            let text = "the request has neither `prompt` nor `position`";
            return Err(ApiError::new(ErrorCode::NoChanges, text));
        }
        if let Some(prompt) = &request.prompt {
            require_prompt(prompt)?;
        }
        let found = self.find(&call.path.id).await?;
        let queued = self.queued(&found, turn_id).await?;
        check_queued_trust(ctx, &found, &queued.message)?;
        let edit = QueueEdit {
            content: request
                .prompt
                .map(|text| with_prompt(&queued.message.content, text)),
            position: request.position.map(saturated),
        };
        let turn = queued.turn_id;
        let edited = self.runtime.edit_queued_input(found.id, turn, edit).await;
        let queue = self.or_not_queued(&found, turn, edited).await?;
        let mut inputs = wire_queue(&queue).queue.into_iter();
        let edited = inputs.find(|input| input.turn_id == *turn_id);
        edited.ok_or_else(ApiError::turn_not_found)
    }
}

/// Removes a queued input. A turn that has started is not interrupted.
impl Handle<op::RemoveQueuedInput> for Service {
    async fn handle(&self, _: &RequestContext, call: Call<op::RemoveQueuedInput>) -> Result<()> {
        let found = self.find(&call.path.id).await?;
        let turn = ids::parse_turn(&call.path.turn_id).ok_or_else(ApiError::turn_not_found)?;
        let removed = self.runtime.remove_queued_input(found.id, turn, None).await;
        self.or_not_queued(&found, turn, removed).await
    }
}

impl Service {
    /// Returns the turn of an input that does not start its own turn now: the running turn that it joins, or the turn that an earlier attempt of the
    /// request queued.
    pub(crate) async fn queued_or_steered(
        &self,
        ctx: &RequestContext,
        found: &FoundThread,
        content: &[ContentPart],
        on_busy: windlass_protocol::OnBusy,
    ) -> Result<Option<Turn>> {
        use windlass_protocol::OnBusy as Wire;
        if on_busy == Wire::Refuse {
            return Ok(None);
        }
        if let Some(request) = &ctx.repeatable {
            let queued = self.queued_turn(found, ids::derived_turn(request)).await?;
            if queued.is_some() {
                return Ok(queued);
            }
        }
        match on_busy {
            Wire::Steer => {
                let input = user_message(content.to_vec());
                self.join_running(ctx, found, input).await
            }
            Wire::Refuse | Wire::Queue | Wire::Interrupt => Ok(None),
        }
    }

    /// Adds an input to the running turn; `None` if there is none.
    async fn join_running(
        &self,
        ctx: &RequestContext,
        found: &FoundThread,
        input: InputMessage,
    ) -> Result<Option<Turn>> {
        let Some(open) = found.row.open_turn().map(|turn| turn.id) else {
            return Ok(None);
        };
        let turn_id = open.to_string();
        if self.already_steered(ctx, found, &turn_id).await? {
            return self.shown_turn(found, &turn_id).await.map(Some);
        }
        self.check_trusted(ctx, found, open).await?;
        let input = with_request_digest(ctx, input);
        match self.runtime.steer_turn(found.id, open, input).await {
            Ok(_) => self.shown_turn(found, &turn_id).await.map(Some),
            // The turn ended in the meantime.
            Err(AgentLoopError::NoActiveTurn(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn queued(&self, found: &FoundThread, turn_id: &str) -> Result<Queued> {
        let turn = ids::parse_turn(turn_id).ok_or_else(ApiError::turn_not_found)?;
        let queue = self.runtime.queued_inputs(found.id).await?;
        match queue.into_iter().find(|queued| queued.turn_id == turn) {
            Some(queued) => Ok(queued),
            None => Err(self.not_queued(found, turn).await?),
        }
    }

    async fn or_not_queued<T>(
        &self,
        found: &FoundThread,
        turn: TurnId,
        result: windlass_core::error::Result<T>,
    ) -> Result<T> {
        match result {
            Err(AgentLoopError::TurnNotQueued { .. }) => Err(self.not_queued(found, turn).await?),
            result => Ok(result?),
        }
    }

    /// A turn that has started or ended has a row; any other is unknown.
    async fn not_queued(&self, found: &FoundThread, turn: TurnId) -> Result<ApiError> {
        let row = self.queries.turn(&found.row.stream, turn).await?;
        Ok(match row {
            Some(_) => ApiError::new(
                ErrorCode::TurnNotQueued,
                format!("Turn {turn} has started and is no longer in the queue"),
            ),
            None => ApiError::turn_not_found(),
        })
    }
}

/// In a thread with approvals, an agent may not rewrite the input of a turn that another client queued without approvals.
fn check_queued_trust(ctx: &RequestContext, found: &FoundThread, message: &Message) -> Result<()> {
    let thread = &found.thread;
    let is_trusted = thread.auto_approve || thread.mode == Mode::Yolo;
    let request = message.turn_request();
    if is_trusted || !request.is_some_and(|request| request.approve_all) {
        return Ok(());
    }
    ctx.caller.check_approves_all()
}

pub(crate) fn user_message(content: Vec<ContentPart>) -> InputMessage {
    InputMessage {
        content,
        ..InputMessage::user("")
    }
}

/// Replaces the prompt, which is the first text; images and files are unchanged.
fn with_prompt(content: &[ContentPart], prompt: String) -> Vec<ContentPart> {
    let mut content = content.to_vec();
    let mut texts = content.iter_mut();
    match texts.find(|part| part.as_text().is_some()) {
        Some(first) => *first = ContentPart::text(prompt),
        None => content.insert(0, ContentPart::text(prompt)),
    }
    content
}

fn wire_queue(queue: &[Queued]) -> InputQueue {
    let inputs = (0..).zip(queue);
    let queue = inputs.map(|(position, queued)| view::queued_input(position, queued));
    InputQueue {
        queue: queue.collect(),
    }
}
