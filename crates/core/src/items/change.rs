//! The user-visible change of an event.

use super::step::{ItemStep, item_of_message, item_step};
use super::turn::TurnView;
use crate::events::{
    ApprovalDecidedData, ApprovalRequiredData, ApprovalTimeoutData, Event, EventData,
    InputEditedData, InputQueuedData, SessionForkedData, SessionStartedData, SessionUpdatedData,
    ToolCallCanceledData, ToolCallRequestedData, ToolCallResolvedData, ToolCallTimeoutData,
    UserInputCanceledData, UserInputRequiredData,
};
use crate::typed_id::{ExecId, ItemId, TurnId};

/// The user-visible change of an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<'a> {
    /// The session itself changes.
    Session(SessionChange<'a>),
    /// An input waits for its turn.
    InputQueued(&'a InputQueuedData),
    /// An input that waits for its turn was changed.
    InputEdited(&'a InputEditedData),
    /// An input was removed before its turn began.
    InputRemoved {
        /// The turn that does not begin.
        turn_id: TurnId,
        reason: Option<&'a str>,
    },
    /// A turn begins.
    TurnStarted(Box<TurnView>),
    /// A turn makes its first model call, or its external agent starts.
    TurnWorks {
        /// ID of the turn that starts its work.
        turn_id: TurnId,
    },
    /// A turn resumes after its process was lost.
    TurnResumed {
        turn_id: TurnId,
        /// The number of resumptions so far.
        count: u32,
    },
    /// A running turn received another message; the message's item follows.
    TurnSteered {
        turn_id: TurnId,
        /// The item of the message.
        item_id: ItemId,
        /// The text of the message.
        input: Option<&'a str>,
    },
    /// The final answer of a turn does not match its schema; the turn repairs it.
    OutputRejected {
        turn_id: TurnId,
        /// The item with the answer.
        item_id: ItemId,
        /// The mismatches with the schema.
        errors: &'a [String],
    },
    /// A client requested that a turn stops.
    InterruptRequested {
        turn_id: TurnId,
        reason: Option<&'a str>,
    },
    /// A turn has ended; its status contains the outcome.
    TurnEnded(Box<TurnView>),
    /// An item begins, grows or ends.
    Item(ItemStep<'a>),
    /// A call starts or stops waiting for an approval, an answer or an external result.
    Wait(WaitChange<'a>),
}

/// A change of a session itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SessionChange<'a> {
    /// The session was created.
    Started(&'a SessionStartedData),
    /// Its record was changed.
    Updated(&'a SessionUpdatedData),
    /// It was forked from another session.
    Forked(&'a SessionForkedData),
}

/// The kinds of waits of a turn.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    /// A call requires approval.
    Approval,
    /// The user must answer a question.
    UserInput,
    /// An external client must return the result of a call.
    ExternalTool,
}

/// A call starts or stops waiting for an approval, an answer or an external result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WaitChange<'a> {
    pub turn_id: TurnId,
    pub exec_id: ExecId,
    /// The item of the call.
    pub item_id: ItemId,
    pub wait: WaitUpdate<'a>,
}

/// A change of a wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WaitUpdate<'a> {
    /// An external client must return the result of a call.
    CallRequested(&'a ToolCallRequestedData),
    /// The client returned the result.
    CallResolved(&'a ToolCallResolvedData),
    /// The result did not arrive in time.
    CallTimedOut(&'a ToolCallTimeoutData),
    /// The turn ended before.
    CallCanceled(&'a ToolCallCanceledData),
    /// A call requires approval.
    ApprovalRequired(&'a ApprovalRequiredData),
    /// The approval was decided.
    ApprovalDecided(&'a ApprovalDecidedData),
    /// The approval timed out; the decision follows.
    ApprovalTimedOut(&'a ApprovalTimeoutData),
    /// The user must answer a question.
    InputRequired(&'a UserInputRequiredData),
    /// The question was answered. Only the model sees the answer.
    InputAnswered {
        /// ID of the question.
        request_id: &'a str,
    },
    /// The question was cancelled.
    InputCanceled(&'a UserInputCanceledData),
}

impl WaitUpdate<'_> {
    /// Returns the kind of wait that starts; `None` if the wait is over.
    #[must_use]
    pub fn opens(&self) -> Option<WaitKind> {
        match self {
            Self::ApprovalRequired(_) => Some(WaitKind::Approval),
            Self::InputRequired(_) => Some(WaitKind::UserInput),
            Self::CallRequested(_) => Some(WaitKind::ExternalTool),
            _ => None,
        }
    }
}

/// Returns the user-visible change of an event, at most one; `None` if there is none.
#[must_use]
pub fn change(event: &Event) -> Option<Change<'_>> {
    if let Some(step) = item_step(event) {
        return Some(Change::Item(step));
    }
    match &event.data {
        EventData::SessionStarted(data) => Some(Change::Session(SessionChange::Started(data))),
        EventData::SessionUpdated(data) => Some(Change::Session(SessionChange::Updated(data))),
        EventData::SessionForked(data) => Some(Change::Session(SessionChange::Forked(data))),
        EventData::InputQueued(data) => Some(Change::InputQueued(data)),
        EventData::InputEdited(data) => Some(Change::InputEdited(data)),
        EventData::TurnCancelled(data) if TurnView::ended(event).is_none() => {
            Some(Change::InputRemoved {
                turn_id: data.turn_id,
                reason: data.reason.as_deref(),
            })
        }
        EventData::TurnStarted(data) => Some(Change::TurnStarted(Box::new(TurnView::started(
            event, data,
        )))),
        // Only the first model call is a change: until then the turn was queued.
        EventData::ReasonStarted(data) if data.iteration == 1 => Some(Change::TurnWorks {
            turn_id: event.context.turn_id?,
        }),
        EventData::BackendStarted(data) if data.iteration == 1 => Some(Change::TurnWorks {
            turn_id: event.context.turn_id?,
        }),
        EventData::TurnResumed(data) => Some(Change::TurnResumed {
            turn_id: data.turn_id,
            count: data.attempt,
        }),
        EventData::TurnSteered(data) => Some(Change::TurnSteered {
            turn_id: data.turn_id,
            item_id: item_of_message(data.message_id),
            input: data.input_text.as_deref(),
        }),
        EventData::OutputRejected(data) => Some(Change::OutputRejected {
            turn_id: data.turn_id,
            item_id: item_of_message(data.message_id),
            errors: &data.errors,
        }),
        EventData::TurnInterruptRequested(data) => Some(Change::InterruptRequested {
            turn_id: data.turn_id,
            reason: data.reason.as_deref(),
        }),
        EventData::TurnCompleted(_) | EventData::TurnFailed(_) | EventData::TurnCancelled(_) => {
            TurnView::ended(event).map(|turn| Change::TurnEnded(Box::new(turn)))
        }
        EventData::ToolCallRequested(_)
        | EventData::ToolCallResolved(_)
        | EventData::ToolCallTimeout(_)
        | EventData::ToolCallCanceled(_)
        | EventData::ApprovalRequired(_)
        | EventData::ApprovalDecided(_)
        | EventData::ApprovalTimeout(_)
        | EventData::UserInputRequired(_)
        | EventData::UserInputAnswered(_)
        | EventData::UserInputCanceled(_) => wait_change(event).map(Change::Wait),
        // `item_step` has read those that belong to an item.
        EventData::SessionActivated(_)
        | EventData::InputMessage(_)
        | EventData::OutputMessageStarted(_)
        | EventData::OutputMessageDelta(_)
        | EventData::OutputMessageCompleted(_)
        | EventData::ReasonThinkingStarted(_)
        | EventData::ReasonThinkingDelta(_)
        | EventData::ReasonThinkingCompleted(_)
        | EventData::ToolStarted(_)
        | EventData::ToolOutputDelta(_)
        | EventData::ToolCompleted(_)
        | EventData::ContextCompacting(_)
        | EventData::ContextCompacted(_)
        // The rest is not shown.
        | EventData::SessionRewound(_)
        | EventData::SessionIdled(_)
        | EventData::OutputMessageReplaced(_)
        | EventData::TurnReleased(_)
        | EventData::ReasonStarted(_)
        | EventData::ReasonCompleted(_)
        | EventData::LlmGeneration(_)
        | EventData::ToolsDiscovered(_)
        | EventData::ActStarted(_)
        | EventData::ActCompleted(_)
        | EventData::ToolProgress(_)
        | EventData::TranscriptRepaired(_)
        | EventData::CapabilityUsage(_)
        | EventData::SubagentStarted(_)
        | EventData::SubagentCompleted(_)
        | EventData::TaskCreated(_)
        | EventData::TaskUpdated(_)
        | EventData::BackendStarted(_)
        | EventData::BackendSessionChosen(_)
        | EventData::BackendEstablished(_)
        | EventData::BackendSteered(_)
        | EventData::BackendNotice(_)
        | EventData::BackendUsage(_)
        | EventData::BackendCompleted(_)
        | EventData::BackendWaiting(_)
        | EventData::FileWritten(_)
        | EventData::ScheduleTriggered(_)
        | EventData::JournalPruned(_)
        | EventData::Custom(_) => None,
    }
}

/// Returns the change of a wait by an event; `None` if the event changes no wait.
#[must_use]
pub fn wait_change(event: &Event) -> Option<WaitChange<'_>> {
    let wait = match &event.data {
        EventData::ToolCallRequested(data) => WaitUpdate::CallRequested(data),
        EventData::ToolCallResolved(data) => WaitUpdate::CallResolved(data),
        EventData::ToolCallTimeout(data) => WaitUpdate::CallTimedOut(data),
        EventData::ToolCallCanceled(data) => WaitUpdate::CallCanceled(data),
        EventData::ApprovalRequired(data) => WaitUpdate::ApprovalRequired(data),
        EventData::ApprovalDecided(data) => WaitUpdate::ApprovalDecided(data),
        EventData::ApprovalTimeout(data) => WaitUpdate::ApprovalTimedOut(data),
        EventData::UserInputRequired(data) => WaitUpdate::InputRequired(data),
        EventData::UserInputAnswered(data) => WaitUpdate::InputAnswered {
            request_id: &data.request_id,
        },
        EventData::UserInputCanceled(data) => WaitUpdate::InputCanceled(data),
        _ => return None,
    };
    let exec_id = event.context.exec_id?;
    Some(WaitChange {
        turn_id: event.context.turn_id?,
        exec_id,
        item_id: ItemId::from_uuid(exec_id.uuid()),
        wait,
    })
}
