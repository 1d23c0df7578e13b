//! Derives the inputs of a thread from its recorded events.
//!
//! The first event of a decision shows its kind, and the following ones contain the rest. Events of one decision that could also come from two
//! consecutive ones may be read either way, because the result is the same.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::events::{Decision, Event, EventData, ToolStatus, TurnOutline, TurnStartedData};
use windlass_core::message::{InputMessage, Message};
use windlass_core::typed_id::{ExecId, TurnId};
use windlass_turn::{Approval, Input, OnBusy, QueueEdit, Thread, UnflushedText};

use super::answers::{end_of_call, failure_of};
use super::results::{finished, results, waits};

/// The cause of the next events.
pub(super) enum EventCause {
    /// An input of the thread's state machine.
    Input(Box<Input>),
    /// Streamed text that the step with this ID flushed.
    Text(ExecId, UnflushedText),
    /// Events that the turn machine does not decide.
    Outside,
    /// Events without a known cause.
    Unknown,
}

/// Returns the cause of a thread's next events.
pub(super) fn cause_of(thread: &Thread, rest: &[Arc<Event>]) -> EventCause {
    let Some(first) = rest.first() else {
        return EventCause::Unknown;
    };
    // The inputs of a compaction and the output of an external agent do not follow from the conversation.
    let is_elsewhere = |outline: Option<&TurnOutline>| {
        outline.is_some_and(|it| it.compaction == Some(true) || it.backend.is_some())
    };
    match (&first.data, thread.turn()) {
        (EventData::TurnStarted(data), None) if is_elsewhere(data.outline.as_ref()) => {
            return EventCause::Outside;
        }
        (EventData::SessionIdled(_), None) => return EventCause::Outside,
        (_, Some(turn)) if is_elsewhere(Some(&turn.outline)) => return EventCause::Outside,
        _ => {}
    }
    match &first.data {
        EventData::ReasonThinkingStarted(_) | EventData::OutputMessageStarted(_) => {
            text_of(rest.get(1))
        }
        EventData::ReasonThinkingDelta(_) | EventData::OutputMessageDelta(_) => {
            text_of(Some(first))
        }
        EventData::SessionStarted(_)
        | EventData::SessionUpdated(_)
        | EventData::SessionForked(_) => EventCause::Outside,
        data if is_emitted(data) && first.context.exec_id.is_none() => EventCause::Outside,
        _ => match recorded_input(thread, first, rest) {
            Some(input) => EventCause::Input(Box::new(input)),
            None => EventCause::Unknown,
        },
    }
}

/// Returns the input that led to an event and the following ones.
fn recorded_input(thread: &Thread, first: &Event, rest: &[Arc<Event>]) -> Option<Input> {
    Some(match &first.data {
        EventData::TranscriptRepaired(_)
        | EventData::TurnStarted(_)
        | EventData::InputMessage(_) => begin(thread, rest)?,
        EventData::OutputMessageCompleted(data) if thread.turn().is_none() => Input::Import {
            message: data.message.clone(),
        },
        EventData::InputQueued(data) => submit(&data.message, OnBusy::Queue, data.deadline_ms),
        EventData::InputEdited(data) => Input::EditQueued {
            turn_id: data.turn_id,
            edit: QueueEdit {
                content: data.content.clone(),
                position: data.position,
            },
        },
        EventData::TurnSteered(_) => Input::Steer {
            turn_id: None,
            message: input_of(message_at(rest, 1)?),
        },
        EventData::TurnInterruptRequested(data) => {
            interrupt(rest, data.turn_id, data.reason.clone())
        }
        EventData::TurnCancelled(data) => Input::Interrupt {
            turn_id: Some(data.turn_id),
            reason: data.reason.clone(),
        },
        EventData::ReasonThinkingCompleted(_) | EventData::LlmGeneration(_) => end_of_call(rest)?,
        EventData::ToolCompleted(data) if data.status == ToolStatus::Cancelled => Input::Timer,
        EventData::ToolCompleted(data) => finished(first, data)?,
        EventData::ToolCallRequested(_) | EventData::UserInputRequired(_) => waits(first)?,
        EventData::ToolCallResolved(_) => results(rest)?,
        EventData::ApprovalDecided(_) if is_overdue(thread, first) => Input::Timer,
        EventData::ApprovalDecided(data) => Input::Approval {
            call: first.context.exec_id?.to_string(),
            approval: match (data.decision, data.remember, data.project) {
                (Decision::Deny, ..) => Approval::Deny {
                    reason: data.reason.clone(),
                },
                (Decision::Allow, Some(true), _) => Approval::Turn,
                (Decision::Allow, _, Some(true)) => Approval::Project,
                (Decision::Allow, ..) => Approval::Once,
            },
        },
        EventData::UserInputAnswered(data) => Input::UserAnswer {
            request: data.request_id.clone(),
            answer: data.answer.clone(),
        },
        EventData::ApprovalTimeout(_)
        | EventData::ToolCallTimeout(_)
        | EventData::ToolCallCanceled(_)
        | EventData::UserInputCanceled(_)
        | EventData::ContextCompacted(_)
        | EventData::TurnFailed(_) => Input::Timer,
        EventData::TurnResumed(_) => Input::Recover,
        EventData::TurnReleased(_) => Input::Release,
        EventData::SessionRewound(data) => Input::Rewind {
            turn_id: data.to_turn,
        },
        data if is_emitted(data) => Input::Emit {
            exec_id: first.context.exec_id?,
            data: data.clone(),
        },
        _ => return None,
    })
}

