//! Listing threads.

use windlass_protocol::Thread;
use windlass_store::queries::{Listed, ThreadQuery};

use super::Asked;
use crate::error::Result;
use crate::threads::FoundThread;

impl Asked {
    /// Lists threads, last updated first.
    pub(crate) async fn list_threads(&self, query: ThreadQuery) -> Result<Listed<Thread>> {
        let Listed { entries, next } = self.listed(query).await?;
        let entries = entries.into_iter().map(|found| found.thread).collect();
        Ok(Listed { entries, next })
    }

    /// Returns the threads that a query asks for; an agent's own only, where one asks.
    pub(super) async fn listed(&self, query: ThreadQuery) -> Result<Listed<FoundThread>> {
        let listed = self.queries.threads(ThreadQuery {
            agent: self.caller.agent().map(str::to_owned),
            ..query
        });
        let Listed {
            entries: rows,
            next,
        } = listed.await?;
        // One that cannot be read is in the log, and hides no other.
        let mut entries = Vec::with_capacity(rows.len());
        for row in rows {
            match self.shown(row).await {
                Err(error) if error.is_unavailable() => return Err(error),
                shown => entries.extend(shown.ok().flatten()),
            }
        }
        Ok(Listed { entries, next })
    }
}
