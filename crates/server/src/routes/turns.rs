//! Turns: starting and showing them, and everything that is said to one.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use windlass_protocol::{
    DecideApproval, DynamicToolCallResult, StartTurn, SteerTurn, UserInputAnswers,
};

use super::{Answer, json, ok};
use crate::app::Shared;
use crate::http::body::{Nothing, Payload};
use crate::service::Asked;

pub(super) async fn start(
    State(app): State<Shared>,
    asked: Asked,
    Path(id): Path<String>,
    Payload(request): Payload<StartTurn>,
) -> Answer {
    let started = app.start_turn(&asked, &id, request).await?;
    json(StatusCode::CREATED, &started)
}

pub(super) async fn detail(
    State(app): State<Shared>,
    Path((id, turn_id)): Path<(String, String)>,
) -> Answer {
    ok(&app.turn_detail(&id, &turn_id).await?)
}

pub(super) async fn steer(
    State(app): State<Shared>,
    asked: Asked,
    Path((id, turn_id)): Path<(String, String)>,
    Payload(request): Payload<SteerTurn>,
) -> Answer {
    ok(&app.steer_turn(&asked, &id, &turn_id, request).await?)
}

pub(super) async fn interrupt(
    State(app): State<Shared>,
    Path((id, turn_id)): Path<(String, String)>,
    _: Nothing,
) -> Answer {
    ok(&app.interrupt_turn(&id, &turn_id).await?)
}

pub(super) async fn submit_result(
    State(app): State<Shared>,
    Path((id, turn_id, call_id)): Path<(String, String, String)>,
    Payload(result): Payload<DynamicToolCallResult>,
) -> Answer {
    app.submit_result(&id, &turn_id, &call_id, result).await?;
    Ok(StatusCode::ACCEPTED.into_response())
}

pub(super) async fn decide(
    State(app): State<Shared>,
    asked: Asked,
    Path(approval_id): Path<String>,
    Payload(request): Payload<DecideApproval>,
) -> Answer {
    ok(&app.decide(&asked.caller, approval_id, request).await?)
}

pub(super) async fn answer_input(
    State(app): State<Shared>,
    Path((id, input_id)): Path<(String, String)>,
    Payload(answers): Payload<UserInputAnswers>,
) -> Answer {
    ok(&app.answer_input(&id, input_id, &answers).await?)
}
