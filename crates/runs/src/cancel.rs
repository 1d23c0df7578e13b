//! Canceling a run. The same key returns the same receipt.

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::runs::{RunRecord, RunStatus, Termination};

use crate::all::AnyRun;
use crate::caller::{Role, RunCaller};
use crate::error::RunError;
use crate::runs::{Appended, Runs, WriteAccess};

/// Parameters of a cancellation.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelRun {
    /// ID of the run.
    pub run_id: String,
    /// Idempotency key: repeating a key returns the same receipt.
    pub idempotency_key: String,
    /// Reason for the cancellation; not stored.
    pub reason: String,
}

impl Runs {
    /// Cancels a run and returns the receipt.
    pub async fn cancel(&self, caller: &RunCaller, cancel: CancelRun) -> Result<Value, RunError> {
        check("idempotency_key", &cancel.idempotency_key, 128)?;
        check("reason", &cancel.reason, 1024)?;
        let unknown = || RunError::UnknownRun(cancel.run_id.clone());
        let run = match &caller.role {
            // The host may cancel any agent's run.
            Role::Host => {
                let open = self.open().get(&cancel.run_id).map(|open| open.run.clone());
                match open {
                    Some(run) => AnyRun::Reported(run),
                    None => self.all.get(&cancel.run_id).await?.ok_or_else(unknown)?,
                }
            }
            _ => match self.writable(caller, &cancel.run_id).await? {
                WriteAccess::Open(run) | WriteAccess::Ended(run) => AnyRun::Reported(run),
                WriteAccess::Turn(run) => AnyRun::Turn(run),
                WriteAccess::Unknown => return Err(unknown()),
            },
        };
        let run = match run {
            AnyRun::Turn(run) => return self.cancel_turn(caller, run, &cancel).await,
            AnyRun::Reported(open) if open.summary.status == RunStatus::InProgress => open,
            ended => return self.receipt_of_ended(&ended, caller, &cancel).await,
        };
        let cancellation = receipt(caller, &cancel, "cancelled_confirmed");
        let termination = Termination::Cancelled {
            cancellation: cancellation.clone(),
        };
        match self.end(run, &termination).await? {
            Appended::Done { .. } => Ok(cancellation),
            Appended::Ended(run) => {
                let run = AnyRun::Reported(run);
                self.receipt_of_ended(&run, caller, &cancel).await
            }
            Appended::Lost => Err(unknown()),
        }
    }

    /// Returns the receipt recorded under the same key, or an error that the run has already ended.
    pub(crate) async fn receipt_of_ended(
        &self,
        run: &AnyRun,
        caller: &RunCaller,
        cancel: &CancelRun,
    ) -> Result<Value, RunError> {
        let last = run.head() - 1;
        let page = self.all.read(run, last, 1, usize::MAX);
        if let Some(RunRecord::Ended(ended)) = page.await?.records.first()
            && let Termination::Cancelled { cancellation } = &ended.termination
            && cancellation["idempotency_key"] == cancel.idempotency_key
        {
            return Ok(cancellation.clone());
        }
        Ok(receipt(caller, cancel, "already_terminal"))
    }
}

pub(crate) fn receipt(caller: &RunCaller, cancel: &CancelRun, status: &str) -> Value {
    json!({
        "receipt_version": 1,
        "run_id": cancel.run_id,
        "idempotency_key": cancel.idempotency_key,
        "reason_digest": format!("blake3:{}", blake3::hash(cancel.reason.as_bytes()).to_hex()),
        "principal": caller.principal(),
        "status": status,
        "action_id": null,
        "request_id": null,
    })
}

fn check(name: &str, text: &str, limit: usize) -> Result<(), RunError> {
    if !text.trim().is_empty() && text.len() <= limit {
        Ok(())
    } else {
        Err(RunError::InvalidParams(format!(
            "runs.cancel: `{name}` must not be blank and may have {limit} bytes"
        )))
    }
}
