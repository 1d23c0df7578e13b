//! Turns of threads as runs: readable like other runs, and written only by the thread itself.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use windlass_core::runs::{CANCELLED_BY_CALL, RunStatus};
use windlass_core::typed_id::{SessionId, TurnId};
use windlass_store::TurnRun;

use crate::all::{AllRuns, AnyRun, ThreadTurns};
use crate::caller::RunCaller;
use crate::cancel::{CancelRun, receipt};
use crate::error::RunError;
use crate::runs::Runs;

/// Maximum wait for the end of an interrupted turn.
const PATIENCE: Duration = Duration::from_secs(2);

/// Control over turns.
#[async_trait]
pub trait Turns: Send + Sync {
    /// Interrupts a turn with a reason; returns when the interrupt is recorded. A turn that has ended is unchanged.
    async fn interrupt(
        &self,
        session_id: SessionId,
        turn_id: TurnId,
        reason: String,
    ) -> Result<(), RunError>;
}

impl Runs {
    /// Includes the turns of threads as runs; `turns` interrupts a turn when its run is canceled.
    #[must_use]
    pub fn with_turns(mut self, own: ThreadTurns, turns: Arc<dyn Turns>) -> Self {
        let (log, limits) = (Arc::clone(&self.log), self.settings.limits.clone());
        self.all = AllRuns::new(log, Some(own), limits);
        self.turns = Some(turns);
        self
    }

    /// Cancels the run of a turn by interrupting the turn. The receipt is recorded as the reason, so that the same key returns the same receipt.
    pub(crate) async fn cancel_turn(
        &self,
        caller: &RunCaller,
        run: TurnRun,
        cancel: &CancelRun,
    ) -> Result<Value, RunError> {
        let unknown = || RunError::UnknownRun(cancel.run_id.clone());
        let mut run = run;
        if run.summary.status == RunStatus::InProgress {
            let (Some(turns), Some(session_id)) = (&self.turns, run.summary.session_id) else {
                return Err(external_write_error(&run.summary.run_id));
            };
            let receipt = receipt(caller, cancel, "cancelled_confirmed");
            let reason = format!("{CANCELLED_BY_CALL}{receipt}");
            turns.interrupt(session_id, run.turn_id, reason).await?;
            run = self.ended_turn(run).await?.ok_or_else(unknown)?;
        }
        match run.summary.status {
            RunStatus::InProgress => Ok(receipt(caller, cancel, "termination_unconfirmed")),
            _ => {
                self.receipt_of_ended(&AnyRun::Turn(run), caller, cancel)
                    .await
            }
        }
    }

    /// Waits up to the limit for the end of a turn; `None` if its thread is gone.
    async fn ended_turn(&self, run: TurnRun) -> Result<Option<TurnRun>, RunError> {
        let run_id = run.summary.run_id.clone();
        let mut updates = self.all.watch(&AnyRun::Turn(run)).await?;
        let ended = async {
            loop {
                updates.borrow_and_update();
                let now = self.all.turn(&run_id).await?;
                let is_open = |run: &TurnRun| run.summary.status == RunStatus::InProgress;
                if !now.as_ref().is_some_and(is_open) || updates.changed().await.is_err() {
                    return Ok(now);
                }
            }
        };
        match tokio::time::timeout(PATIENCE, ended).await {
            Ok(ended) => ended,
            Err(_) => Ok(self.all.turn(&run_id).await?),
        }
    }
}

/// The error for external writes to the run of a turn.
pub(crate) fn external_write_error(run_id: &str) -> RunError {
    RunError::Conflict(format!(
        "run `{run_id}` is a turn of a session here, which records its steps and its end itself; use runs.cancel to \
         stop it"
    ))
}