fn is_emitted(data: &EventData) -> bool {
    matches!(
        data,
        EventData::ToolProgress(_)
            | EventData::ToolOutputDelta(_)
            | EventData::Custom(_)
            | EventData::FileWritten(_)
            | EventData::CapabilityUsage(_)
            | EventData::TaskCreated(_)
            | EventData::TaskUpdated(_)
            | EventData::SubagentStarted(_)
            | EventData::SubagentCompleted(_)
    )
}

/// Returns whether an event came after the turn's deadline, which therefore ended it.
fn is_overdue(thread: &Thread, event: &Event) -> bool {
    let deadline = thread.turn().and_then(|turn| turn.deadline);
    let ended = matches!(&event.data, EventData::ApprovalDecided(data) if data.reason.as_deref() == Some("turn_terminal"));
    ended && deadline.is_some_and(|deadline| deadline <= event.ts)
}

/// An input that starts a turn, or a message of the host. Calls without results are closed before either.
fn begin(thread: &Thread, rest: &[Arc<Event>]) -> Option<Input> {
    let is_repair = |event: &&Arc<Event>| matches!(event.data, EventData::TranscriptRepaired(_));
    let body = &rest[rest.iter().take_while(is_repair).count()..];
    match &body.first()?.data {
        EventData::TurnStarted(started) => {
            let next = thread.queue().front().map(|next| next.turn_id);
            if next == Some(started.turn_id) {
                let failure = body.get(3).and_then(|event| failure_of(event));
                let turn_id = started.turn_id;
                return Some(Input::Begin { turn_id, failure });
            }
            Some(Input::Submit {
                message: input_of(message_at(body, 1)?),
                on_busy: OnBusy::Queue,
                timeout: timeout_of(&body[0], started),
                turn_id: None,
            })
        }
        EventData::InputMessage(data) => Some(Input::Import {
            message: data.message.clone(),
        }),
        _ => None,
    }
}

fn timeout_of(event: &Event, started: &TurnStartedData) -> Option<Duration> {
    (started.deadline? - event.ts).to_std().ok()
}

/// The turn was interrupted, or a new input replaced it.
fn interrupt(rest: &[Arc<Event>], turn_id: TurnId, reason: Option<String>) -> Input {
    let idled = rest.iter().position(|event| {
        matches!(event.data, EventData::SessionIdled(_)) && event.context.turn_id == Some(turn_id)
    });
    let next = idled.and_then(|idled| rest.get(idled + 1));
    match next.map(|event| &event.data) {
        Some(EventData::InputQueued(data)) if data.ahead == Some(true) => {
            submit(&data.message, OnBusy::Interrupt, data.deadline_ms)
        }
        _ => Input::Interrupt {
            turn_id: None,
            reason,
        },
    }
}

fn submit(message: &Message, on_busy: OnBusy, deadline_ms: Option<u64>) -> Input {
    Input::Submit {
        message: input_of(message),
        on_busy,
        timeout: deadline_ms.map(Duration::from_millis),
        turn_id: None,
    }
}

fn text_of(event: Option<&Arc<Event>>) -> EventCause {
    let tail = event.and_then(|event| match &event.data {
        EventData::ReasonThinkingDelta(data) => Some(UnflushedText {
            thinking: data.delta.clone(),
            ..UnflushedText::default()
        }),
        EventData::OutputMessageDelta(data) => Some(UnflushedText {
            text: data.delta.clone(),
            ..UnflushedText::default()
        }),
        _ => None,
    });
    let exec_id = event.and_then(|event| event.context.exec_id);
    match exec_id.zip(tail) {
        Some((exec_id, tail)) => EventCause::Text(exec_id, tail),
        None => EventCause::Unknown,
    }
}

fn message_at(events: &[Arc<Event>], index: usize) -> Option<&Message> {
    match &events.get(index)?.data {
        EventData::InputMessage(data) => Some(&data.message),
        _ => None,
    }
}

fn input_of(message: &Message) -> InputMessage {
    InputMessage {
        role: message.role,
        content: message.content.clone(),
        controls: message.controls.clone(),
        metadata: message.metadata.clone(),
        tags: Vec::new(),
    }
}
