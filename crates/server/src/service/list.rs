//! Listing threads.

use windlass_protocol::Thread;
use windlass_store::queries::ThreadQuery;

use crate::app::App;
use crate::error::ApiError;
use crate::threads::FoundThread;
use crate::tokens::Caller;

/// A part of a list.
pub(crate) struct Page<T> {
    pub(crate) entries: Vec<T>,
    /// Where the next one begins; `None` behind the last entry.
    pub(crate) next: Option<String>,
}

impl<T> Page<T> {
    pub(super) fn map<U>(self, change: impl FnMut(T) -> U) -> Page<U> {
        Page {
            entries: self.entries.into_iter().map(change).collect(),
            next: self.next,
        }
    }
}

impl App {
    /// Lists threads, last updated first.
    pub(crate) async fn list_threads(
        &self,
        caller: &Caller,
        query: ThreadQuery,
    ) -> Result<Page<Thread>, ApiError> {
        let listed = self.listed(caller, query).await?;
        Ok(listed.map(|found| found.thread))
    }

    /// Returns the threads that a query asks for; an agent's own only, where one asks.
    pub(super) async fn listed(
        &self,
        caller: &Caller,
        query: ThreadQuery,
    ) -> Result<Page<FoundThread>, ApiError> {
        let listed = self.queries.threads(ThreadQuery {
            agent: caller.agent().map(str::to_owned),
            ..query
        });
        let listed = listed.await?;
        // One that cannot be read is in the log, and hides no other.
        let mut entries = Vec::with_capacity(listed.entries.len());
        for row in listed.entries {
            match self.shown(row).await {
                Err(error) if error.is_unavailable() => return Err(error),
                shown => entries.extend(shown.ok().flatten()),
            }
        }
        Ok(Page {
            entries,
            next: listed.next,
        })
    }
}
