//! Reporting the outcome of a run, exactly once.

use windlass_core::bounds::json_bytes;
use windlass_core::runs::{RunEnded, RunOutcome, RunRecord, RunSummary, Termination};
use windlass_store::StoredRun;

use crate::caller::RunCaller;
use crate::error::RunError;
use crate::runs::{Appended, Runs, WriteAccess};
use crate::turns::external_write_error;

impl Runs {
    /// Ends a run with an outcome. The outcome is durable when this returns.
    pub async fn complete(
        &self,
        caller: &RunCaller,
        run_id: &str,
        outcome: RunOutcome,
    ) -> Result<(), RunError> {
        let limit = self.settings.limits.outcome_bytes;
        let length = json_bytes(&outcome);
        if length > limit {
            return Err(RunError::Limit(format!(
                "runs.complete: `outcome` has {length} bytes, and {limit} are allowed; leave evidence out"
            )));
        }
        let termination = Termination::Outcome {
            status: outcome.status,
            outcome: Box::new(outcome),
        };
        let unknown = || RunError::UnknownRun(run_id.to_owned());
        let run = match self.writable(caller, run_id).await? {
            WriteAccess::Open(run) => run,
            WriteAccess::Ended(run) => return Err(terminal(&run.summary)),
            WriteAccess::Turn(run) if run.summary.ended_at.is_some() => {
                return Err(terminal(&run.summary));
            }
            WriteAccess::Turn(_) => return Err(external_write_error(run_id)),
            WriteAccess::Unknown => return Err(unknown()),
        };
        match self.end(run, &termination).await? {
            Appended::Done { .. } => Ok(()),
            Appended::Ended(run) => Err(terminal(&run.summary)),
            Appended::Lost => Err(unknown()),
        }
    }

    /// Writes the end of a run.
    pub(crate) async fn end(
        &self,
        run: StoredRun,
        termination: &Termination,
    ) -> Result<Appended, RunError> {
        let ended_at = self.clock.now();
        self.append(run, |run| {
            vec![RunRecord::Ended(RunEnded {
                run_id: run.summary.run_id.clone(),
                agent_id: run.summary.agent_id.clone(),
                termination: termination.clone(),
                ended_at,
            })]
        })
        .await
    }
}

fn terminal(run: &RunSummary) -> RunError {
    RunError::Terminal {
        run_id: run.run_id.clone(),
        status: run.status,
    }
}
