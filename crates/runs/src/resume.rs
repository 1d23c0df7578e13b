//! Resuming a run after its connection was lost. The previous connection can no longer write.

use windlass_core::runs::RunStatus;
use windlass_store::JournalError;

use crate::caller::{Role, RunCaller};
use crate::error::RunError;
use crate::open::{Holder, OpenRun};
use crate::runs::Runs;
use crate::turns::external_write_error;

/// A resumed run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resumed {
    /// ID of the run.
    pub run_id: String,
    /// ID of the owning agent.
    pub agent_id: String,
    /// The connection that owns the run now.
    pub client_id: String,
    /// The previous connection.
    pub resumed_from: String,
}

impl Runs {
    /// Resumes a run. A bound connection may resume its own agent's runs; others may resume runs of agents without a token.
    pub async fn resume(&self, caller: &RunCaller, run_id: &str) -> Result<Resumed, RunError> {
        let open = self.open().get(run_id).cloned();
        let Some(OpenRun {
            run,
            holder,
            resumed_from,
        }) = open
        else {
            if let Some(run) = self.all.turn(run_id).await? {
                return Err(if self.may_read(caller, &run.summary.agent_id) {
                    external_write_error(run_id)
                } else {
                    RunError::NotResumable
                });
            }
            let run = self.log.get(run_id).await?.ok_or(RunError::NotResumable)?;
            return Err(if self.may_resume(caller, &run.summary.agent_id) {
                ended(run.summary.status)
            } else {
                RunError::NotResumable
            });
        };
        if !self.may_resume(caller, &run.summary.agent_id) {
            return Err(RunError::NotResumable);
        }
        let resumed = |from: String| Resumed {
            run_id: run_id.to_owned(),
            agent_id: run.summary.agent_id.clone(),
            client_id: caller.client_id.to_string(),
            resumed_from: from,
        };
        match holder {
            Holder::Connection(client) if client == caller.client_id => {
                return Ok(resumed(resumed_from.unwrap_or_else(|| run.client.clone())));
            }
            Holder::Connection(_) => {
                return Err(RunError::Conflict(
                    "the run is still held by a live connection".to_owned(),
                ));
            }
            Holder::Waiting { until } if until <= self.clock.elapsed() => {
                return Err(RunError::Conflict("the resume lease is over".to_owned()));
            }
            Holder::Waiting { .. } => {}
        }
        self.check_open_runs(caller)?;
        let from = run.client.clone();
        match self.log.take_over(&run, caller.client_id.as_str()).await {
            Ok(now) => {
                let mut open = self.open();
                open.assign(now, Holder::Connection(caller.client_id.clone()));
                open.set_current(&caller.client_id, run_id);
                open.set_resumed_from(run_id, from.clone());
                Ok(resumed(from))
            }
            Err(JournalError::Fenced { .. } | JournalError::Removed(_)) => Err(RunError::Conflict(
                "another connection has taken the run over".to_owned(),
            )),
            Err(JournalError::OutOfSequence { .. }) => {
                let now = self.log.get(run_id).await?.ok_or(RunError::NotResumable)?;
                self.open().update(now.clone());
                Err(ended(now.summary.status))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn may_resume(&self, caller: &RunCaller, agent_id: &str) -> bool {
        match &caller.role {
            Role::Bound(agent) => agent == agent_id,
            Role::Unbound => !(self.settings.agents.has_token)(agent_id),
            Role::Host => false,
        }
    }
}

fn ended(status: RunStatus) -> RunError {
    RunError::Conflict(match status {
        // A transient state: the run's end was just recorded, or the run was just started.
        RunStatus::InProgress => "the owner of the run is changing; try again".to_owned(),
        status => format!("the run has ended ({status})"),
    })
}
