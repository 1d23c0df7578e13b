//! Answering a question of the agent.

use axum::extract::{Path, State};
use windlass_core::error::AgentLoopError;
use windlass_protocol::{ErrorCode, UserInputAnswered, UserInputAnswers};

use super::{Answer, ok};
use crate::app::Shared;
use crate::error::ApiError;
use crate::http::body::Payload;

pub(super) async fn answer(
    State(app): State<Shared>,
    Path((id, input_id)): Path<(String, String)>,
    Payload(answers): Payload<UserInputAnswers>,
) -> Answer {
    let found = app.find(&id).await?;
    let answer = serde_json::to_value(&answers).map_err(ApiError::internal)?;
    match app
        .runtime
        .answer_user_input(found.id, &input_id, answer)
        .await
    {
        Ok(_) | Err(AgentLoopError::NoActiveTurn(_)) => ok(&UserInputAnswered {
            ok: true,
            input_id,
            delivered: true,
        }),
        Err(AgentLoopError::NoPendingCall { .. }) => Err(ApiError::new(
            ErrorCode::UserInputNotPending,
            format!("no pending user-input request with id '{input_id}'"),
        )),
        Err(error) => Err(error.into()),
    }
}
