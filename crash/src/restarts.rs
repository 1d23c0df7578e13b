//! The restart rule: a turn fails at the restart after its third consecutive crash, neither sooner nor later.
//!
//! The count is derived from the events alone, independently of the turn machine, so that the two check each other.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use windlass_core::events::{Decision, Event, EventData, ToolStatus};
use windlass_core::typed_id::ExecId;

/// Maximum consecutive crashes of a turn.
const MAX_CRASHES: usize = 3;

/// State of the open turn.
#[derive(Default)]
struct CrashCounter {
    /// Crashes since a call last ended.
    crashes: usize,
    is_released: bool,
    is_thinking: bool,
    /// Calls without a result, and whether they wait for an answer.
    calls: HashMap<ExecId, bool>,
}

impl CrashCounter {
    /// Returns whether the turn is running: not all remaining calls wait for an answer.
    fn is_running(&self) -> bool {
        self.is_thinking || self.calls.is_empty() || self.calls.values().any(|waits| !waits)
    }

    fn follow(&mut self, event: &Event) {
        let step = event.context.exec_id;
        match (&event.data, step) {
            (EventData::TurnReleased(_), _) => self.is_released = true,
            (EventData::TurnResumed(_), _) => {
                if self.is_running() && !self.is_released {
                    self.crashes += 1;
                }
                self.is_released = false;
            }
            (EventData::ReasonStarted(_), _) => self.is_thinking = true,
            (EventData::ReasonCompleted(_), _) => self.is_thinking = false,
            (EventData::ToolStarted(_), Some(step)) => drop(self.calls.insert(step, false)),
            (EventData::ApprovalRequired(_) | EventData::ToolCallRequested(_), Some(step)) => {
                self.calls.insert(step, true);
            }
            (EventData::ApprovalDecided(data), Some(step)) if data.decision == Decision::Allow => {
                self.calls.insert(step, false);
            }
            (EventData::ToolCompleted(data), Some(step)) => {
                self.calls.remove(&step);
                if !matches!(data.status, ToolStatus::Unknown | ToolStatus::Cancelled) {
                    self.crashes = 0;
                }
            }
            _ => {}
        }
    }
}

/// Returns how many turns failed by the rule, after checking that exactly those had to.
pub(crate) fn check_crashes(events: &[Arc<Event>]) -> Result<usize, String> {
    let mut turn = CrashCounter::default();
    let mut failed = HashSet::new();
    for event in events {
        match &event.data {
            EventData::TurnStarted(_) => turn = CrashCounter::default(),
            data if data.ends_turn() => {
                let is_given_up = matches!(data, EventData::TurnFailed(data) if data.error_code.as_deref() == Some("crashed"));
                let name = event.context.turn_id;
                let name = name.map(|turn| turn.to_string()).unwrap_or_default();
                if is_given_up != (turn.crashes >= MAX_CRASHES) {
                    return Err(format!(
                        "{name} ends with {} after {} crashes in a row",
                        event.event_type, turn.crashes
                    ));
                }
                if is_given_up {
                    failed.insert(name);
                }
                turn = CrashCounter::default();
            }
            _ => turn.follow(event),
        }
        if turn.crashes > MAX_CRASHES {
            return Err(format!("event {} is a restart too many", event.seq()));
        }
    }
    if turn.crashes >= MAX_CRASHES {
        return Err("a turn was left open after its last crash".to_owned());
    }
    Ok(failed.len())
}
