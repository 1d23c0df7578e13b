//! Who waits for a turn, and what they are told.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::DropGuard;
use windlass_core::events::{Event, EventData};
use windlass_core::typed_id::{MessageId, TurnId};
use windlass_turn::{Thread, Turn};

use super::commit::observe;
use crate::turn_result::{EventObserver, StopReason, TurnResult};

struct Waiter {
    turn_id: TurnId,
    result: oneshot::Sender<TurnResult>,
}

/// What became of a submission.
pub(super) struct Ticket {
    /// Names the submission.
    pub(super) number: u64,
    /// The turn that took it.
    pub(super) turn_id: TurnId,
    /// Whether it made that turn, or only joined it.
    pub(super) owns_turn: bool,
    /// How long each of its tool calls may take, where not as set for all.
    pub(super) tool_timeout: Option<Duration>,
    /// Held for as long as the turn is open.
    pub(super) _until_end: Option<DropGuard>,
}

/// Who waits for a turn of the thread.
#[derive(Default)]
pub(super) struct Waiters {
    waiting: Vec<Waiter>,
    observers: Vec<(TurnId, EventObserver)>,
    tickets: Vec<Ticket>,
}

impl Waiters {
    /// Returns where the result of a turn will arrive.
    pub(super) fn wait_for(&mut self, turn_id: TurnId) -> oneshot::Receiver<TurnResult> {
        let (result, receiver) = oneshot::channel();
        self.waiting.push(Waiter { turn_id, result });
        receiver
    }

    /// Adds an observer, which has missed the events that its own input led to.
    pub(super) fn add_observer(
        &mut self,
        turn_id: TurnId,
        observer: EventObserver,
        missed: &[Arc<Event>],
    ) {
        let of_turn = |event: &&Arc<Event>| event.context.turn_id == Some(turn_id);
        missed
            .iter()
            .filter(of_turn)
            .for_each(|event| observe(observer.as_ref(), event));
        self.observers.push((turn_id, observer));
    }

    pub(super) fn add_ticket(&mut self, ticket: Ticket) {
        self.tickets.push(ticket);
    }

    /// Returns the tool timeout that a turn was submitted with. It is a wish of a caller in this process and not
    /// recorded: after a restart the turn goes by what is set for all.
    pub(super) fn tool_timeout(&self, turn_id: TurnId) -> Option<Duration> {
        let mut of_turn = self
            .tickets
            .iter()
            .filter(|ticket| ticket.turn_id == turn_id);
        of_turn.find(|ticket| ticket.owns_turn)?.tool_timeout
    }

    pub(super) fn ticket(&self, number: u64) -> Option<&Ticket> {
        self.tickets.iter().find(|ticket| ticket.number == number)
    }

    /// Shows events to the observers of their turns.
    pub(super) fn observe(&self, events: &[Arc<Event>]) {
        for (turn_id, observer) in &self.observers {
            let of_turn = |event: &&Arc<Event>| event.context.turn_id == Some(*turn_id);
            events
                .iter()
                .filter(of_turn)
                .for_each(|event| observe(observer.as_ref(), event));
        }
    }

    /// Tells everybody whose turn ended, or now waits for somebody outside.
    pub(super) fn settle(&mut self, thread: &Thread, events: &[Arc<Event>]) {
        for event in events.iter().filter(|event| event.data.ends_turn()) {
            let Some(result) = ended(thread, event) else {
                continue;
            };
            self.tell(&result);
            self.observers
                .retain(|(turn_id, _)| *turn_id != result.turn_id);
            self.tickets
                .retain(|ticket| ticket.turn_id != result.turn_id);
        }
        if let Some(result) = thread.turn().and_then(|turn| parked(thread, turn, events)) {
            self.tell(&result);
        }
    }

    fn tell(&mut self, result: &TurnResult) {
        for waiter in self
            .waiting
            .extract_if(.., |waiter| waiter.turn_id == result.turn_id)
        {
            // Whoever has gone away does not want to know.
            let _ = waiter.result.send(result.clone());
        }
    }
}

/// A turn that waits for somebody, as its callers see it.
pub(super) fn parked(thread: &Thread, turn: &Turn, events: &[Arc<Event>]) -> Option<TurnResult> {
    let waiting_for = turn.waiting_for()?;
    let stop_reason = match waiting_for.approvals.is_empty() {
        true => StopReason::WaitingForToolResults,
        false => StopReason::WaitingForApproval,
    };
    let took = events
        .last()
        .map(|event| (event.ts - turn.started_at).to_std().unwrap_or_default());
    Some(TurnResult {
        success: false,
        response: text_of(thread, turn.last_message_id),
        iterations: turn.iterations,
        tool_calls_count: turn.tool_calls,
        error: None,
        error_code: None,
        turn_id: turn.id,
        stop_reason,
        waiting_for: Some(waiting_for),
        usage: turn.usage,
        duration: took.unwrap_or_default(),
    })
}

/// A turn that has ended, as its callers see it.
pub(super) fn ended(thread: &Thread, event: &Event) -> Option<TurnResult> {
    let millis = |ms: Option<u64>| Duration::from_millis(ms.unwrap_or(0));
    let count = |count: Option<usize>| count.unwrap_or(0);
    Some(match &event.data {
        EventData::TurnCompleted(data) => TurnResult {
            success: true,
            response: text_of(thread, data.final_message_id),
            iterations: data.iterations,
            tool_calls_count: count(data.tool_call_count),
            error: None,
            error_code: None,
            turn_id: data.turn_id,
            stop_reason: StopReason::Completed,
            waiting_for: None,
            usage: data.usage,
            duration: millis(data.duration_ms),
        },
        EventData::TurnFailed(data) => TurnResult {
            success: false,
            response: text_of(thread, data.final_message_id),
            iterations: count(data.iterations),
            tool_calls_count: count(data.tool_call_count),
            error: Some(data.error.clone()),
            error_code: data.error_code.clone(),
            turn_id: data.turn_id,
            stop_reason: match data.error_code.as_deref() {
                Some("max_iterations") => StopReason::MaxIterations,
                Some("turn_timeout") => StopReason::TimedOut,
                _ => StopReason::Failed,
            },
            waiting_for: None,
            usage: data.usage,
            duration: millis(data.duration_ms),
        },
        EventData::TurnCancelled(data) => TurnResult {
            success: false,
            response: text_of(thread, data.final_message_id),
            iterations: count(data.iterations),
            tool_calls_count: count(data.tool_call_count),
            error: Some(
                data.reason
                    .clone()
                    .map_or_else(|| "Cancelled".to_owned(), |why| format!("Cancelled: {why}")),
            ),
            error_code: Some("cancelled".to_owned()),
            turn_id: data.turn_id,
            stop_reason: StopReason::Cancelled,
            waiting_for: None,
            usage: data.usage,
            duration: millis(data.duration_ms),
        },
        _ => return None,
    })
}

/// The message is one of the newest: at most the results of its calls stand behind it.
fn text_of(thread: &Thread, id: Option<MessageId>) -> String {
    let message = thread
        .history()
        .iter()
        .rev()
        .find(|message| Some(message.id) == id);
    message
        .and_then(|message| message.text())
        .unwrap_or_default()
        .to_owned()
}
