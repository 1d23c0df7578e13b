//! Threads: making, showing and changing them.

use axum::extract::{Path, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use serde::Serialize;
use windlass_protocol::{
    CompactThread, CreateThread, ForkThread, PatchThread, RetryThread, UndoThread,
};
use windlass_store::queries::{Include, ThreadQuery, ThreadState};

use super::{Answer, json, ok};
use crate::app::Shared;
use crate::error::ApiError;
use crate::http::body::{Optional, Payload};
use crate::http::query::Query;
use crate::service::Asked;
use crate::service::list::Page;

/// Names where the next page begins; not there behind the last entry.
pub(crate) const NEXT_CURSOR: HeaderName = HeaderName::from_static("x-windlass-next-cursor");
/// How many lines a summary has when nobody says, and at most.
const DEFAULT_LINES: usize = 50;
const MAX_LINES: usize = 1_000;

pub(super) async fn list(State(app): State<Shared>, asked: Asked, query: Query) -> Answer {
    let limit = query.get("limit")?.unwrap_or(usize::MAX);
    let wanted = wanted(&query, limit)?;
    page(app.list_threads(&asked.caller, wanted).await?)
}

pub(super) async fn summary(State(app): State<Shared>, asked: Asked, query: Query) -> Answer {
    let limit = query.get("limit")?.unwrap_or(DEFAULT_LINES);
    let wanted = ThreadQuery {
        search: query.text("search").map(str::to_owned),
        ..wanted(&query, limit.clamp(1, MAX_LINES))?
    };
    page(app.summarize_threads(&asked.caller, wanted).await?)
}

/// Reads which threads are asked for.
fn wanted(query: &Query, limit: usize) -> Result<ThreadQuery, ApiError> {
    let all = query.flag("include_archived")?;
    let include = match query.flag("archived_only")? {
        true => Include::Archived,
        false if all => Include::Recorded,
        false => Include::Current,
    };
    Ok(ThreadQuery {
        include,
        states: states(query)?,
        after: query.text("cursor").map(str::to_owned),
        ..ThreadQuery::first(limit)
    })
}

/// Reads what threads may be doing, one or more of three words.
fn states(query: &Query) -> Result<Vec<ThreadState>, ApiError> {
    let words = query.text("state").map(|words| words.split(','));
    let read = |word| match word {
        "idle" => Ok(ThreadState::Idle),
        "running" => Ok(ThreadState::Running),
        "waiting" => Ok(ThreadState::Waiting),
        _ => Err(ApiError::query("state must be idle, running or waiting")),
    };
    words.into_iter().flatten().map(read).collect()
}

/// Answers with a part of a list.
fn page<T: Serialize>(page: Page<T>) -> Answer {
    let mut answer = ok(&page.entries)?;
    if let Some(next) = page.next {
        let next = HeaderValue::try_from(next).map_err(ApiError::internal)?;
        answer.headers_mut().insert(NEXT_CURSOR, next);
    }
    Ok(answer)
}

pub(super) async fn create(
    State(app): State<Shared>,
    asked: Asked,
    Optional(request): Optional<CreateThread>,
) -> Answer {
    let made = app.create_thread(&asked, request).await?;
    json(StatusCode::CREATED, &made)
}

pub(super) async fn detail(
    State(app): State<Shared>,
    Path(id): Path<String>,
    query: Query,
) -> Answer {
    let newest = query.get("turns")?.unwrap_or(usize::MAX);
    ok(&app.thread_detail(&id, newest).await?)
}

pub(super) async fn patch(
    State(app): State<Shared>,
    asked: Asked,
    Path(id): Path<String>,
    Payload(request): Payload<PatchThread>,
) -> Answer {
    ok(&app.patch_thread(&asked.caller, &id, request).await?)
}

/// Looks a thread up to go on with it. Nothing has to be loaded: threads are always there.
pub(super) async fn resume(State(app): State<Shared>, Path(id): Path<String>) -> Answer {
    ok(&app.find(&id).await?.thread)
}

pub(super) async fn fork(
    State(app): State<Shared>,
    asked: Asked,
    Path(id): Path<String>,
    Optional(request): Optional<ForkThread>,
) -> Answer {
    let fork = app.fork_thread(&asked, &id, request).await?;
    json(StatusCode::CREATED, &fork)
}

pub(super) async fn undo(
    State(app): State<Shared>,
    asked: Asked,
    Path(id): Path<String>,
    Optional(request): Optional<UndoThread>,
) -> Answer {
    let undone = app.undo_turns(&asked, &id, request).await?;
    json(StatusCode::CREATED, &undone)
}

pub(super) async fn retry(
    State(app): State<Shared>,
    asked: Asked,
    Path(id): Path<String>,
    Optional(request): Optional<RetryThread>,
) -> Answer {
    let started = app.retry_turn(&asked, &id, request).await?;
    json(StatusCode::CREATED, &started)
}

pub(super) async fn compact(
    State(app): State<Shared>,
    asked: Asked,
    Path(id): Path<String>,
    Optional(request): Optional<CompactThread>,
) -> Answer {
    let started = app.compact_thread(&asked, &id, request).await?;
    json(StatusCode::ACCEPTED, &started)
}
