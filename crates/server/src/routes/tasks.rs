//! Tasks.

use axum::http::HeaderValue;
use windlass_protocol::{CreateTask, TaskStatus};

use super::{Answer, Id, NEXT_CURSOR, created, ok};
use windlass_service::ApiError;

use crate::error::Result;
use crate::http::body::Payload;
use crate::http::path::Path;
use crate::http::query::Query;
use crate::http::request::Asked;
use windlass_service::TaskQuery;

/// How many are listed when nobody says, and at most.
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 500;

/// Reads how many are asked for.
pub(super) fn limit(query: &Query) -> Result<usize> {
    let limit = query.get("limit")?.unwrap_or(DEFAULT_LIMIT);
    Ok(limit.clamp(1, MAX_LIMIT))
}

pub(super) async fn list(asked: Asked, query: Query) -> Answer {
    let wanted = TaskQuery {
        limit: limit(&query)?,
        statuses: statuses(&query)?,
        cursor: query.text("cursor").map(str::to_owned),
    };
    let (tasks, next) = asked.list_tasks(wanted).await?;
    let mut answer = ok(&tasks)?;
    if let Some(next) = next {
        let next = HeaderValue::try_from(next).map_err(ApiError::internal)?;
        answer.headers_mut().insert(NEXT_CURSOR, next);
    }
    Ok(answer)
}

fn statuses(query: &Query) -> Result<Vec<TaskStatus>> {
    let words = query.text("status").map(|words| words.split(','));
    let read = |word| match word {
        "queued" => Ok(TaskStatus::Queued),
        "running" => Ok(TaskStatus::Running),
        "completed" => Ok(TaskStatus::Completed),
        "failed" => Ok(TaskStatus::Failed),
        "canceled" => Ok(TaskStatus::Canceled),
        _ => Err(ApiError::query(
            "status must be queued, running, completed, failed or canceled",
        )),
    };
    words.into_iter().flatten().map(read).collect()
}

pub(super) async fn create(asked: Asked, body: Payload<CreateTask>) -> Answer {
    let Payload(request, unknown) = body;
    unknown.refuse_limits()?;
    created(&asked.create_task(request).await?)
}

pub(super) async fn get(asked: Asked, Path(id): Id) -> Answer {
    ok(&asked.task(&id).await?)
}

pub(super) async fn cancel(asked: Asked, Path(id): Id) -> Answer {
    ok(&asked.cancel_task(&id).await?)
}
