//! Lists runs: turns of threads, and runs that other programs reported.

use std::sync::Arc;

use windlass_core::runs::{OutcomeStatus, RunStatus, RunSummary};
use windlass_protocol::api::Page;
use windlass_protocol::operations::{CommaList, RunStatusFilter};
use windlass_protocol::runs::{RunKind, RunLine, RunState};
use windlass_runs::{AllRuns, AnyRun, ThreadTurns};
use windlass_store::{RunFilter, RunKind as StoredKind};

use crate::ids;
use crate::operations::prelude::*;
use crate::view;

/// Default and maximum number of runs.
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 200;
/// Rows per query while rows are searched, and maximum number of rows that one request reads.
const ROWS: usize = 200;
const MAX_READ: usize = 2_000;

/// Lists runs, newest first. An agent gets only its own.
impl Handle<op::ListRuns> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::ListRuns>,
    ) -> Result<Page<RunLine>> {
        let query = call.query;
        let limit = limit(query.limit, DEFAULT_LIMIT, MAX_LIMIT);
        let own = ctx.caller.agent().map(str::to_owned);
        let is_other = |agent: &String| own.as_ref().is_some_and(|own| own != agent);
        if query.agent.as_ref().is_some_and(is_other) {
            return Ok(Page::from(Vec::new()));
        }
        let statuses = query.status.map(|CommaList(statuses)| statuses);
        let text = query.q.map(|text| text.to_lowercase());
        let mut filter = RunFilter {
            agent_id: own.or(query.agent),
            status: common_status(statuses.as_deref()),
            before: query.cursor.as_deref().map(position).transpose()?,
            kind: query.kind.map(|kind| match kind {
                RunKind::Turn => StoredKind::Turn,
                RunKind::Reported => StoredKind::Reported,
            }),
        };
        let is_selected = |run: &AnyRun| {
            let summary = run.summary();
            let is_in_state = |wanted: &RunStatusFilter| is_in_state(summary, *wanted);
            statuses
                .as_ref()
                .is_none_or(|all| all.iter().any(is_in_state))
                && (text.as_ref()).is_none_or(|text| summary.intent.to_lowercase().contains(text))
        };
        let runs = self.all_runs();
        let (mut entries, mut read) = (Vec::new(), 0);
        loop {
            let rows = runs.list(filter.clone(), ROWS.max(limit + 1)).await?;
            let is_end = rows.len() < ROWS.max(limit + 1);
            for run in rows {
                if entries.len() == limit || read == MAX_READ {
                    let next = filter.before.map(|position| position.to_string());
                    return Ok(Page { entries, next });
                }
                read += 1;
                filter.before = Some(run.position());
                if is_selected(&run) {
                    entries.push(wire_run(&run));
                }
            }
            if is_end {
                let next = None;
                return Ok(Page { entries, next });
            }
        }
    }
}

impl Service {
    fn all_runs(&self) -> AllRuns {
        let turns = ThreadTurns {
            journal: self.runtime.journal(),
            queries: Arc::clone(&self.queries),
        };
        let limits = self.settings.rpc.run_limits.clone();
        AllRuns::new(self.store.runs(), Some(turns), limits)
    }
}

fn position(cursor: &str) -> Result<u64> {
    let position = cursor.parse();
    position.map_err(|_| {
        ApiError::query("`cursor` is not a cursor of this list; begin again without one")
    })
}

/// Returns the stored status that all requested ones have in common, if there is one.
fn common_status(requested: Option<&[RunStatusFilter]>) -> Option<RunStatus> {
    let mut statuses = requested?.iter().map(|wanted| match wanted {
        RunStatusFilter::Waiting | RunStatusFilter::Is(RunState::InProgress) => {
            RunStatus::InProgress
        }
        RunStatusFilter::Is(RunState::Incomplete) => RunStatus::Incomplete,
        RunStatusFilter::Is(RunState::Cancelled) => RunStatus::Cancelled,
        RunStatusFilter::Completed | RunStatusFilter::Is(_) => RunStatus::Completed,
    });
    let first = statuses.next()?;
    statuses.all(|status| status == first).then_some(first)
}

fn is_in_state(run: &RunSummary, wanted: RunStatusFilter) -> bool {
    match wanted {
        RunStatusFilter::Is(wanted) => state(run) == wanted,
        RunStatusFilter::Completed => run.status == RunStatus::Completed,
        RunStatusFilter::Waiting => !run.waiting_for.is_empty(),
    }
}

fn state(run: &RunSummary) -> RunState {
    match (run.status, run.outcome) {
        (RunStatus::InProgress, _) => RunState::InProgress,
        (RunStatus::Incomplete, _) => RunState::Incomplete,
        (RunStatus::Cancelled, _) => RunState::Cancelled,
        (RunStatus::Completed, outcome) => match outcome {
            Some(OutcomeStatus::Success) => RunState::Success,
            Some(OutcomeStatus::PartialSuccess) => RunState::PartialSuccess,
            Some(OutcomeStatus::GiveUp) => RunState::GiveUp,
            Some(OutcomeStatus::Timeout) => RunState::Timeout,
            Some(OutcomeStatus::Failure) => RunState::Failure,
            Some(OutcomeStatus::Done) | None => RunState::Done,
        },
    }
}

fn wire_run(run: &AnyRun) -> RunLine {
    let summary = run.summary();
    let turn = match run {
        AnyRun::Turn(turn) => Some(turn),
        AnyRun::Reported(_) => None,
    };
    RunLine {
        id: summary.run_id.clone(),
        kind: match run {
            AnyRun::Turn(_) => RunKind::Turn,
            AnyRun::Reported(_) => RunKind::Reported,
        },
        agent: summary.agent_id.clone(),
        intent: summary.intent.clone(),
        status: state(summary),
        steps: summary.turn_count,
        started_at: ids::time(summary.started_at),
        ended_at: summary.ended_at.map(ids::time),
        thread_id: summary.session_id.map(ids::thread),
        model: turn
            .map(|turn| turn.model.clone())
            .filter(|model| !model.is_empty()),
        usage: turn.and_then(|turn| turn.usage).as_ref().map(view::usage),
        waiting_for: summary
            .waiting_for
            .iter()
            .copied()
            .map(view::wait_kind)
            .collect(),
    }
}
