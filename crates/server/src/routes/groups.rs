//! Groups that are not built: lists are empty, so that clients that ask at start-up go on; writing is refused.

use axum::http::Method;
use serde::Serialize;
use windlass_protocol::groups::{AgentRunList, McpServerList, McpToolList, SkillList, TaskList};

use super::table::Routes;
use super::{Answer, ok};
use crate::error::ApiError;
use crate::service::rules::MayCall::Client;

/// An empty list.
async fn empty<T: Serialize + Default>() -> Answer {
    ok(&T::default())
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

pub(super) fn add(routes: Routes) -> Routes {
    let list = empty::<Vec<()>>;
    routes
        .get("/v1/tasks", Client, empty::<TaskList>)
        .post("/v1/tasks", Client, refuse)
        .get("/v1/tasks/{id}", Client, none)
        .post("/v1/tasks/{id}/cancel", Client, refuse)
        .get("/v1/automations", Client, list)
        .post("/v1/automations", Client, refuse)
        .get("/v1/automations/{id}", Client, none)
        .add(&Method::PATCH, "/v1/automations/{id}", Client, refuse)
        .add(&Method::DELETE, "/v1/automations/{id}", Client, refuse)
        .post("/v1/automations/{id}/run", Client, refuse)
        .post("/v1/automations/{id}/pause", Client, refuse)
        .post("/v1/automations/{id}/resume", Client, refuse)
        .get("/v1/automations/{id}/runs", Client, list)
        .get("/v1/skills", Client, empty::<SkillList>)
        .get("/v1/skills/{name}", Client, none)
        .post("/v1/skills/{name}", Client, refuse)
        .add(&Method::PUT, "/v1/skills/{name}", Client, refuse)
        .get("/v1/apps/mcp/servers", Client, empty::<McpServerList>)
        .post("/v1/apps/mcp/servers", Client, refuse)
        .get("/v1/apps/mcp/tools", Client, empty::<McpToolList>)
        .get("/v1/agent-runs", Client, empty::<AgentRunList>)
        .get("/v1/agent-runs/{run_id}", Client, none)
}
