//! The routes: who may call each, and handlers that read a request, call the service and write its answer.

mod environments;
mod events;
mod groups;
mod health;
mod metrics;
mod openapi;
mod sessions;
mod snapshots;
mod stream;
mod table;
mod threads;
mod turns;
mod usage;
mod workspace;

use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::http::{Method, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tower_http::catch_panic::CatchPanicLayer;
use windlass_protocol::ErrorCode;

use crate::app::Shared;
use crate::error::{ApiError, Result};
use crate::http::{auth, cors, idempotency, request, whole};
use crate::service::rules::MayCall;

use table::Routes;
pub(crate) use table::{Table, may_call};
pub(crate) use threads::NEXT_CURSOR;

/// What a handler answers.
type Answer<T = Response> = Result<T>;

/// Makes a JSON answer.
fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(value).map_err(ApiError::internal)?;
    let media = [("content-type", "application/json")];
    Ok((status, media, body).into_response())
}

fn ok(value: &impl Serialize) -> Answer {
    json(StatusCode::OK, value)
}

fn created(value: &impl Serialize) -> Answer {
    json(StatusCode::CREATED, value)
}

/// The id in a path.
type Id = Path<String>;

/// All routes, each with who may call it.
#[rustfmt::skip]
fn routes() -> Routes {
    use MayCall::{Admin, Agent, Anyone, Client, Owner};
    let routes = Routes::default()
        .get("/health", Anyone, health::health)
        .get("/ready", Anyone, health::ready)
        .get("/v1/runtime/info", Anyone, health::info)
        .get("/metrics", Client, metrics::metrics)
        .get("/v1/threads", Agent, threads::list)
        .post("/v1/threads", Agent, threads::create)
        .get("/v1/threads/summary", Agent, threads::summary)
        .get("/v1/threads/{id}", Owner, threads::detail)
        .add(&Method::PATCH, "/v1/threads/{id}", Owner, threads::patch)
        .add(&Method::DELETE, "/v1/threads/{id}", Owner, threads::delete)
        .get("/v1/threads/{id}/export", Owner, events::export)
        .post("/v1/threads/{id}/resume", Owner, threads::resume)
        .post("/v1/threads/{id}/fork", Owner, threads::fork)
        .post("/v1/threads/{id}/undo", Owner, threads::undo)
        .post("/v1/threads/{id}/patch-undo", Owner, threads::patch_undo)
        .post("/v1/threads/{id}/retry", Owner, threads::retry)
        .post("/v1/threads/{id}/compact", Owner, threads::compact)
        .post("/v1/threads/{id}/replay", Client, threads::replay)
        .get("/v1/threads/{id}/events", Owner, events::events)
        .post("/v1/threads/{id}/turns", Owner, turns::start)
        .get("/v1/threads/{id}/turns/{turn_id}", Owner, turns::detail)
        .post("/v1/threads/{id}/turns/{turn_id}/steer", Owner, turns::steer)
        .post("/v1/threads/{id}/turns/{turn_id}/interrupt", Owner, turns::interrupt)
        .post("/v1/threads/{id}/turns/{turn_id}/tool-calls/{call_id}/result", Owner, turns::submit_result)
        .get("/v1/sessions", Agent, sessions::list)
        .post("/v1/sessions", Agent, sessions::save)
        .add(&Method::PUT, "/v1/sessions", Agent, sessions::update)
        .get("/v1/sessions/summary", Agent, sessions::summary)
        .get("/v1/sessions/{id}", Agent, sessions::get)
        .add(&Method::PATCH, "/v1/sessions/{id}", Agent, sessions::patch)
        .add(&Method::DELETE, "/v1/sessions/{id}", Agent, sessions::delete)
        .post("/v1/sessions/{id}/resume-thread", Agent, sessions::resume)
        .get("/v1/snapshots", Client, snapshots::list)
        .post("/v1/snapshots/{id}/restore", Client, snapshots::restore)
        .post("/v1/approvals/{approval_id}", Client, turns::decide)
        .post("/v1/user-input/{thread_id}/{input_id}", Client, turns::answer_input)
        .post("/v1/stream", Agent, stream::one_shot)
        .get("/v1/usage", Client, usage::usage)
        .get("/v1/environments", Agent, environments::list)
        .post("/v1/environments", Admin, environments::create)
        .get("/v1/environments/{id}", Agent, environments::get)
        .add(&Method::DELETE, "/v1/environments/{id}", Admin, environments::delete)
        .get("/v1/openapi.json", Agent, openapi::openapi)
        .get("/v1/workspace/status", Agent, workspace::status);
    groups::add(routes)
}

/// Lists all routes as `METHOD PATH: who may call it`, one a line.
#[must_use]
pub fn route_table() -> Vec<(String, &'static str, MayCall)> {
    let (_, table) = routes().finish();
    let rows = table.into_iter().flat_map(|(path, methods)| {
        let row = move |(method, may_call)| (method, path, may_call);
        methods.into_iter().map(row)
    });
    rows.collect()
}

/// Puts all routes together with what every request passes.
pub(crate) fn router(app: &Shared) -> Router {
    let (routes, table) = routes().finish();
    let gate = auth::Gate {
        app: Shared::clone(app),
        table: Arc::new(table),
    };
    // The last one is passed first.
    routes
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(Shared::clone(app), idempotency::check))
        .layer(from_fn_with_state(gate, auth::check))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(cors::layer(&app.settings.cors_origins))
        .layer(from_fn_with_state(Shared::clone(app), request::enter))
        .layer(from_fn_with_state(Shared::clone(app), whole::carry))
        .with_state(Shared::clone(app))
}

async fn unknown_path() -> ApiError {
    ApiError::new(ErrorCode::UnknownPath, "there is no such route")
}

async fn wrong_method() -> ApiError {
    ApiError::new(
        ErrorCode::MethodNotAllowed,
        "the route does not serve this method",
    )
}

fn panicked(panic: Box<dyn std::any::Any + Send>) -> Response {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    ApiError::internal(text.unwrap_or("a panic without words")).into_response()
}
