//! Turns of our own sessions as runs. List entries follow from the events alone.

use super::{OutcomeStatus, RunStatus};
use crate::events::{Event, EventData};
use crate::typed_id::TurnId;

/// The agent of the runs of a session without an agent.
pub const OWN_AGENT: &str = "windlass:main";

/// Prefix of the IDs of agents whose runs only Windlass records.
pub const OWN_AGENTS: &str = "windlass:";

/// The cancellation reason of a turn that must not resume after its process stopped.
pub const PROCESS_STOPPED: &str = "the process stopped";

/// Returns the ID of a turn's run. IDs of other runs have another form.
#[must_use]
pub fn run_of_turn(turn_id: TurnId) -> String {
    turn_id.to_string()
}

/// Returns the turn whose run has that id, if it is the run of a turn.
#[must_use]
pub fn turn_of_run(run_id: &str) -> Option<TurnId> {
    run_id.parse().ok()
}

/// Returns the agent of a session if an event contains it: the host's session record names the agent. The inner `None` is a session without an agent.
#[must_use]
pub fn owner_in(event: &Event) -> Option<Option<&str>> {
    let record = match &event.data {
        EventData::SessionStarted(data) => &data.record,
        EventData::SessionUpdated(data) => &data.record,
        EventData::SessionForked(data) => &data.record,
        _ => return None,
    };
    Some(record.as_ref()?.owner.as_deref())
}

/// Returns whether an event is a turn of the run: [`TurnTrace`](super::TurnTrace) makes one record of it.
#[must_use]
pub fn is_step(data: &EventData) -> bool {
    matches!(
        data,
        EventData::ReasonCompleted(_)
            | EventData::ToolCompleted(_)
            | EventData::ApprovalRequired(_)
            | EventData::ApprovalDecided(_)
            | EventData::UserInputRequired(_)
            | EventData::UserInputAnswered(_)
            | EventData::UserInputCanceled(_)
            | EventData::TurnSteered(_)
            | EventData::TurnResumed(_)
            | EventData::ContextCompacted(_)
            | EventData::BackendCompleted(_)
            | EventData::BackendWaiting(_)
            | EventData::SubagentStarted(_)
            | EventData::SubagentCompleted(_)
    )
}

/// Returns the status and outcome of a run after the event that ends its turn; `None` for any other event.
#[must_use]
pub fn end_in(data: &EventData) -> Option<(RunStatus, Option<OutcomeStatus>)> {
    let outcome = match data {
        EventData::TurnCompleted(_) => OutcomeStatus::Success,
        EventData::TurnFailed(data) => match data.error_code.as_deref() {
            Some("turn_timeout") => OutcomeStatus::Timeout,
            Some("max_iterations") => OutcomeStatus::GiveUp,
            _ => OutcomeStatus::Failure,
        },
        EventData::TurnCancelled(data) if data.reason.as_deref() == Some(PROCESS_STOPPED) => {
            return Some((RunStatus::Incomplete, None));
        }
        EventData::TurnCancelled(_) => return Some((RunStatus::Cancelled, None)),
        _ => return None,
    };
    Some((RunStatus::Completed, Some(outcome)))
}
