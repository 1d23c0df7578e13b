//! Threads: making, showing and changing them.

use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::IntoResponse;
use serde::Serialize;
use windlass_protocol::{
    CompactThread, CreateThread, ForkThread, PatchResult, PatchThread, PatchUndone, ReplayThread,
    RestoredFiles, RetryThread, UndoThread,
};
use windlass_store::queries::{Include, Listed, ThreadQuery, ThreadState};

use super::{Answer, Id, created, json, ok, with_items};
use crate::error::{ApiError, Result};
use crate::http::body::{Optional, Payload};
use crate::http::path::Path;
use crate::http::query::Query;
use crate::ids;
use crate::service::Asked;

/// How many files are named to people.
const MAX_SHOWN: usize = 20;

/// Names where the next page begins; not there behind the last entry.
pub(crate) const NEXT_CURSOR: HeaderName = HeaderName::from_static("x-windlass-next-cursor");
/// How many lines a summary has when nobody says, and at most.
const DEFAULT_LINES: usize = 50;
const MAX_LINES: usize = 1_000;

pub(super) async fn list(asked: Asked, query: Query) -> Answer {
    let limit = query.get("limit")?.unwrap_or(usize::MAX);
    let wanted = wanted(&query, limit)?;
    page(asked.list_threads(wanted).await?)
}

pub(super) async fn summary(asked: Asked, query: Query) -> Answer {
    let limit = query.get("limit")?.unwrap_or(DEFAULT_LINES);
    let wanted = ThreadQuery {
        search: query.text("search").map(ids::session_text),
        ..wanted(&query, limit.clamp(1, MAX_LINES))?
    };
    let with_git = query.text("git").is_none() || query.flag("git")?;
    page(asked.summarize_threads(wanted, with_git).await?)
}

/// Reads which threads are asked for.
fn wanted(query: &Query, limit: usize) -> Result<ThreadQuery> {
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
fn states(query: &Query) -> Result<Vec<ThreadState>> {
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
fn page<T: Serialize>(Listed { entries, next }: Listed<T>) -> Answer {
    let mut answer = ok(&entries)?;
    if let Some(next) = next {
        let next = HeaderValue::try_from(next).map_err(ApiError::internal)?;
        answer.headers_mut().insert(NEXT_CURSOR, next);
    }
    Ok(answer)
}

pub(super) async fn create(asked: Asked, body: Optional<CreateThread>) -> Answer {
    created(&asked.create_thread(body.0).await?)
}

pub(super) async fn context(asked: Asked, Path(id): Id) -> Answer {
    ok(&asked.thread_context(&id).await?)
}

pub(super) async fn detail(asked: Asked, Path(id): Id, query: Query) -> Answer {
    let newest = query.get("turns")?.unwrap_or(usize::MAX);
    with_items(&asked, || asked.thread_json(&id, newest)).await
}

pub(super) async fn patch(asked: Asked, Path(id): Id, body: Payload<PatchThread>) -> Answer {
    ok(&asked.patch_thread(&id, body.0).await?)
}

pub(super) async fn delete(asked: Asked, Path(id): Id) -> Answer {
    asked.remove_thread(&id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Looks a thread up to go on with it. Nothing has to be loaded: threads are always there. A turn that an earlier server left open, and this one
/// did not take up by itself, goes on.
pub(super) async fn resume(asked: Asked, Path(id): Id) -> Answer {
    let found = asked.find(&id).await?;
    asked.check_open_turn(&found)?;
    asked.runtime.resume_open_turn(found.id).await?;
    ok(&found.thread)
}

pub(super) async fn fork(asked: Asked, Path(id): Id, body: Optional<ForkThread>) -> Answer {
    created(&asked.fork_thread(&id, body.0).await?)
}

pub(super) async fn undo(asked: Asked, Path(id): Id, body: Optional<UndoThread>) -> Answer {
    created(&asked.undo_turns(&id, body.0).await?)
}

/// Goes back with the files, as who asks by this name always does.
pub(super) async fn patch_undo(asked: Asked, Path(id): Id, body: Optional<UndoThread>) -> Answer {
    let request = UndoThread {
        files: true,
        ..body.0
    };
    let undone = asked.undo_turns(&id, request).await?;
    let patch_result = patch_result(undone.files.as_ref());
    created(&PatchUndone {
        patch_result,
        undone,
    })
}

fn patch_result(files: Option<&RestoredFiles>) -> PatchResult {
    let restored = files.map_or(&[][..], |files| &files.restored);
    let files_restored = !restored.is_empty();
    let shown = restored.iter().take(MAX_SHOWN).map(String::as_str);
    let shown: Vec<_> = shown.collect();
    let more = match restored.len().saturating_sub(shown.len()) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let summary = match files_restored {
        true => format!("Restored: {}{more}", shown.join(", ")),
        false => "The turns changed no files.".to_owned(),
    };
    PatchResult {
        files_restored,
        summary: Some(summary),
        snapshot_label: files_restored.then(|| "pre-turn".to_owned()),
    }
}

pub(super) async fn retry(asked: Asked, Path(id): Id, body: Optional<RetryThread>) -> Answer {
    created(&asked.retry_turn(&id, body.0).await?)
}

pub(super) async fn compact(asked: Asked, Path(id): Id, body: Optional<CompactThread>) -> Answer {
    let started = asked.compact_thread(&id, body.0).await?;
    json(StatusCode::ACCEPTED, &started)
}

pub(super) async fn replay(asked: Asked, Path(id): Id, body: Optional<ReplayThread>) -> Answer {
    ok(&asked.replay_thread(&id, body.0).await?)
}
