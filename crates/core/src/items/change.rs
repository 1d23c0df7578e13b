//! What one event changes for people.

use super::step::{ItemStep, item_step, of_message};
use super::turn::TurnView;
use crate::events::{
    ApprovalDecidedData, ApprovalRequiredData, ApprovalTimeoutData, Event, EventData,
    InputEditedData, InputQueuedData, SessionForkedData, SessionStartedData, SessionUpdatedData,
    ToolCallCanceledData, ToolCallRequestedData, ToolCallResolvedData, ToolCallTimeoutData,
    UserInputCanceledData, UserInputRequiredData,
};
use crate::typed_id::{ExecId, ItemId, TurnId};

/// What one event changes for people.
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
        /// Why.
        reason: Option<&'a str>,
    },
    /// A turn begins.
    TurnStarted(Box<TurnView>),
    /// A turn makes its first model call, or its backend starts.
    TurnWorks {
        /// The turn.
        turn_id: TurnId,
    },
    /// A turn goes on after the process was gone.
    TurnResumed {
        /// The turn.
        turn_id: TurnId,
        /// How often by now.
        count: u32,
    },
    /// A running turn was told more; the item with the words follows.
    TurnSteered {
        /// The turn.
        turn_id: TurnId,
        /// The item with the words.
        item_id: ItemId,
        /// The words.
        input: Option<&'a str>,
    },
    /// Somebody wants a turn to stop.
    InterruptRequested {
        /// The turn.
        turn_id: TurnId,
        /// Why.
        reason: Option<&'a str>,
    },
    /// A turn is at its end; its status says which.
    TurnEnded(Box<TurnView>),
    /// An item begins, grows or ends.
    Item(ItemStep<'a>),
    /// A call begins to wait for somebody, or no longer does.
    Wait(WaitChange<'a>),
}

/// What happens to a session itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SessionChange<'a> {
    /// It exists.
    Started(&'a SessionStartedData),
    /// Its record was changed.
    Updated(&'a SessionUpdatedData),
    /// It was made from another one.
    Forked(&'a SessionForkedData),
}

/// What a turn can wait for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    /// Somebody must allow a call.
    Approval,
    /// Somebody must answer a question.
    UserInput,
    /// Somebody outside must carry out a call.
    ExternalTool,
}

/// A call begins to wait for somebody, or no longer does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WaitChange<'a> {
    /// The turn.
    pub turn_id: TurnId,
    /// The call.
    pub exec_id: ExecId,
    /// The item of the call.
    pub item_id: ItemId,
    /// What happens.
    pub wait: Wait<'a>,
}

/// What happens to a wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Wait<'a> {
    /// Somebody outside must carry out a call.
    CallRequested(&'a ToolCallRequestedData),
    /// Somebody did.
    CallResolved(&'a ToolCallResolvedData),
    /// Nobody did in time.
    CallTimedOut(&'a ToolCallTimeoutData),
    /// The turn ended before.
    CallCanceled(&'a ToolCallCanceledData),
    /// Somebody must allow a call.
    ApprovalRequired(&'a ApprovalRequiredData),
    /// It is decided.
    ApprovalDecided(&'a ApprovalDecidedData),
    /// Nobody decided in time; the decision follows.
    ApprovalTimedOut(&'a ApprovalTimeoutData),
    /// Somebody must answer a question.
    InputRequired(&'a UserInputRequiredData),
    /// Somebody did. The answer is for the model only.
    InputAnswered {
        /// The question.
        request_id: &'a str,
    },
    /// The question is void.
    InputCanceled(&'a UserInputCanceledData),
}

impl Wait<'_> {
    /// Returns what is waited for from now on; `None` if the wait is over.
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

/// Reads what an event changes for people: at most one thing. What they do not see gives `None`.
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
        // Only the first model call is news: before it the turn was waiting for its place.
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
            item_id: of_message(data.message_id),
            input: data.input_text.as_deref(),
        }),
        EventData::TurnInterruptRequested(data) => Some(Change::InterruptRequested {
            turn_id: data.turn_id,
            reason: data.reason.as_deref(),
        }),
        EventData::TurnCompleted(_) | EventData::TurnFailed(_) | EventData::TurnCancelled(_) => {
            TurnView::ended(event).map(|turn| Change::TurnEnded(Box::new(turn)))
        }
        _ => wait_change(event).map(Change::Wait),
    }
}

/// Reads whether an event begins or ends a wait.
#[must_use]
pub fn wait_change(event: &Event) -> Option<WaitChange<'_>> {
    let wait = match &event.data {
        EventData::ToolCallRequested(data) => Wait::CallRequested(data),
        EventData::ToolCallResolved(data) => Wait::CallResolved(data),
        EventData::ToolCallTimeout(data) => Wait::CallTimedOut(data),
        EventData::ToolCallCanceled(data) => Wait::CallCanceled(data),
        EventData::ApprovalRequired(data) => Wait::ApprovalRequired(data),
        EventData::ApprovalDecided(data) => Wait::ApprovalDecided(data),
        EventData::ApprovalTimeout(data) => Wait::ApprovalTimedOut(data),
        EventData::UserInputRequired(data) => Wait::InputRequired(data),
        EventData::UserInputAnswered(data) => Wait::InputAnswered {
            request_id: &data.request_id,
        },
        EventData::UserInputCanceled(data) => Wait::InputCanceled(data),
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
