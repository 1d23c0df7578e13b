//! Results and handles of turns.

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use windlass_core::error::{AgentLoopError, Result, WaitingFor};
use windlass_core::events::{Event, EventData, TokenUsage};
use windlass_core::typed_id::{MessageId, SessionId, TurnId};
use windlass_macros::OpaqueDebug;
use windlass_turn::OnBusy;

use crate::json_in_text;

/// Why a turn stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// The turn completed with an answer.
    Completed,
    /// The turn reached its maximum number of model calls.
    MaxIterations,
    /// The turn was cancelled.
    Cancelled,
    /// The turn reached its time limit.
    TimedOut,
    /// The turn failed; see the error.
    Failed,
    /// The turn is parked for external tool results; it has not ended.
    WaitingForToolResults,
    /// The turn is parked for an approval; it has not ended.
    WaitingForApproval,
}

/// The result of a turn, or its progress if it is parked.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnResult {
    /// Whether the turn completed with an answer.
    pub success: bool,
    /// The last text of the agent.
    pub response: String,
    /// The JSON value of the answer, for a turn with an output schema that it matches.
    pub output: Option<Value>,
    /// Number of model calls.
    pub iterations: usize,
    /// Number of tool calls.
    pub tool_calls_count: usize,
    /// Text of the failure; `None` if the turn did not fail.
    pub error: Option<String>,
    /// Stable code of the failure.
    pub error_code: Option<String>,
    /// ID of the turn.
    pub turn_id: TurnId,
    /// Why the turn ended or parked.
    pub stop_reason: StopReason,
    /// What a parked turn waits for; `None` if the turn has ended.
    pub waiting_for: Option<WaitingFor>,
    /// Usage of the turn, if known.
    pub usage: Option<TokenUsage>,
    /// Duration so far.
    pub duration: Duration,
}

impl TurnResult {
    /// Deserialises the answer of a turn with an output schema; `None` if there is none.
    ///
    /// # Errors
    /// If the value does not match the type, which is possible only if the schema belongs to another type.
    pub fn output_as<T: DeserializeOwned>(&self) -> Option<serde_json::Result<T>> {
        self.output.as_ref().map(T::deserialize)
    }
}

/// Extracts the JSON value of an answer that matches the output schema of its turn: from the whole text, its last code block or its brackets. The
/// value is recorded only as this text.
#[must_use]
pub fn output_value(answer: &str) -> Option<Value> {
    json_in_text::parse(answer).ok()
}

/// Gets the events of a turn as they are recorded.
pub type EventObserver = Arc<dyn Fn(&Event) + Send + Sync>;

/// Options for one turn.
#[derive(OpaqueDebug, Clone, Default)]
pub struct TurnOptions {
    /// Cancels the turn when triggered.
    pub cancel: Option<CancellationToken>,
    /// Maximum duration of the turn.
    pub turn_timeout: Option<Duration>,
    /// Maximum duration of each tool call.
    pub tool_timeout: Option<Duration>,
    /// Receives the turn's events as they are recorded.
    pub on_event: Option<EventObserver>,
    /// What to do while another turn is running.
    pub on_busy: OnBusy,
    /// ID of the turn, for a caller that must find it again after a crash; it must be unused. Default: a new ID.
    pub turn_id: Option<TurnId>,
}

/// An accepted turn: its input is durable. Dropping the handle cancels nothing.
#[derive(Debug)]
pub struct TurnHandle {
    pub(crate) session_id: SessionId,
    pub(crate) turn_id: TurnId,
    pub(crate) message_id: Option<MessageId>,
    pub(crate) first_event: Option<Arc<Event>>,
    pub(crate) is_open: bool,
    pub(crate) result: oneshot::Receiver<TurnResult>,
}

impl TurnHandle {
    /// Returns the turn.
    #[must_use]
    pub fn turn_id(&self) -> TurnId {
        self.turn_id
    }

    /// Returns the session.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.session_id
    }

    /// Returns the ID of the message that the input became.
    #[must_use]
    pub fn message_id(&self) -> Option<MessageId> {
        self.message_id
    }

    /// Returns the `turn.started` event that was recorded with the input; `None` if the input is queued or went to a turn that had already begun.
    #[must_use]
    pub fn first_event(&self) -> Option<&Arc<Event>> {
        let first = self.first_event.as_ref();
        first.filter(|event| matches!(event.data, EventData::TurnStarted(_)))
    }

    /// Returns the `input.queued` event that was recorded with the input; `None` if the input is not queued.
    #[must_use]
    pub fn queued_event(&self) -> Option<&Arc<Event>> {
        let first = self.first_event.as_ref();
        first.filter(|event| matches!(event.data, EventData::InputQueued(_)))
    }

    /// Returns whether the turn was still open when the handle was created. A turn of a previous process may have been ended instead of resumed: by
    /// [`RecoveryPolicy::Interrupt`](crate::RecoveryPolicy::Interrupt), or because its process crashed three times.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Waits until the turn ends or parks.
    pub async fn wait(mut self) -> Result<TurnResult> {
        self.outcome().await
    }

    /// Waits once as `wait` does; dropping the future while it waits loses no result.
    pub(crate) async fn outcome(&mut self) -> Result<TurnResult> {
        let (session_id, turn_id) = (self.session_id, self.turn_id);
        (&mut self.result).await.map_err(|_| {
            AgentLoopError::StoreUnavailable(format!(
                "turn {turn_id} of session {session_id} stopped without a result; it continues when the session is used again"
            ))
        })
    }
}
