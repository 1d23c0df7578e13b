//! Stopping a turn.

use axum::extract::{Path, State};
use windlass_core::error::AgentLoopError;
use windlass_protocol::ErrorCode;

use super::Answer;
use super::steer::no_active_turn;
use crate::app::Shared;
use crate::error::ApiError;
use crate::http::body::Nothing;
use crate::ids;

pub(super) async fn interrupt(
    State(app): State<Shared>,
    Path((id, turn_id)): Path<(String, String)>,
    _: Nothing,
) -> Answer {
    let entry = app.threads.find(&app.runtime, &id).await?;
    let active = entry.digest().active().map(|active| active.id);
    let Some(active) = active else {
        return Err(no_active_turn(&entry));
    };
    if active.to_string() != turn_id {
        return Err(ApiError::new(
            ErrorCode::TurnNotActive,
            format!(
                "Turn {turn_id} is not active on thread {}",
                ids::thread(entry.id)
            ),
        ));
    }
    match app.runtime.interrupt(entry.id, Some(active), None).await {
        Ok(()) => {}
        Err(AgentLoopError::NoActiveTurn(_)) => return Err(no_active_turn(&entry)),
        Err(error) => return Err(error.into()),
    }
    app.shown_turn(&entry, &turn_id).await
}
