//! Saved sessions.

use axum::http::StatusCode;
use axum::response::IntoResponse;
use windlass_protocol::{PatchSession, ResumeSession, SaveSession, SessionList, UpdateSession};

use super::{Answer, Id, created, ok};
use windlass_service::ApiError;

use crate::error::Result;
use crate::http::body::{Optional, Payload};
use crate::http::path::Path;
use crate::http::query::Query;
use crate::http::request::Asked;
use windlass_service::{Archived, SessionOrder, SessionQuery};

/// How many are listed when nobody says, and at most.
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 1_000;
/// How many messages a short look shows at most.
const MAX_ENTRIES: usize = 12;

pub(super) async fn list(asked: Asked, query: Query) -> Answer {
    let sessions = asked.list_sessions(wanted(&query)?).await?;
    ok(&SessionList { sessions })
}

pub(super) async fn summary(asked: Asked, query: Query) -> Answer {
    ok(&asked.summarize_sessions(wanted(&query)?).await?)
}

/// Reads which sessions are asked for.
fn wanted(query: &Query) -> Result<SessionQuery> {
    let all = query.flag("include_archived")?;
    let archived = match query.flag("archived_only")? {
        true => Archived::Only,
        false if all => Archived::Included,
        false => Archived::Left,
    };
    let order = match query.text("sort") {
        None | Some("recent") => SessionOrder::Recent,
        Some("name") => SessionOrder::Name,
        Some("size") => SessionOrder::Size,
        Some(_) => return Err(ApiError::query("sort must be recent, name or size")),
    };
    let limit = query.get("limit")?.unwrap_or(DEFAULT_LIMIT);
    Ok(SessionQuery {
        limit: limit.clamp(1, MAX_LIMIT),
        search: query.text("search").map(str::to_owned),
        archived,
        workspace: query.text("workspace").map(str::to_owned),
        order,
    })
}

pub(super) async fn save(asked: Asked, body: Payload<SaveSession>) -> Answer {
    created(&asked.save_session(body.0).await?)
}

pub(super) async fn update(asked: Asked, body: Payload<UpdateSession>) -> Answer {
    ok(&asked.update_session(body.0).await?)
}

pub(super) async fn context(asked: Asked, Path(id): Id) -> Answer {
    ok(&asked.session_context(&id).await?)
}

pub(super) async fn get(asked: Asked, Path(id): Id, query: Query) -> Answer {
    let entries = query.get("entries")?.unwrap_or(MAX_ENTRIES);
    match query.flag("peek")? {
        true => {
            let entries = entries.clamp(1, MAX_ENTRIES);
            ok(&asked.peek_session(&id, entries).await?)
        }
        false => ok(&asked.session_detail(&id).await?),
    }
}

pub(super) async fn patch(asked: Asked, Path(id): Id, body: Payload<PatchSession>) -> Answer {
    ok(&asked.patch_session(&id, body.0).await?)
}

pub(super) async fn delete(asked: Asked, Path(id): Id) -> Answer {
    asked.remove_session(&id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn resume(asked: Asked, Path(id): Id, body: Optional<ResumeSession>) -> Answer {
    created(&asked.resume_session(&id, body.0).await?)
}
