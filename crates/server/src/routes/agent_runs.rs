//! Agents that models start.

use windlass_protocol::agent_runs::NudgeAgentRuns;

use super::{Answer, Id, ok};
use crate::http::body::{Nothing, Payload};
use crate::http::path::Path;
use crate::http::query::Query;
use crate::http::request::Asked;

/// How many are listed when nobody says, and at most.
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 200;

pub(super) async fn list(asked: Asked, query: Query) -> Answer {
    let limit = query.get("limit")?.unwrap_or(DEFAULT_LIMIT);
    let limit = limit.clamp(1, MAX_LIMIT);
    ok(&asked.list_agent_runs(query.text("parent"), limit).await?)
}

pub(super) async fn get(asked: Asked, Path(id): Id) -> Answer {
    ok(&asked.agent_run(&id).await?)
}

pub(super) async fn cancel(
    asked: Asked,
    Path((id, agent_id)): Path<(String, String)>,
    _: Nothing,
) -> Answer {
    ok(&asked.cancel_agent_run(&id, &agent_id).await?)
}

pub(super) async fn nudge(asked: Asked, Path(id): Id, body: Payload<NudgeAgentRuns>) -> Answer {
    ok(&asked.nudge_agent_runs(&id, body.0).await?)
}
