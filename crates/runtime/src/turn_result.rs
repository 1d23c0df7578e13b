//! What a caller gets of a turn.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use windlass_core::error::{AgentLoopError, Result, WaitingFor};
use windlass_core::events::{Event, EventData, TokenUsage};
use windlass_core::typed_id::{MessageId, SessionId, TurnId};
use windlass_turn::OnBusy;

/// Why a turn stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// It came to its answer.
    Completed,
    /// It used up its model calls.
    MaxIterations,
    /// Somebody stopped it.
    Cancelled,
    /// It ran out of time.
    TimedOut,
    /// It failed.
    Failed,
    /// It waits for results from outside; it has not ended.
    WaitingForToolResults,
    /// It waits for an approval; it has not ended.
    WaitingForApproval,
}

/// What a turn came to, or how far it is when it waits.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnResult {
    /// Whether the turn came to its answer.
    pub success: bool,
    /// The last text of the agent.
    pub response: String,
    /// How many model calls it made.
    pub iterations: usize,
    /// How many tool calls it made.
    pub tool_calls_count: usize,
    /// Why it failed.
    pub error: Option<String>,
    /// A stable code of the failure.
    pub error_code: Option<String>,
    /// The turn.
    pub turn_id: TurnId,
    /// Why it stopped.
    pub stop_reason: StopReason,
    /// What it waits for.
    pub waiting_for: Option<WaitingFor>,
    /// What it used.
    pub usage: Option<TokenUsage>,
    /// How long it took so far.
    pub duration: Duration,
}

/// Gets the events of a turn as they are recorded.
pub type EventObserver = Arc<dyn Fn(&Event) + Send + Sync>;

/// Wishes for one turn.
#[derive(Clone, Default)]
pub struct TurnOptions {
    /// Stops the turn.
    pub cancel: Option<CancellationToken>,
    /// How long the turn may take.
    pub turn_timeout: Option<Duration>,
    /// How long each tool call may take.
    pub tool_timeout: Option<Duration>,
    /// Gets the turn's events as they are recorded.
    pub on_event: Option<EventObserver>,
    /// What to do while another turn is running.
    pub on_busy: OnBusy,
    /// The id of the turn, for a caller who must find it again after a crash; no turn may have had it before. A new one
    /// where none is given.
    pub turn_id: Option<TurnId>,
}

impl fmt::Debug for TurnOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnOptions")
            .field("turn_timeout", &self.turn_timeout)
            .field("tool_timeout", &self.tool_timeout)
            .field("on_busy", &self.on_busy)
            .field("turn_id", &self.turn_id)
            .finish_non_exhaustive()
    }
}

/// A turn that was accepted: its input is durable. Dropping the handle cancels nothing.
#[derive(Debug)]
pub struct TurnHandle {
    pub(crate) session_id: SessionId,
    pub(crate) turn_id: TurnId,
    pub(crate) message_id: Option<MessageId>,
    pub(crate) first_event: Option<Arc<Event>>,
    pub(crate) goes_on: bool,
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

    /// Returns the message that the input became.
    #[must_use]
    pub fn message_id(&self) -> Option<MessageId> {
        self.message_id
    }

    /// Returns the `turn.started` that was recorded with the input; `None` where the input waits for its turn, or went to one
    /// that had begun before.
    #[must_use]
    pub fn first_event(&self) -> Option<&Arc<Event>> {
        let first = self.first_event.as_ref();
        first.filter(|event| matches!(event.data, EventData::TurnStarted(_)))
    }

    /// Returns the `input.queued` that was recorded with the input; `None` if the input does not wait for its turn.
    #[must_use]
    pub fn queued_event(&self) -> Option<&Arc<Event>> {
        let first = self.first_event.as_ref();
        first.filter(|event| matches!(event.data, EventData::InputQueued(_)))
    }

    /// Tells whether the turn was still to end when the handle was given. One of an earlier process may have been ended
    /// instead of taken up: by [`RecoveryPolicy::Interrupt`](crate::RecoveryPolicy::Interrupt), or because it brought three processes down.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// Waits until the turn ends or waits for somebody.
    pub async fn wait(mut self) -> Result<TurnResult> {
        self.outcome().await
    }

    /// Waits as `wait` does, once; what is dropped while it waits is not lost.
    pub(crate) async fn outcome(&mut self) -> Result<TurnResult> {
        let (session_id, turn_id) = (self.session_id, self.turn_id);
        (&mut self.result).await.map_err(|_| {
            AgentLoopError::StoreUnavailable(format!(
                "turn {turn_id} of session {session_id} stopped without a result; it goes on when the session is used again"
            ))
        })
    }
}
