//! Listing threads.

use std::cmp::Reverse;
use std::sync::Arc;

use axum::extract::State;
use windlass_protocol::Thread;

use super::{Answer, ok};
use crate::app::{App, Shared};
use crate::error::ApiError;
use crate::http::query::Query;
use crate::http::rules;
use crate::threads::Entry;

pub(super) async fn list(State(app): State<Shared>, query: Query) -> Answer {
    let limit = query.get::<usize>("limit")?.unwrap_or(usize::MAX);
    let mut threads = app.listed(&query).await?;
    threads.truncate(limit);
    let threads: Vec<Thread> = threads.into_iter().map(|(thread, _)| thread).collect();
    ok(&threads)
}

impl App {
    /// Returns the threads that a query asks for, last updated first.
    pub(super) async fn listed(
        &self,
        query: &Query,
    ) -> Result<Vec<(Thread, Arc<Entry>)>, ApiError> {
        let only = query.flag("archived_only")?;
        let all = query.flag("include_archived")?;
        let entries = self.threads.all(&self.runtime).await;
        let threads = entries.into_iter().filter_map(|entry| {
            let thread = entry.thread().ok()?;
            Some((thread, entry))
        });
        let agent = rules::agent();
        let mut threads: Vec<_> = threads
            .filter(|(thread, _)| agent.is_none() || thread.agent == agent)
            .filter(|(thread, _)| match only {
                true => thread.archived,
                false => all || !thread.archived,
            })
            .collect();
        threads.sort_by_cached_key(|(thread, _)| {
            Reverse((thread.updated_at.clone(), thread.id.clone()))
        });
        Ok(threads)
    }
}
