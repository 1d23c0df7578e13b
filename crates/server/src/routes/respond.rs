//! The handlers of operations, by the form of their response.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::try_unfold;
use serde::Serialize;
use windlass_protocol::api::{Page, ResponseStream};
use windlass_protocol::operations::{self as op, Endpoint};
use windlass_service::{ApiError, Handle, Service};

use super::HandlerResult;
use crate::app::SharedApp;
use crate::http::operation::Operation;

/// Cursor of the next page; absent on the last page.
pub(crate) const NEXT_CURSOR: HeaderName = HeaderName::from_static("x-windlass-next-cursor");

fn status<E: Endpoint>() -> StatusCode {
    StatusCode::from_u16(E::OPERATION.status).unwrap_or_default()
}

fn write<E: Endpoint>(value: &impl Serialize) -> HandlerResult {
    let body = serde_json::to_vec(value).map_err(ApiError::internal)?;
    let media = [(header::CONTENT_TYPE, "application/json")];
    Ok((status::<E>(), media, body).into_response())
}

fn with_cursor(mut response: Response, next: Option<String>) -> HandlerResult {
    if let Some(next) = next {
        let next = HeaderValue::try_from(next).map_err(ApiError::internal)?;
        response.headers_mut().insert(NEXT_CURSOR, next);
    }
    Ok(response)
}

pub(super) async fn json<E>(State(app): State<SharedApp>, request: Operation<E>) -> HandlerResult
where
    E: Endpoint<Response: Serialize + Send>,
    Service: Handle<E>,
{
    let Operation { ctx, call } = request;
    write::<E>(&app.service.handle(&ctx, call).await?)
}

pub(super) async fn list<E, T>(State(app): State<SharedApp>, request: Operation<E>) -> HandlerResult
where
    E: Endpoint<Response = Page<T>>,
    T: Serialize + Send,
    Service: Handle<E>,
{
    let Operation { ctx, call } = request;
    let Page { entries, next } = app.service.handle(&ctx, call).await?;
    with_cursor(write::<E>(&entries)?, next)
}

pub(super) async fn empty<E>(State(app): State<SharedApp>, request: Operation<E>) -> HandlerResult
where
    E: Endpoint<Response = ()>,
    Service: Handle<E>,
{
    let Operation { ctx, call } = request;
    app.service.handle(&ctx, call).await?;
    Ok(status::<E>().into_response())
}

pub(super) async fn text<E>(State(app): State<SharedApp>, request: Operation<E>) -> HandlerResult
where
    E: Endpoint<Response = String>,
    Service: Handle<E>,
{
    let Operation { ctx, call } = request;
    let text = app.service.handle(&ctx, call).await?;
    let media = "text/plain; version=0.0.4; charset=utf-8";
    Ok((status::<E>(), [(header::CONTENT_TYPE, media)], text).into_response())
}

/// Streams lines as fast as the client reads them. An error aborts the response.
pub(super) async fn lines<E>(State(app): State<SharedApp>, request: Operation<E>) -> HandlerResult
where
    E: Endpoint<Response = ResponseStream<Vec<u8>>>,
    Service: Handle<E>,
{
    let Operation { ctx, call } = request;
    let permit = app.large_answers.take(&app, &ctx.caller).await?;
    let lines = app.service.handle(&ctx, call).await?;
    let lines = try_unfold((lines, permit), |(mut lines, permit)| async {
        let line = lines.next().await?;
        Ok::<_, windlass_protocol::api::CallError>(line.map(|line| (line, (lines, permit))))
    });
    let media = [
        (header::CONTENT_TYPE, "application/x-ndjson"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((media, Body::from_stream(lines)).into_response())
}

/// Lists tasks. The list is an object, so the cursor of its next page is not in a [`Page`].
pub(super) async fn tasks(
    State(app): State<SharedApp>,
    request: Operation<op::ListTasks>,
) -> HandlerResult {
    let Operation { ctx, call } = request;
    let mut tasks = app.service.handle(&ctx, call).await?;
    let next = tasks.next.take();
    with_cursor(write::<op::ListTasks>(&tasks)?, next)
}
