//! The events of a thread, from any number on.

use axum::extract::Path;
use axum::http::HeaderMap;

use super::{Answer, Id};
use crate::error::{ApiError, Result};
use crate::http::query::Query;
use crate::service::Asked;
use crate::service::follow::Wanted;
use crate::sse;
use crate::view::Include;

/// How many events a reader may ask to have again.
const MAX_REPLAY: usize = 4096;

pub(super) async fn events(asked: Asked, Path(id): Id, query: Query, headers: HeaderMap) -> Answer {
    let since = query.get("since_seq")?;
    let newest = query.get("replay_limit")?;
    let wanted = Wanted {
        since: last_event_id(&headers)?.or(since).unwrap_or(0),
        newest,
        include: include(&query),
    };
    if newest.is_some_and(|newest| newest > MAX_REPLAY) {
        return Err(ApiError::query("replay_limit cannot exceed 4096"));
    }
    let follower = asked.follow(&id, wanted).await?;
    let (frames, response) = sse::channel();
    tokio::spawn(sse::feed(follower, frames, asked.stopping.clone()));
    Ok(response)
}

/// What a browser sends when it comes back; one that cannot be read is refused as a bad number is.
fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let number = value
        .to_str()
        .ok()
        .and_then(|text| text.trim().parse().ok());
    number
        .map(Some)
        .ok_or_else(|| ApiError::query("Last-Event-ID is not a number"))
}

fn include(query: &Query) -> Include {
    let names = query.text("include").unwrap_or_default();
    Include {
        tool_output: names.split(',').any(|name| name.trim() == "tool_output"),
    }
}
