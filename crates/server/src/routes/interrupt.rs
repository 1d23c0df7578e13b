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
    let found = app.find(&id).await?;
    let active = found.row.open_turn().map(|turn| turn.id);
    let Some(active) = active else {
        return Err(no_active_turn(&found));
    };
    if active.to_string() != turn_id {
        return Err(ApiError::new(
            ErrorCode::TurnNotActive,
            format!(
                "Turn {turn_id} is not active on thread {}",
                ids::thread(found.id)
            ),
        ));
    }
    match app.runtime.interrupt(found.id, Some(active), None).await {
        Ok(()) => {}
        Err(AgentLoopError::NoActiveTurn(_)) => return Err(no_active_turn(&found)),
        Err(error) => return Err(error.into()),
    }
    app.shown_turn(&found, &turn_id).await
}
