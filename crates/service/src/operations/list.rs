//! Listing threads.

use windlass_protocol::Thread;
use windlass_store::queries::{Listed, ThreadQuery};

use super::Asked;
use super::automations::{LIST_BYTES, beginning};
use crate::error::Result;
use crate::threads::FoundThread;

impl Asked {
    /// Lists threads, last updated first.
    pub async fn list_threads(&self, query: ThreadQuery) -> Result<Listed<Thread>> {
        let Listed { entries, next } = self.listed(query).await?;
        let mut bytes = 0;
        let entries = entries.into_iter().map(|found| {
            let mut thread = found.thread;
            // Whoever wants the whole of it asks for that one.
            if bytes > LIST_BYTES {
                thread.system_prompt = thread.system_prompt.as_deref().map(beginning);
            }
            bytes += thread.system_prompt.as_ref().map_or(0, String::len);
            thread
        });
        let entries = entries.collect();
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
