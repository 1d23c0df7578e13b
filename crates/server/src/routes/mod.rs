//! The routes: who may call each, and handlers that read a request, call the service and write its answer.

mod agent_runs;
mod apps;
mod automations;
mod config;
mod environments;
mod events;
mod fleet;
mod health;
mod metrics;
mod openapi;
mod sessions;
mod snapshots;
mod stream;
mod table;
mod tasks;
mod threads;
mod turns;
mod usage;
mod workspace;

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tower_http::catch_panic::CatchPanicLayer;
use windlass_protocol::ErrorCode;

use crate::app::Shared;
use crate::error::{ApiError, Result};
use crate::http::path::Path;
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

fn accepted(value: &impl Serialize) -> Answer {
    json(StatusCode::ACCEPTED, value)
}

/// The id in a path.
type Id = Path<String>;

/// All routes, each with who may call it.
#[rustfmt::skip]
fn routes() -> Routes {
    use MayCall::{Admin, Agent, Anyone, Client, Owner};
    Routes::default()
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
        .get("/v1/threads/{id}/context", Owner, threads::context)
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
        .post("/v1/threads/{id}/agent-runs/{agent_id}/cancel", Owner, agent_runs::cancel)
        .post("/v1/threads/{id}/agent-runs/nudge", Owner, agent_runs::nudge)
        .get("/v1/sessions", Agent, sessions::list)
        .post("/v1/sessions", Agent, sessions::save)
        .add(&Method::PUT, "/v1/sessions", Agent, sessions::update)
        .get("/v1/sessions/summary", Agent, sessions::summary)
        .get("/v1/sessions/{id}", Agent, sessions::get)
        .add(&Method::PATCH, "/v1/sessions/{id}", Agent, sessions::patch)
        .add(&Method::DELETE, "/v1/sessions/{id}", Agent, sessions::delete)
        .get("/v1/sessions/{id}/context", Agent, sessions::context)
        .post("/v1/sessions/{id}/resume-thread", Agent, sessions::resume)
        .get("/v1/snapshots", Client, snapshots::list)
        .post("/v1/snapshots/{id}/restore", Client, snapshots::restore)
        .post("/v1/approvals/{approval_id}", Client, turns::decide)
        .post("/v1/user-input/{thread_id}/{input_id}", Client, turns::answer_input)
        .post("/v1/stream", Agent, stream::one_shot)
        .get("/v1/tasks", Agent, tasks::list)
        .post("/v1/tasks", Agent, tasks::create)
        .get("/v1/tasks/{id}", Agent, tasks::get)
        .post("/v1/tasks/{id}/cancel", Agent, tasks::cancel)
        .get("/v1/automations", Agent, automations::list)
        .post("/v1/automations", Agent, automations::create)
        .get("/v1/automations/{id}", Agent, automations::get)
        .add(&Method::PATCH, "/v1/automations/{id}", Agent, automations::patch)
        .add(&Method::DELETE, "/v1/automations/{id}", Agent, automations::delete)
        .post("/v1/automations/{id}/run", Agent, automations::run)
        .post("/v1/automations/{id}/pause", Agent, automations::pause)
        .post("/v1/automations/{id}/resume", Agent, automations::resume)
        .get("/v1/automations/{id}/runs", Agent, automations::runs)
        .get("/v1/usage", Client, usage::usage)
        .get("/v1/environments", Agent, environments::list)
        .post("/v1/environments", Admin, environments::create)
        .get("/v1/environments/{id}", Agent, environments::get)
        .add(&Method::DELETE, "/v1/environments/{id}", Admin, environments::delete)
        .get("/v1/fleet/runs", Agent, fleet::list)
        .post("/v1/fleet/runs", Agent, fleet::create)
        .get("/v1/fleet/runs/{run_id}", Agent, fleet::get)
        .post("/v1/fleet/runs/{run_id}/start", Agent, fleet::start)
        .post("/v1/fleet/runs/{run_id}/stop", Agent, fleet::stop)
        .get("/v1/fleet/runs/{run_id}/workers", Agent, fleet::workers)
        .get("/v1/fleet/runs/{run_id}/events", Agent, fleet::events)
        .get("/v1/fleet/runs/{run_id}/events/replay", Agent, fleet::replay)
        .get("/v1/fleet/workers/{worker_id}", Agent, fleet::worker)
        .post("/v1/fleet/workers/{worker_id}/interrupt", Agent, fleet::interrupt)
        .post("/v1/fleet/workers/{worker_id}/stop", Agent, fleet::stop_worker)
        .post("/v1/fleet/workers/{worker_id}/restart", Agent, fleet::restart)
        .get("/v1/agent-runs", Agent, agent_runs::list)
        .get("/v1/agent-runs/{run_id}", Agent, agent_runs::get)
        .get("/v1/config", Client, config::get)
        .post("/v1/config", Admin, config::set)
        .post("/v1/config/reload", Admin, config::reload)
        .get("/v1/models", Client, config::current_models)
        .get("/v1/providers", Client, config::providers)
        .get("/v1/providers/{id}/models", Client, config::models)
        .post("/v1/providers/{id}/switch", Admin, config::switch)
        .get("/v1/skills", Client, apps::skills)
        .post("/v1/skills/{name}", Admin, apps::switch_skill)
        .get("/v1/apps/mcp/servers", Client, apps::servers)
        .get("/v1/apps/mcp/tools", Client, apps::tools)
        .get("/v1/openapi.json", Agent, openapi::openapi)
        .get("/v1/workspace/status", Agent, workspace::status)
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
        .layer(cors::layer(&app.settings))
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
