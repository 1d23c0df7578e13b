//! The callers that wait for a turn, and their results.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::DropGuard;
use windlass_core::events::{Event, EventData, TurnCompletedData};
use windlass_core::typed_id::{MessageId, TurnId};
use windlass_turn::{Thread, Turn};

use super::commit::observe;
use crate::turn_result::{EventObserver, StopReason, TurnResult, output_value};

struct Waiter {
    turn_id: TurnId,
    result: oneshot::Sender<TurnResult>,
}

/// The state of a submission.
pub(super) struct Ticket {
    /// Identifies the submission.
    pub(super) number: u64,
    /// The turn that accepted it.
    pub(super) turn_id: TurnId,
    /// Whether it started that turn, or only joined it.
    pub(super) owns_turn: bool,
    /// Maximum duration of each tool call; `None` uses the runtime's setting.
    pub(super) tool_timeout: Option<Duration>,
    /// Held for as long as the turn is open.
    pub(super) _until_end: Option<DropGuard>,
}

/// The callers that wait for turns of the thread.
#[derive(Default)]
pub(super) struct Waiters {
    waiting: Vec<Waiter>,
    observers: Vec<(TurnId, EventObserver)>,
    tickets: Vec<Ticket>,
}

impl Waiters {
    /// Returns a receiver for the result of a turn.
    pub(super) fn wait_for(&mut self, turn_id: TurnId) -> oneshot::Receiver<TurnResult> {
        let (result, receiver) = oneshot::channel();
        self.waiting.push(Waiter { turn_id, result });
        receiver
    }

    /// Adds an observer, which has missed the events of its own input.
    pub(super) fn add_observer(
        &mut self,
        turn_id: TurnId,
        observer: EventObserver,
        missed: &[Arc<Event>],
    ) {
        observe_turn(turn_id, &observer, missed);
        self.observers.push((turn_id, observer));
    }

    pub(super) fn add_ticket(&mut self, ticket: Ticket) {
        self.tickets.push(ticket);
    }

    /// Returns the tool timeout that a turn was submitted with. It is an option of a caller in this process and not recorded: after a restart the
    /// runtime's setting applies.
    pub(super) fn tool_timeout(&self, turn_id: TurnId) -> Option<Duration> {
        let is_own = |ticket: &&Ticket| ticket.turn_id == turn_id && ticket.owns_turn;
        self.tickets.iter().find(is_own)?.tool_timeout
    }

    pub(super) fn ticket(&self, number: u64) -> Option<&Ticket> {
        self.tickets.iter().find(|ticket| ticket.number == number)
    }

    /// Sends events to the observers of their turns.
    pub(super) fn observe(&self, events: &[Arc<Event>]) {
        for (turn_id, observer) in &self.observers {
            observe_turn(*turn_id, observer, events);
        }
    }

    /// Sends the result to every caller whose turn ended or is now parked.
    pub(super) fn settle(&mut self, thread: &Thread, events: &[Arc<Event>]) {
        for event in events.iter().filter(|event| event.data.ends_turn()) {
            let Some(result) = ended(thread, event) else {
                continue;
            };
            self.notify(&result);
            self.observers
                .retain(|(turn_id, _)| *turn_id != result.turn_id);
            self.tickets
                .retain(|ticket| ticket.turn_id != result.turn_id);
        }
        if let Some(result) = thread.turn().and_then(|turn| parked(thread, turn, events)) {
            self.notify(&result);
        }
    }

    fn notify(&mut self, result: &TurnResult) {
        for waiter in self
            .waiting
            .extract_if(.., |waiter| waiter.turn_id == result.turn_id)
        {
            // A caller that has gone away does not need the result.
            let _ = waiter.result.send(result.clone());
        }
    }
}

/// Sends the events of a turn to an observer.
fn observe_turn(turn_id: TurnId, observer: &EventObserver, events: &[Arc<Event>]) {
    let of_turn = |event: &&Arc<Event>| event.context.turn_id == Some(turn_id);
    for event in events.iter().filter(of_turn) {
        observe(observer.as_ref(), event);
    }
}

