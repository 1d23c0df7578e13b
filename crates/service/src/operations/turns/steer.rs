//! Adds input to a running turn.

use std::collections::HashMap;

use windlass_core::error::AgentLoopError;
use windlass_core::events::EventData;
use windlass_core::items::TurnStatus;
use windlass_core::message::InputMessage;
use windlass_core::typed_id::TurnId;
use windlass_protocol::{Mode, Turn};

use crate::operations::prelude::*;
use crate::operations::turns::queue::user_message;
use crate::operations::turns::start::require_prompt;
use crate::threads::FoundThread;
use crate::{ids, view};

/// The metadata key with the digest of the request that added a message.
const REQUEST: &str = "windlass.request";

pub(crate) fn no_active_turn(found: &FoundThread) -> ApiError {
    let text = format!("No active turn on thread {}", ids::thread(found.id));
    ApiError::new(ErrorCode::NoActiveTurn, text)
}

pub(crate) fn not_active(found: &FoundThread, turn_id: &str) -> ApiError {
    let thread = ids::thread(found.id);
    let text = format!("Turn {turn_id} is not active on thread {thread}");
    ApiError::new(ErrorCode::TurnNotActive, text)
}

/// Adds input to a turn if it is the running one.
impl Handle<op::SteerTurn> for Service {
    async fn handle(&self, ctx: &RequestContext, call: Call<op::SteerTurn>) -> Result<Turn> {
        let turn_id = &call.path.turn_id;
        let request = call.request;
        require_prompt(&request.prompt)?;
        let found = self.find(&call.path.id).await?;
        if self.already_steered(ctx, &found, turn_id).await? {
            return self.shown_turn(&found, turn_id).await;
        }
        let active = self.check_active(&found, turn_id)?;
        self.check_trusted(ctx, &found, active).await?;
        let content = self
            .content(&found.record, None, request.prompt, request.input)
            .await?;
        let input = with_request_digest(ctx, user_message(content));
        match self.runtime.steer_turn(found.id, active, input).await {
            Ok(_) => self.shown_turn(&found, turn_id).await,
            // The turn ended after the check.
            Err(AgentLoopError::NoActiveTurn(_)) => Err(no_active_turn(&found)),
            Err(error) => Err(error.into()),
        }
    }
}

/// Records the request with its message, so that a repeated request is detected.
pub(crate) fn with_request_digest(ctx: &RequestContext, mut input: InputMessage) -> InputMessage {
    if let Some(request) = ctx.repeatable.clone() {
        input.metadata = Some(HashMap::from([(REQUEST.to_owned(), request.into())]));
    }
    input
}

impl Service {
    /// Checks that a turn is the running one.
    fn check_active(&self, found: &FoundThread, turn_id: &str) -> Result<TurnId> {
        match &found.row.latest {
            Some(latest) if latest.id.to_string() == turn_id => match latest.status {
                TurnStatus::InProgress => Ok(latest.id),
                TurnStatus::Interrupted => Err(ApiError::new(
                    ErrorCode::TurnStopping,
                    format!("Turn {turn_id} is stopping and cannot be steered"),
                )),
                _ => Err(no_active_turn(found)),
            },
            _ if found.row.open_turn().is_none() => Err(no_active_turn(found)),
            _ => Err(not_active(found, turn_id)),
        }
    }

    /// In a thread with approvals, an agent may not add input to a turn that another client started without approvals.
    pub(crate) async fn check_trusted(
        &self,
        ctx: &RequestContext,
        found: &FoundThread,
        turn_id: TurnId,
    ) -> Result<()> {
        let thread = &found.thread;
        if ctx.caller.agent().is_none() || thread.auto_approve || thread.mode == Mode::Yolo {
            return Ok(());
        }
        let turn = self.queries.turn(&found.row.stream, turn_id).await?;
        let first = match &turn {
            Some(turn) => self.first_input(found, turn).await?,
            None => None,
        };
        let needs_approvals = match first.as_deref().map(|event| &event.data) {
            Some(EventData::InputMessage(data)) => {
                let request = data.message.turn_request();
                request.is_none_or(|request| !request.approve_all)
            }
            // Denied if it cannot be determined.
            _ => false,
        };
        if needs_approvals {
            return Ok(());
        }
        ctx.caller.check_approves_all()
    }

    /// Returns whether an earlier attempt of the request added its message and only its response was lost.
    pub(crate) async fn already_steered(
        &self,
        ctx: &RequestContext,
        found: &FoundThread,
        turn_id: &str,
    ) -> Result<bool> {
        let Some(request) = &ctx.repeatable else {
            return Ok(false);
        };
        let latest = found.row.latest.as_ref();
        let Some(latest) = latest.filter(|latest| latest.id.to_string() == turn_id) else {
            return Ok(false);
        };
        let first = latest.first_seq;
        let events = self.runtime.events_since(found.id, first, usize::MAX);
        Ok(events.await?.iter().any(|event| {
            let EventData::InputMessage(data) = &event.data else {
                return false;
            };
            let metadata = data.message.metadata.as_ref();
            metadata.and_then(|metadata| metadata.get(REQUEST)?.as_str()) == Some(request)
        }))
    }

    /// Returns the current state of one of the thread's turns.
    pub(crate) async fn shown_turn(&self, found: &FoundThread, turn_id: &str) -> Result<Turn> {
        let turn = match ids::parse_turn(turn_id) {
            Some(id) => self.queries.turn(&found.row.stream, id).await?,
            None => None,
        };
        let turn = turn.ok_or_else(ApiError::turn_not_found)?;
        Ok(view::turn(&turn.view))
    }
}
