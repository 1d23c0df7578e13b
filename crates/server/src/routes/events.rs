//! The events of a thread, from any number on.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use windlass_core::events::Event;

use super::Answer;
use crate::app::{App, Place, Shared};
use crate::error::ApiError;
use crate::http::query::Query;
use crate::sse::{self, Reader};
use crate::threads::FoundThread;
use crate::view::{self, Include};

/// How many records are looked at together, from the newest on.
const PAGE: u64 = 256;
/// How many events a reader may ask to have again.
const MAX_REPLAY: usize = 4096;

pub(super) async fn events(
    State(app): State<Shared>,
    Path(id): Path<String>,
    query: Query,
    headers: HeaderMap,
) -> Answer {
    let since = query.get::<u64>("since_seq")?;
    let since = last_event_id(&headers)?.or(since).unwrap_or(0);
    let replay = query.get::<usize>("replay_limit")?;
    if replay.is_some_and(|replay| replay > MAX_REPLAY) {
        return Err(ApiError::query("replay_limit cannot exceed 4096"));
    }
    let include = include(&query);
    let found = app.find(&id).await?;
    let limit = app.settings.limits.subscribers;
    let place = Place::take(&app, "subscribers", limit, |counters| &counters.subscribers)?;
    let (id, head) = (found.id, found.row.seq);
    let mut opening = Vec::new();
    let (after, previous) = if since > head {
        opening.push(sse::comment(&format!(
            "cursor {since} is past the end, following from {head}"
        )));
        (head, head)
    } else {
        match replay {
            Some(newest) => app.left_out(&found, since, newest, include).await?,
            // What a fork shares is no event of it.
            None => (since.max(found.shared()), since),
        }
    };
    let events = app.runtime.subscribe_after(id, after).await?;
    let reader = Reader {
        app: Shared::clone(&app),
        session_id: id,
        events,
        include,
        previous,
        head,
        opening,
        place,
    };
    let (frames, response) = sse::channel();
    tokio::spawn(reader.feed(frames));
    Ok(response)
}

/// What a browser sends when it comes back; one that cannot be read is refused as a bad number is.
fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
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

impl App {
    /// Finds where to begin so that only the newest events are shown, from the newest on: it costs what is shown, however
    /// much there is before. Returns the number to read from, and that of the newest event that is left out.
    async fn left_out(
        &self,
        found: &FoundThread,
        since: u64,
        newest: usize,
        include: Include,
    ) -> Result<(u64, u64), ApiError> {
        let (id, head) = (found.id, found.row.seq);
        let begin = since.max(found.shared());
        let mut left = newest;
        let mut before = head;
        while before > begin {
            let after = before.saturating_sub(PAGE).max(begin);
            let page = usize::try_from(before - after).unwrap_or(usize::MAX);
            let events = self.runtime.events_since(id, after, page).await?;
            let is_shown =
                |event: &&Arc<Event>| event.seq() <= before && view::view(event, include).is_some();
            for event in events.iter().rev().filter(is_shown) {
                match left.checked_sub(1) {
                    Some(fewer) => left = fewer,
                    None => {
                        let last = event.seq();
                        // With nothing to show again, what is not shown anyway is skipped too.
                        return Ok((if newest == 0 { head } else { last }, last));
                    }
                }
            }
            before = after;
        }
        Ok((begin, since))
    }
}