/// The result of a parked turn for its callers.
pub(super) fn parked(thread: &Thread, turn: &Turn, events: &[Arc<Event>]) -> Option<TurnResult> {
    let waiting_for = turn.waiting_for()?;
    let stop_reason = if waiting_for.approvals.is_empty() {
        StopReason::WaitingForToolResults
    } else {
        StopReason::WaitingForApproval
    };
    let duration = |event: &Arc<Event>| (event.ts - turn.started_at).to_std().unwrap_or_default();
    Some(TurnResult {
        iterations: turn.iterations,
        tool_calls_count: turn.tool_calls,
        waiting_for: Some(waiting_for),
        usage: turn.usage,
        duration: events.last().map(duration).unwrap_or_default(),
        ..result(thread, turn.id, stop_reason, turn.last_message_id)
    })
}

/// The result of an ended turn for its callers.
pub(super) fn ended(thread: &Thread, event: &Event) -> Option<TurnResult> {
    let millis = |ms: Option<u64>| Duration::from_millis(ms.unwrap_or(0));
    Some(match &event.data {
        EventData::TurnCompleted(data) => TurnResult {
            success: true,
            output: output_of(thread, data),
            iterations: data.iterations,
            tool_calls_count: data.tool_call_count.unwrap_or(0),
            usage: data.usage,
            duration: millis(data.duration_ms),
            ..result(
                thread,
                data.turn_id,
                StopReason::Completed,
                data.final_message_id,
            )
        },
        EventData::TurnFailed(data) => {
            let stop_reason = match data.error_code.as_deref() {
                Some("max_iterations") => StopReason::MaxIterations,
                Some("turn_timeout") => StopReason::TimedOut,
                _ => StopReason::Failed,
            };
            TurnResult {
                iterations: data.iterations.unwrap_or(0),
                tool_calls_count: data.tool_call_count.unwrap_or(0),
                error: Some(data.error.clone()),
                error_code: data.error_code.clone(),
                usage: data.usage,
                duration: millis(data.duration_ms),
                ..result(thread, data.turn_id, stop_reason, data.final_message_id)
            }
        }
        EventData::TurnCancelled(data) => {
            let reason = data.reason.as_ref().map(|reason| format!(": {reason}"));
            TurnResult {
                iterations: data.iterations.unwrap_or(0),
                tool_calls_count: data.tool_call_count.unwrap_or(0),
                error: Some(format!("Cancelled{}", reason.unwrap_or_default())),
                error_code: Some("cancelled".to_owned()),
                usage: data.usage,
                duration: millis(data.duration_ms),
                ..result(
                    thread,
                    data.turn_id,
                    StopReason::Cancelled,
                    data.final_message_id,
                )
            }
        }
        _ => return None,
    })
}

/// A result without an answer; the caller sets the remaining fields.
fn result(
    thread: &Thread,
    turn_id: TurnId,
    stop_reason: StopReason,
    message_id: Option<MessageId>,
) -> TurnResult {
    TurnResult {
        success: false,
        response: text_of(thread, message_id),
        output: None,
        iterations: 0,
        tool_calls_count: 0,
        error: None,
        error_code: None,
        turn_id,
        stop_reason,
        waiting_for: None,
        usage: None,
        duration: Duration::ZERO,
    }
}

/// Extracts the value of an answer whose turn has an output schema.
fn output_of(thread: &Thread, data: &TurnCompletedData) -> Option<Value> {
    let outline = data.outline.as_ref();
    outline.filter(|outline| outline.has_output_schema)?;
    output_value(&text_of(thread, data.final_message_id))
}

/// The message is one of the newest: at most the results of its calls follow it.
fn text_of(thread: &Thread, id: Option<MessageId>) -> String {
    let mut newest_first = thread.history().iter().rev();
    let message = newest_first.find(|message| Some(message.id) == id);
    let text = message.and_then(|message| message.text());
    text.unwrap_or_default().to_owned()
}
