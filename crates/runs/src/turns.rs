//! Turns of our own sessions: they are read like other runs, and written by nobody but the session itself.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use windlass_core::runs::{CALLED_OFF, RunStatus};
use windlass_core::typed_id::{SessionId, TurnId};
use windlass_store::TurnRun;

use crate::all::{AllRuns, AnyRun, OwnTurns};
use crate::caller::Caller;
use crate::cancel::{CancelRun, receipt};
use crate::error::RunError;
use crate::runs::Runs;

/// How long the end of a turn is waited for that was told to stop.
const PATIENCE: Duration = Duration::from_secs(2);

/// What can be done to turns.
#[async_trait]
pub trait Turns: Send + Sync {
    /// Tells a turn to stop, and why; returns when that is recorded. A turn that is at its end stays as it is.
    async fn interrupt(
        &self,
        session_id: SessionId,
        turn_id: TurnId,
        reason: String,
    ) -> Result<(), RunError>;
}

impl Runs {
    /// Shows our own turns as runs too; `turns` stops one when its run is called off.
    #[must_use]
    pub fn with_turns(mut self, own: OwnTurns, turns: Arc<dyn Turns>) -> Self {
        let (log, limits) = (Arc::clone(&self.log), self.settings.limits.clone());
        self.all = AllRuns::new(log, Some(own), limits);
        self.turns = Some(turns);
        self
    }

    /// Calls off the run of a turn: the turn is interrupted. The receipt is recorded as its reason, so that the same key
    /// gets the same one.
    pub(crate) async fn cancel_turn(
        &self,
        caller: &Caller,
        run: TurnRun,
        cancel: &CancelRun,
    ) -> Result<Value, RunError> {
        let unknown = || RunError::UnknownRun(cancel.run_id.clone());
        let mut run = run;
        if run.summary.status == RunStatus::InProgress {
            let (Some(turns), Some(session_id)) = (&self.turns, run.summary.session_id) else {
                return Err(not_from_outside(&run.summary.run_id));
            };
            let receipt = receipt(caller, cancel, "cancelled_confirmed");
            let reason = format!("{CALLED_OFF}{receipt}");
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

    /// Waits a while for the end of a turn; `None` when its session is gone.
    async fn ended_turn(&self, run: TurnRun) -> Result<Option<TurnRun>, RunError> {
        let run_id = run.summary.run_id.clone();
        let mut bell = self.all.watch(&AnyRun::Turn(run)).await?;
        let ended = async {
            loop {
                bell.borrow_and_update();
                let now = self.all.turn(&run_id).await?;
                let is_open = |run: &TurnRun| run.summary.status == RunStatus::InProgress;
                if !now.as_ref().is_some_and(is_open) || bell.changed().await.is_err() {
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

/// Says why nobody writes to the run of a turn.
pub(crate) fn not_from_outside(run_id: &str) -> RunError {
    RunError::Conflict(format!(
        "run `{run_id}` is a turn of a session here, which records its steps and its end itself; use runs.cancel to \
         stop it"
    ))
}
