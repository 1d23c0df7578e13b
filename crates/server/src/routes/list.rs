//! Listing threads.

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue};
use serde::Serialize;
use windlass_protocol::Thread;
use windlass_store::queries::{Include, ThreadQuery, ThreadState};

use super::{Answer, ok};
use crate::app::{App, Shared};
use crate::error::ApiError;
use crate::http::query::Query;
use crate::http::rules;
use crate::threads::FoundThread;

/// Names where the next page begins; not there behind the last entry.
pub(crate) const NEXT_CURSOR: HeaderName = HeaderName::from_static("x-windlass-next-cursor");

pub(super) async fn list(State(app): State<Shared>, query: Query) -> Answer {
    let limit = query.get::<usize>("limit")?.unwrap_or(usize::MAX);
    let (threads, next) = app.listed(&query, limit, None).await?;
    let threads: Vec<Thread> = threads.into_iter().map(|found| found.thread).collect();
    page(&threads, next)
}

/// Answers with a part of a list.
pub(super) fn page(entries: &impl Serialize, next: Option<String>) -> Answer {
    let mut answer = ok(entries)?;
    if let Some(next) = next {
        let next = HeaderValue::try_from(next).map_err(ApiError::internal)?;
        answer.headers_mut().insert(NEXT_CURSOR, next);
    }
    Ok(answer)
}

impl App {
    /// Returns the threads that a query asks for, last updated first, and where the next page begins.
    pub(super) async fn listed(
        &self,
        query: &Query,
        limit: usize,
        search: Option<String>,
    ) -> Result<(Vec<FoundThread>, Option<String>), ApiError> {
        let all = query.flag("include_archived")?;
        let include = match query.flag("archived_only")? {
            true => Include::Archived,
            false if all => Include::Recorded,
            false => Include::Current,
        };
        let listed = self.queries.threads(ThreadQuery {
            include,
            states: states(query)?,
            agent: rules::agent(),
            search,
            after: query.text("cursor").map(str::to_owned),
            limit,
        });
        let listed = listed.await?;
        // One that cannot be read is in the log, and hides no other.
        let mut threads = Vec::with_capacity(listed.entries.len());
        for row in listed.entries {
            match self.shown(row).await {
                Err(error) if error.is_unavailable() => return Err(error),
                shown => threads.extend(shown.ok().flatten()),
            }
        }
        Ok((threads, listed.next))
    }
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
