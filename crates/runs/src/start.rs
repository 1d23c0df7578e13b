//! Starting a run. It is durable before it becomes visible.

use serde::Deserialize;
use uuid::{Builder, Uuid, Version};
use windlass_core::runs::{RunStarted, RunStatus, turn_of_run};
use windlass_store::BeginOutcome;

use crate::caller::RunCaller;
use crate::error::RunError;
use crate::open::Holder;
use crate::runs::Runs;

/// Parameters of a new run.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct StartRun {
    /// Purpose of the run.
    pub intent: String,
    /// ID of the owning agent.
    pub agent_id: Option<String>,
    /// Name to derive an agent ID from.
    pub agent_name: Option<String>,
    /// Description of a successful outcome.
    pub outcome_description: Option<String>,
    /// ID of the run, so that a repeated start returns the same run.
    pub idempotency_key: Option<String>,
}

/// A started run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// ID of the run.
    pub run_id: String,
    /// ID of the owning agent.
    pub agent_id: String,
    /// Status of the run if it existed already.
    pub existing: Option<RunStatus>,
}

impl Runs {
    /// Starts a run. When this returns, the run is durable and is the current run of the connection.
    pub async fn start(&self, caller: &RunCaller, start: StartRun) -> Result<Started, RunError> {
        if start.intent.trim().is_empty() {
            return Err(RunError::BlankIntent);
        }
        self.check_lengths(&start)?;
        let agent_id = self.settings.agents.resolve(caller, &start)?;
        let run_id = match &start.idempotency_key {
            Some(key) => checked_key(key)?,
            None => new_run_id(),
        };
        self.check_open_runs(caller)?;
        let started = RunStarted {
            run_id: run_id.clone(),
            agent_id: agent_id.clone(),
            intent: start.intent,
            outcome_description: start.outcome_description,
            started_at: self.clock.now(),
        };
        let intent = started.intent.clone();
        let existing = match self.log.begin(started, caller.client_id.as_str()).await? {
            BeginOutcome::New(run) => {
                let mut open = self.open();
                open.assign(run, Holder::Connection(caller.client_id.clone()));
                open.set_current(&caller.client_id, &run_id);
                None
            }
            BeginOutcome::Existing(run)
                if (&run.summary.agent_id, &run.summary.intent) == (&agent_id, &intent) =>
            {
                let mut open = self.open();
                let ours = Holder::Connection(caller.client_id.clone());
                if open.get(&run_id).is_some_and(|open| open.holder == ours) {
                    open.set_current(&caller.client_id, &run_id);
                }
                Some(run.summary.status)
            }
            // A caller that guesses keys must not learn the owner.
            BeginOutcome::Existing(_) => {
                return Err(RunError::Conflict(format!(
                    "the idempotency key `{run_id}` was used for another start; use a new key"
                )));
            }
        };
        Ok(Started {
            run_id,
            agent_id,
            existing,
        })
    }

    fn check_lengths(&self, start: &StartRun) -> Result<(), RunError> {
        let limits = &self.settings.limits;
        let (intent, agent) = (limits.intent_bytes, limits.agent_bytes);
        let description = start.outcome_description.as_deref();
        let fields = [
            ("intent", Some(start.intent.as_str()), intent),
            ("outcome_description", description, intent),
            ("agent_id", start.agent_id.as_deref(), agent),
            ("agent_name", start.agent_name.as_deref(), agent),
        ];
        for (name, text, limit) in fields {
            let length = text.map_or(0, str::len);
            if length > limit {
                return Err(RunError::Limit(format!(
                    "runs.start: `{name}` has {length} bytes, and {limit} are allowed; shorten it"
                )));
            }
        }
        Ok(())
    }

    pub(crate) fn check_open_runs(&self, caller: &RunCaller) -> Result<(), RunError> {
        let limit = self.settings.limits.open_runs;
        if self.open().count_of(&caller.client_id) >= limit {
            return Err(RunError::Limit(format!(
                "this connection has {limit} open runs, which is the limit; complete some first"
            )));
        }
        Ok(())
    }
}

fn checked_key(key: &str) -> Result<String, RunError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    let is_good = (1..=128).contains(&key.len()) && key.bytes().all(is_plain);
    // The run of a turn has the turn's ID, whether or not the turn exists now.
    let is_free = turn_of_run(key).is_none();
    if is_good && is_free && key != "." && key != ".." {
        Ok(key.to_owned())
    } else {
        Err(RunError::InvalidParams(
        "runs.start: `idempotency_key` must be 1 to 128 bytes of A-Z a-z 0-9 . _ : -, neither `.` nor `..`, and \
         not the id of a turn"
            .to_owned(),
    ))
    }
}

/// Generates a unique ID. It has the UUID version that clients expect and starts with the time, so that the newest runs are adjacent in every index.
fn new_run_id() -> String {
    let ordered = Builder::from_bytes(Uuid::now_v7().into_bytes());
    ordered
        .with_version(Version::Random)
        .into_uuid()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_ids_have_version_4_and_are_sorted_by_time() {
        let ids: Vec<_> = std::iter::repeat_with(new_run_id).take(1_000).collect();
        assert!(ids.is_sorted_by(|before, after| before < after));
        let version = |id: &String| Uuid::parse_str(id).unwrap().get_version();
        assert!(ids.iter().all(|id| version(id) == Some(Version::Random)));
    }
}
