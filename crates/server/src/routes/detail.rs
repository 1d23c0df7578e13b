//! Threads and turns with their items, produced while they are read.

use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse;
use futures_util::stream::try_unfold;
use windlass_protocol::operations as op;
use windlass_service::{ApiCaller, ApiError, DetailJson};

use super::HandlerResult;
use crate::app::SharedApp;
use crate::error::Result;
use crate::http::operation::Operation;

/// Maximum bytes of a response with items that is composed in memory.
const SHORT_BYTES: usize = 64 * 1024;

pub(super) async fn thread(
    State(app): State<SharedApp>,
    request: Operation<op::GetThread>,
) -> HandlerResult {
    let Operation { ctx, call } = request;
    let newest = call.query.turns.unwrap_or(u64::MAX);
    let newest = usize::try_from(newest).unwrap_or(usize::MAX);
    let (id, items) = (&call.path.id, call.query.items);
    with_items(&app, &ctx.caller, || {
        app.service.thread_json(id, newest, items)
    })
    .await
}

pub(super) async fn turn(
    State(app): State<SharedApp>,
    request: Operation<op::GetTurn>,
) -> HandlerResult {
    let Operation { ctx, call } = request;
    let (id, turn) = (&call.path.id, &call.path.turn_id);
    with_items(&app, &ctx.caller, || app.service.turn_json(id, turn)).await
}

pub(super) async fn state(
    State(app): State<SharedApp>,
    request: Operation<op::GetThreadState>,
) -> HandlerResult {
    let Operation { ctx, call } = request;
    let (id, query) = (&call.path.id, &call.query);
    with_items(&app, &ctx.caller, || app.service.state_json(id, query)).await
}

/// Responds with an object that has items. A short response is composed in memory. A long one takes one of its token's permits and is produced as
/// fast as the client reads.
async fn with_items<F, M>(app: &SharedApp, caller: &ApiCaller, make: M) -> HandlerResult
where
    M: Fn() -> F,
    F: Future<Output = Result<DetailJson>>,
{
    let media = [("content-type", "application/json")];
    let composing = app.large_answers.compose().await;
    if let Some(json) = make().await?.read_short(SHORT_BYTES).await? {
        return Ok((media, json).into_response());
    }
    drop(composing);
    let permit = app.large_answers.take(app, caller).await?;
    let app = SharedApp::clone(app);
    let state = (make().await?, permit, app);
    let chunks = try_unfold(state, |(mut detail, permit, app)| async {
        let composing = app.large_answers.compose().await;
        let chunk = detail.next().await?;
        drop(composing);
        Ok::<_, ApiError>(chunk.map(|chunk| (chunk, (detail, permit, app))))
    });
    Ok((media, Body::from_stream(chunks)).into_response())
}
