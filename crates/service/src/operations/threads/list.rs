//! Lists threads.

use windlass_protocol::Thread;
use windlass_protocol::api::Page;
use windlass_protocol::operations::{CommaList, ThreadsQuery};
use windlass_store::queries::{Include, Listed, ThreadQuery, ThreadState};

use crate::convert::convert_variants;
use crate::operations::jobs::automations::{LIST_BYTES, beginning};
use crate::operations::prelude::*;
use crate::threads::FoundThread;

/// Converts the query parameters for archived threads.
pub(crate) fn included(include_archived: Option<bool>, archived_only: Option<bool>) -> Include {
    match (archived_only, include_archived) {
        (Some(true), _) => Include::Archived,
        (_, Some(true)) => Include::Recorded,
        _ => Include::Current,
    }
}

convert_variants! {
    fn stored_state(op::ThreadState) -> ThreadState { Idle Running Waiting }
}

pub(crate) fn states(requested: Option<CommaList<op::ThreadState>>) -> Vec<ThreadState> {
    let states = requested.map(|CommaList(states)| states);
    states.into_iter().flatten().map(stored_state).collect()
}

/// Lists threads, most recently updated first.
impl Handle<op::ListThreads> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::ListThreads>,
    ) -> Result<Page<Thread>> {
        let ThreadsQuery {
            limit,
            include_archived,
            archived_only,
            state,
            cursor,
        } = call.query;
        let query = ThreadQuery {
            include: included(include_archived, archived_only),
            states: states(state),
            after: cursor,
            ..ThreadQuery::first(limit.map_or(usize::MAX, saturated))
        };
        let Listed { entries, next } = self.listed(ctx, query).await?;
        let mut bytes = 0;
        let entries = entries.into_iter().map(|found| {
            let mut thread = found.thread;
            // The complete system prompt is available from the thread itself.
            if bytes > LIST_BYTES {
                thread.system_prompt = thread.system_prompt.as_deref().map(beginning);
            }
            bytes += thread.system_prompt.as_ref().map_or(0, String::len);
            thread
        });
        let entries = entries.collect();
        Ok(Page { entries, next })
    }
}

impl Service {
    /// Returns the threads that match a query; an agent gets only its own.
    pub(crate) async fn listed(
        &self,
        ctx: &RequestContext,
        query: ThreadQuery,
    ) -> Result<Listed<FoundThread>> {
        let listed = self.queries.threads(ThreadQuery {
            agent: ctx.caller.agent().map(str::to_owned),
            ..query
        });
        let Listed {
            entries: rows,
            next,
        } = listed.await?;
        // An unreadable thread is logged and does not hide the others.
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
