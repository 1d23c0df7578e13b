//! Resuming a turn after a crash.

use windlass_core::events::{LlmGenerationMetadata, ToolStatus, TurnReleasedData, TurnResumedData};
use windlass_core::tools::{SideEffectClass, ToolResult};

use super::compact::CompactionEnd;
use super::end::WaitEndCause;
use super::reason::{UnfinishedText, millis};
use crate::draft::Draft;
use crate::input::FailureDetails;
use crate::state::{Call, CallState, Phase};

/// Consecutive crashes of a turn, with no tool call completing in between, after which the turn fails at the next restart.
const MAX_CRASHES: u32 = 3;
/// Total crashes of a turn after which it fails.
const MAX_TOTAL_CRASHES: u32 = 10;
const OUTCOME_UNKNOWN: &str =
    "the process stopped while this call ran: its outcome is unknown; it was not repeated";

impl Draft<'_> {
    /// A model call is repeated under a new step: its earlier text is not its answer. A tool that is safe to repeat runs again under its own step;
    /// any other ends with an unknown outcome. An external agent resumes its session. Waits continue.
    ///
    /// The resume is recorded before anything starts: the record marks that this process executes the turn, so a process that crashes before it did
    /// anything counts too.
    pub(super) fn recover(&mut self) {
        let Some(turn) = self.turn() else { return };
        let (turn_id, attempt) = (turn.id, turn.resumes.saturating_add(1));
        let is_waiting = turn.is_waiting();
        self.turn_id = Some(turn_id);
        let extended_ms = self.extension();
        self.record(TurnResumedData {
            turn_id,
            attempt,
            extended_ms,
        });
        if is_waiting {
            return;
        }
        self.close_lost_calls();
        let crashes = self.turn().and_then(|turn| match turn {
            turn if turn.crashes >= MAX_CRASHES => Some(turn.crashes),
            turn if turn.total_crashes >= MAX_TOTAL_CRASHES => Some(turn.total_crashes),
            _ => None,
        });
        if let Some(crashes) = crashes {
            let message = format!("The process stopped {crashes} times while this turn ran");
            return self.give_up(&failure("crashed", &message));
        }
        match self.turn().map(|turn| &turn.phase) {
            Some(Phase::Reasoning(_)) => {
                let stopped = failure("process_stopped", "the process stopped");
                self.abandon_reason(
                    &stopped.message,
                    UnfinishedText::Void(&stopped),
                    LlmGenerationMetadata::default(),
                );
                self.repeat_reason();
            }
            Some(Phase::Acting(_)) => self.advance(),
            // Nothing of it was shown: the same step is repeated, if the budget allows it.
            Some(Phase::Compacting(_)) => {
                self.abandon_summary("the process stopped");
                if let Some(failure) = self.budget_failure() {
                    self.end_unchanged(&CompactionEnd::Interrupted, None);
                    self.fail_turn(&failure);
                }
            }
            Some(Phase::Backend(_)) => self.resume_run(),
            Some(Phase::Limited(_)) => {}
            Some(Phase::Between) | None => self.start_work(),
        }
    }

    /// Returns by how much open waits are extended, because users could not answer while no daemon ran. The end of the last process is not recorded,
    /// so the time since the turn's newest record is added, which is never too short.
    fn extension(&self) -> Option<u64> {
        let turn = self.turn()?;
        let mut calls = turn.calls().iter();
        let has_deadline = calls.any(|call| call.state.expires_at().is_some());
        let downtime = millis(turn.recorded_at, self.now());
        (has_deadline && downtime > 0).then_some(downtime)
    }

    /// Releases the turn to another process. A parked turn needs no such record, because no process is executing it.
    pub(super) fn release(&mut self) {
        let Some(turn) = self.turn() else { return };
        if turn.is_released || turn.is_waiting() {
            return;
        }
        let turn_id = turn.id;
        self.turn_id = Some(turn_id);
        self.record(TurnReleasedData { turn_id });
    }

    fn close_lost_calls(&mut self) {
        let is_lost = |call: &&Call| {
            matches!(
                call.state,
                CallState::Running {
                    side_effects: SideEffectClass::AtMostOnce
                }
            )
        };
        let calls = self.turn().map_or(&[][..], |turn| turn.calls());
        let lost: Vec<Call> = calls.iter().filter(is_lost).cloned().collect();
        for call in lost {
            let result = ToolResult::failure(&call.call.id, OUTCOME_UNKNOWN);
            self.close_call(call.exec_id, ToolStatus::Unknown, result);
        }
    }

    /// Ends a turn of a previous process that cannot resume.
    fn give_up(&mut self, failure: &FailureDetails) {
        self.turn_id = self.turn().map(|turn| turn.id);
        self.close_lost_calls();
        self.stop_steps(
            "cancelled: the turn was given up",
            WaitEndCause::ProcessGone,
        );
        self.fail_turn(failure);
    }
}

fn failure(code: &str, message: &str) -> FailureDetails {
    FailureDetails::new(code, message, "The turn could not be completed.")
}
