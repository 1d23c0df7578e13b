//! Responses of server-sent events.

use axum::extract::State;
use axum::http::HeaderMap;
use futures_util::stream::unfold;
use windlass_protocol::operations as op;
use windlass_service::{ApiError, frame};

use super::HandlerResult;
use crate::app::SharedApp;
use crate::error::Result;
use crate::http::operation::Operation;
use crate::http::outflow::Outflow;
use crate::sse;

pub(super) async fn of_thread(
    State(app): State<SharedApp>,
    headers: HeaderMap,
    outflow: Outflow,
    request: Operation<op::StreamEvents>,
) -> HandlerResult {
    let Operation { ctx, mut call } = request;
    if let Some(last) = last_event_id(&headers)? {
        call.query.since_seq = Some(last);
    }
    let follower = app.service.follow_call(&ctx, call).await?;
    let (frames, response) = sse::channel(outflow);
    tokio::spawn(sse::feed(follower, frames, app.service.stopping.clone()));
    Ok(response)
}

/// Reads the `Last-Event-ID` header, which browsers send when they reconnect.
fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let number = value
        .to_str()
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let invalid = || ApiError::query("Last-Event-ID is not a number");
    number.map(Some).ok_or_else(invalid)
}

pub(super) async fn of_fleet_run(
    State(app): State<SharedApp>,
    outflow: Outflow,
    request: Operation<op::StreamFleetEvents>,
) -> HandlerResult {
    let Operation { ctx, call } = request;
    let follower = app.service.follow_fleet_run(&ctx, call).await?;
    let (stopping, revoked) = (app.service.stopping.clone(), follower.revoked());
    let frames = unfold(follower, |mut follower| async {
        let event = follower.next_event().await?;
        let frame = frame(Some(&event.cursor), &event.event, &event);
        Some((frame, follower))
    });
    Ok(sse::stream(outflow, stopping, revoked, frames))
}

pub(super) async fn of_one_turn(
    State(app): State<SharedApp>,
    outflow: Outflow,
    request: Operation<op::StreamOneTurn>,
) -> HandlerResult {
    let Operation { ctx, call } = request;
    let turn = app.service.one_shot(&ctx, call.request).await?;
    let (stopping, revoked) = (app.service.stopping.clone(), turn.revoked());
    let frames = unfold(turn, |mut turn| async {
        let frame = turn.next_frame().await?;
        Some((frame, turn))
    });
    Ok(sse::stream(outflow, stopping, revoked, frames))
}
