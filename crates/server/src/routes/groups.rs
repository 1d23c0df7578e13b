//! Groups that are not built: lists are empty, so that clients that ask at start-up go on; writing is refused.

use axum::Router;
use axum::routing::{MethodRouter, get, post};
use serde::Serialize;
use windlass_protocol::groups::{AgentRunList, McpServerList, McpToolList, SkillList, TaskList};

use super::{Answer, ok};
use crate::app::Shared;
use crate::error::ApiError;

fn empty<T: Serialize + Default + Send + 'static>() -> MethodRouter<Shared> {
    get(|| async { ok(&T::default()) })
}

async fn refuse() -> Answer {
    Err(ApiError::not_implemented("this group of routes"))
}

/// One of a list that is empty.
async fn none() -> Answer {
    Err(ApiError::new(
        windlass_protocol::ErrorCode::UnknownPath,
        "there is no such record; the group is not built yet",
    ))
}

pub(super) fn routes() -> Router<Shared> {
    let list = empty::<Vec<()>>;
    Router::new()
        .route("/v1/tasks", empty::<TaskList>().post(refuse))
        .route("/v1/tasks/{id}", get(none))
        .route("/v1/tasks/{id}/cancel", post(refuse))
        .route("/v1/automations", list().post(refuse))
        .route(
            "/v1/automations/{id}",
            get(none).patch(refuse).delete(refuse),
        )
        .route("/v1/automations/{id}/run", post(refuse))
        .route("/v1/automations/{id}/pause", post(refuse))
        .route("/v1/automations/{id}/resume", post(refuse))
        .route("/v1/automations/{id}/runs", list())
        .route("/v1/snapshots", list())
        .route("/v1/skills", empty::<SkillList>())
        .route("/v1/skills/{name}", get(none).post(refuse).put(refuse))
        .route(
            "/v1/apps/mcp/servers",
            empty::<McpServerList>().post(refuse),
        )
        .route("/v1/apps/mcp/tools", empty::<McpToolList>())
        .route("/v1/agent-runs", empty::<AgentRunList>())
        .route("/v1/agent-runs/{run_id}", get(none))
}
