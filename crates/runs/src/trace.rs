//! The records of a run, in pages.

use windlass_core::runs::RunRecord;

use crate::caller::RunCaller;
use crate::error::RunError;
use crate::list::checked_limit;
use crate::runs::Runs;

/// A page of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// ID of the owning agent.
    pub agent_id: String,
    /// Records in order.
    pub records: Vec<RunRecord>,
    /// Cursor of the next page, if there is one.
    pub next_cursor: Option<u64>,
}

impl Runs {
    /// Returns the records after a cursor, which counts all records. `None`: the run does not exist for this caller.
    pub async fn trace(
        &self,
        caller: &RunCaller,
        run_id: &str,
        cursor: u64,
        limit: Option<usize>,
    ) -> Result<Option<Trace>, RunError> {
        let limits = &self.settings.limits;
        let limit = checked_limit("runs.get_trace", limit, limits.trace_page)?;
        let Some(run) = self.readable(caller, run_id).await? else {
            return Ok(None);
        };
        let page = self.all.read(&run, cursor, limit, limits.page_bytes);
        let page = page.await?;
        let end = cursor.saturating_add(page.records.len() as u64);
        Ok(Some(Trace {
            agent_id: run.summary().agent_id.clone(),
            next_cursor: (end < page.head).then_some(end),
            records: page.records,
        }))
    }
}
