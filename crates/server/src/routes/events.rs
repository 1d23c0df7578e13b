//! The events of a thread, from any number on.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use futures_util::stream;
use serde::Serialize;

use super::{Answer, Id};
use crate::app::Shared;
use windlass_service::ApiError;

use crate::error::Result;
use crate::http::outflow::Outflow;
use crate::http::path::Path;
use crate::http::query::Query;
use crate::http::request::Asked;
use crate::sse;
use windlass_service::Wanted;
use windlass_service::view::Include;

/// How many events a reader may ask to have again.
const MAX_REPLAY: usize = 4096;

pub(super) async fn events(
    asked: Asked,
    Path(id): Id,
    query: Query,
    headers: HeaderMap,
    outflow: Outflow,
) -> Answer {
    let since = query.get("since_seq")?;
    let newest = query.get("replay_limit")?;
    let wanted = Wanted {
        since: last_event_id(&headers)?.or(since).unwrap_or(0),
        newest,
        include: include(&query),
    };
    if newest.is_some_and(|newest| newest > MAX_REPLAY) {
        return Err(ApiError::query("replay_limit cannot exceed 4096").into());
    }
    let follower = asked.follow(&id, wanted).await?;
    let (frames, response) = sse::channel(outflow);
    tokio::spawn(sse::feed(follower, frames, asked.stopping.clone()));
    Ok(response)
}

/// Writes a thread and its events, one a line. A client that goes away ends it, and what goes wrong on the way breaks the answer off.
pub(super) async fn export(
    State(app): State<Shared>,
    asked: Asked,
    Path(id): Id,
    query: Query,
) -> Answer {
    let wanted = Wanted {
        since: query.get("since_seq")?.unwrap_or(0),
        newest: None,
        include: include(&query),
    };
    let place = app.large_answers.take(&app, &asked.caller).await?;
    let export = asked.export(&id, wanted).await?;
    let first = line(&export.head_line)?;
    let lines = stream::try_unfold(
        (Some(first), export, place),
        |(first, mut export, place)| async {
            let line = match first {
                Some(first) => first,
                None => match export.next().await? {
                    Some(event) => line(&event)?,
                    None => return Ok::<_, ApiError>(None),
                },
            };
            Ok(Some((line, (None, export, place))))
        },
    );
    let media = [
        (header::CONTENT_TYPE, "application/x-ndjson"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((media, Body::from_stream(lines)).into_response())
}

fn line(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value).map_err(ApiError::internal)?;
    line.push(b'\n');
    Ok(line)
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
    let includes = |wanted| names.split(',').any(|name| name.trim() == wanted);
    Include {
        tool_output: includes("tool_output"),
        queue: includes("queue"),
    }
}
