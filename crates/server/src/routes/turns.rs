//! Turns: starting and showing them, and everything that is said to one.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use windlass_protocol::{
    DecideApproval, DynamicToolCallResult, StartTurn, SteerTurn, UserInputAnswers,
};

use super::{Answer, Id, created, ok, with_items};
use crate::app::Shared;
use crate::http::body::{Nothing, Payload};
use crate::http::path::Path;
use crate::http::request::Asked;
use windlass_service::ApiError;

/// Those of a thread, and of something in it.
type Ids = Path<(String, String)>;

pub(super) async fn start(asked: Asked, Path(id): Id, body: Payload<StartTurn>) -> Answer {
    created(&asked.start_turn(&id, body.0).await?)
}

pub(super) async fn detail(
    State(app): State<Shared>,
    asked: Asked,
    Path((id, turn)): Ids,
) -> Answer {
    with_items(&app, &asked, || asked.turn_json(&id, &turn)).await
}

pub(super) async fn steer(asked: Asked, Path((id, turn)): Ids, body: Payload<SteerTurn>) -> Answer {
    ok(&asked.steer_turn(&id, &turn, body.0).await?)
}

pub(super) async fn interrupt(asked: Asked, Path((id, turn)): Ids, _: Nothing) -> Answer {
    ok(&asked.interrupt_turn(&id, &turn).await?)
}

pub(super) async fn submit_result(
    asked: Asked,
    Path((id, turn, call)): Path<(String, String, String)>,
    body: Payload<DynamicToolCallResult>,
) -> Answer {
    let Payload(result, unknown) = body;
    if let Some(other) = unknown
        .top_level()
        .next()
        .filter(|_| result.content.is_empty())
    {
        // A call takes one result: one in an unknown field must not use the call up.
        let text = format!(
            "`{other}` is not read; put the result into `content`: [{{\"type\":\"input_text\",\"text\":\"…\"}}]"
        );
        return Err(ApiError::field("/content", text).into());
    }
    asked.submit_result(&id, &turn, &call, result).await?;
    Ok(StatusCode::ACCEPTED.into_response())
}

pub(super) async fn decide(asked: Asked, Path(id): Id, body: Payload<DecideApproval>) -> Answer {
    ok(&asked.decide(id, body.0).await?)
}

pub(super) async fn answer_input(
    asked: Asked,
    Path((id, input)): Ids,
    body: Payload<UserInputAnswers>,
) -> Answer {
    ok(&asked.answer_input(&id, input, &body.0).await?)
}
