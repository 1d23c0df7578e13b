//! Saying something to a running turn.

use std::collections::HashMap;

use axum::extract::{Path, State};
use windlass_core::error::AgentLoopError;
use windlass_core::events::EventData;
use windlass_core::items::TurnStatus;
use windlass_core::message::InputMessage;
use windlass_core::typed_id::TurnId;
use windlass_protocol::{ErrorCode, SteerTurn};

use super::turns::said;
use super::{Answer, ok};
use crate::app::{App, Shared};
use crate::error::ApiError;
use crate::http::body::Payload;
use crate::http::scope;
use crate::threads::Entry;
use crate::{ids, view};

/// The name under which a message's metadata holds the digest of the request that brought it.
const REQUEST: &str = "windlass.request";

pub(super) async fn steer(
    State(app): State<Shared>,
    Path((id, turn_id)): Path<(String, String)>,
    Payload(request): Payload<SteerTurn>,
) -> Answer {
    said(&request.prompt)?;
    let entry = app.threads.find(&app.runtime, &id).await?;
    if app.steered_before(&entry, &turn_id).await? {
        return app.shown_turn(&entry, &turn_id).await;
    }
    let active = app.check_active(&entry, &turn_id)?;
    let mut input = InputMessage::user(request.prompt);
    if let Some(request) = scope::repeatable() {
        input.metadata = Some(HashMap::from([(REQUEST.to_owned(), request.into())]));
    }
    match app.runtime.steer_turn(entry.id, active, input).await {
        Ok(_) => {}
        // It ended between the look and the word.
        Err(AgentLoopError::NoActiveTurn(_)) => return Err(no_active_turn(&entry)),
        Err(error) => return Err(error.into()),
    }
    app.shown_turn(&entry, &turn_id).await
}

pub(super) fn no_active_turn(entry: &Entry) -> ApiError {
    let text = format!("No active turn on thread {}", ids::thread(entry.id));
    ApiError::new(ErrorCode::NoActiveTurn, text)
}

impl App {
    /// Checks that a turn is the one that runs.
    fn check_active(&self, entry: &Entry, turn_id: &str) -> Result<TurnId, ApiError> {
        let digest = entry.digest();
        let latest = digest.latest.as_ref();
        match latest {
            Some(latest) if latest.id.to_string() == turn_id => match latest.status {
                TurnStatus::InProgress => Ok(latest.id),
                TurnStatus::Interrupted => Err(ApiError::new(
                    ErrorCode::TurnStopping,
                    format!("Turn {turn_id} is stopping and cannot be steered"),
                )),
                _ => Err(no_active_turn(entry)),
            },
            _ => Err(ApiError::new(
                ErrorCode::TurnNotActive,
                format!(
                    "Turn {turn_id} is not active on thread {}",
                    ids::thread(entry.id)
                ),
            )),
        }
    }

    /// Tells whether the same request was said to the turn already, though its answer was lost.
    async fn steered_before(&self, entry: &Entry, turn_id: &str) -> Result<bool, ApiError> {
        let Some(request) = scope::repeatable() else {
            return Ok(false);
        };
        let begun = {
            let digest = entry.digest();
            let latest = digest.latest.as_ref();
            let latest = latest.filter(|latest| latest.id.to_string() == turn_id);
            latest.map(|latest| latest.seq)
        };
        let Some(begun) = begun else {
            return Ok(false);
        };
        let events = self.runtime.events_since(entry.id, begun, usize::MAX);
        Ok(events.await?.iter().any(|event| {
            let EventData::InputMessage(data) = &event.data else {
                return false;
            };
            let metadata = data.message.metadata.as_ref();
            metadata.and_then(|metadata| metadata.get(REQUEST)?.as_str()) == Some(&request)
        }))
    }

    /// Shows a turn of the thread's own as it is now.
    pub(super) async fn shown_turn(&self, entry: &Entry, turn_id: &str) -> Answer {
        let fold = self.folds.now(&self.runtime, entry.id).await?;
        let turn = ids::parse_turn(turn_id).and_then(|id| fold.log.turn(id));
        let turn = turn.ok_or_else(|| ApiError::new(ErrorCode::TurnNotFound, "Turn not found"))?;
        ok(&view::turn(turn))
    }
}
