//! Lists of runs, in pages.

use windlass_core::runs::{RunStatus, RunSummary};
use windlass_store::RunFilter;

use crate::all::AnyRun;
use crate::caller::{Role, RunCaller};
use crate::error::RunError;
use crate::runs::Runs;

/// Parameters of a list request.
#[derive(Debug, Clone, Default)]
pub struct ListRuns {
    /// Owner of the runs; `None` for all runs that the caller may read.
    pub agent_id: Option<String>,
    /// Only runs with this status.
    pub status: Option<RunStatus>,
    /// Start of the page: 0 for the newest run, else `next_cursor` of the previous page.
    pub cursor: u64,
    /// Maximum number of runs.
    pub limit: Option<usize>,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct RunList {
    /// The runs, newest first.
    pub runs: Vec<RunSummary>,
    /// The effective limit.
    pub limit: usize,
    /// Cursor of the next page, if there is one.
    pub next_cursor: Option<u64>,
}

impl Runs {
    /// Lists runs that the caller may read.
    pub async fn list(&self, caller: &RunCaller, list: ListRuns) -> Result<RunList, RunError> {
        let agent_id = match (list.agent_id, &caller.role) {
            // For a bound connection, the default is its own agent.
            (None, Role::Bound(agent)) => Some(agent.clone()),
            (agent_id, _) => agent_id,
        };
        if !self.may_read(caller, agent_id.as_deref().unwrap_or_default()) {
            return Err(RunError::NotAuthorized(
                "runs are listed for the agent that the connection is bound to, for the operator's token, or for the host"
                    .to_owned(),
            ));
        }
        let limit = checked_limit("runs.list", list.limit, self.settings.limits.list_page)?;
        let filter = RunFilter {
            agent_id,
            status: list.status,
            before: (list.cursor > 0).then_some(list.cursor),
            kind: None,
        };
        let mut runs = self.all.list(filter, limit + 1).await?;
        let has_more = runs.len() > limit;
        runs.truncate(limit);
        let last = runs.last().map(AnyRun::position);
        Ok(RunList {
            runs: runs.into_iter().map(RunSummary::from).collect(),
            limit,
            next_cursor: last.filter(|_| has_more),
        })
    }
}

/// Returns the page size; the default is the maximum.
pub(crate) fn checked_limit(
    method: &str,
    requested: Option<usize>,
    max: usize,
) -> Result<usize, RunError> {
    match requested.unwrap_or(max) {
        limit if (1..=max).contains(&limit) => Ok(limit),
        limit => Err(RunError::InvalidParams(format!(
            "{method}: `limit` must be 1 to {max}, not {limit}"
        ))),
    }
}
