//! The routes: one verb, one file.

mod approvals;
mod compact;
mod create;
mod detail;
mod environments;
mod events;
mod fork;
mod groups;
mod health;
mod interrupt;
mod list;
mod metrics;
mod openapi;
mod patch;
mod results;
mod resume;
mod retry;
mod steer;
mod stream;
mod summary;
mod turns;
mod undo;
mod usage;
mod user_input;
mod workspace;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Serialize;
use tower_http::catch_panic::CatchPanicLayer;
use windlass_protocol::ErrorCode;

use crate::app::Shared;
use crate::error::ApiError;
use crate::http::{auth, cors, idempotency, scope, whole};

pub(crate) use list::NEXT_CURSOR;

/// What a handler answers.
type Answer<T = Response> = Result<T, ApiError>;

/// Makes a JSON answer.
fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(value).map_err(ApiError::internal)?;
    let media = [("content-type", "application/json")];
    Ok((status, media, body).into_response())
}

fn ok(value: &impl Serialize) -> Answer {
    json(StatusCode::OK, value)
}

/// Puts all routes together with what every request passes.
pub(crate) fn router(app: &Shared) -> Router {
    let one_thread = Router::new()
        .route("/", get(detail::thread).patch(patch::patch))
        .route("/resume", post(resume::resume))
        .route("/fork", post(fork::fork))
        .route("/undo", post(undo::undo))
        .route("/retry", post(retry::retry))
        .route("/compact", post(compact::compact))
        .route("/events", get(events::events))
        .route("/turns", post(turns::start))
        .route("/turns/{turn_id}", get(detail::turn))
        .route("/turns/{turn_id}/steer", post(steer::steer))
        .route("/turns/{turn_id}/interrupt", post(interrupt::interrupt))
        .route(
            "/turns/{turn_id}/tool-calls/{call_id}/result",
            post(results::submit),
        );
    let routes = Router::new()
        .route("/health", get(health::health))
        .route("/ready", get(health::ready))
        .route("/metrics", get(metrics::metrics))
        .route("/v1/runtime/info", get(health::info))
        .route("/v1/threads", get(list::list).post(create::create))
        .route("/v1/threads/summary", get(summary::summary))
        .nest("/v1/threads/{id}", one_thread)
        .route("/v1/approvals/{approval_id}", post(approvals::decide))
        .route(
            "/v1/user-input/{thread_id}/{input_id}",
            post(user_input::answer),
        )
        .route("/v1/stream", post(stream::one_shot))
        .route("/v1/usage", get(usage::usage))
        .route(
            "/v1/environments",
            get(environments::list).post(environments::create),
        )
        .route(
            "/v1/environments/{id}",
            get(environments::get).delete(environments::delete),
        )
        .route("/v1/openapi.json", get(openapi::openapi))
        .route("/v1/workspace/status", get(workspace::status))
        .merge(groups::routes())
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method);
    // The last one is passed first.
    routes
        .layer(from_fn_with_state(Shared::clone(app), idempotency::check))
        .layer(from_fn_with_state(Shared::clone(app), auth::check))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(cors::layer(&app.settings.cors_origins))
        .layer(from_fn_with_state(Shared::clone(app), scope::enter))
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
