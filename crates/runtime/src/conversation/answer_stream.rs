//! Streaming of an answer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use tokio::sync::oneshot::error::TryRecvError;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::{Event, EventData};
use windlass_core::message::InputMessage;
use windlass_core::typed_id::{SessionId, TurnId};
use windlass_macros::OpaqueDebug;

use super::error::ConversationError;
use super::reply::Reply;
use crate::runtime::{CallerGuard, EventStream, InProcessRuntime};
use crate::turn_result::{TurnHandle, TurnResult};

/// Separator between two messages of one turn.
const BETWEEN_MESSAGES: &str = "\n\n";

/// A stream of the answer's text, which ends when the turn ends or parks.
///
/// It reads the journal at the reader's own pace, so a slow reader loses nothing. When a turn has several messages, for example before and after a
/// tool call, a blank line separates them. Dropping the stream before its end cancels the turn.
///
/// ```
/// # use windlass_core::llmsim_driver::LlmSimConfig;
/// # use windlass_runtime::{Conversation, StopReason};
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let slow = LlmSimConfig::fixed("Well, let me think.").with_piece_delay(std::time::Duration::from_secs(3600));
/// # let mut chat = Conversation::builder().simulator(slow).start().await?;
/// let mut answer = chat.stream("Is the Earth round?").await?;
/// assert_eq!(answer.next().await.as_deref(), Some("Well, "));
/// let stopped = answer.cancel().await?;
/// assert_eq!(stopped.turn.stop_reason, StopReason::Cancelled);
/// assert_eq!(stopped.text, "Well, ");
/// # Ok::<(), windlass_runtime::ConversationError>(())
/// # }).unwrap();
/// ```
#[derive(OpaqueDebug)]
pub struct AnswerStream {
    runtime: InProcessRuntime,
    session_id: SessionId,
    turn_id: TurnId,
    state: State,
}

type PieceFuture = Pin<Box<dyn Future<Output = (Box<TurnReader>, Option<String>)> + Send>>;

enum State {
    Ready(Box<TurnReader>),
    Reading(PieceFuture),
    Ended(Box<TurnReader>),
    Gone,
}

impl AnswerStream {
    pub(super) async fn begin(
        runtime: &InProcessRuntime,
        session_id: SessionId,
        input: InputMessage,
    ) -> Result<Self> {
        let events = runtime.subscribe(session_id).await?;
        let (handle, guard) = runtime.submit_guarded(session_id, input).await?;
        let turn_id = handle.turn_id();
        let turn = TurnReader {
            runtime: runtime.clone(),
            events,
            handle,
            guard,
            result: None,
            last: None,
            at: 0,
            returned: String::new(),
            needs_separator: false,
        };
        Ok(Self {
            runtime: runtime.clone(),
            session_id,
            turn_id,
            state: State::Ready(Box::new(turn)),
        })
    }

    /// Returns the turn.
    #[must_use]
    pub fn turn_id(&self) -> TurnId {
        self.turn_id
    }

    /// Waits for the next piece of text. Returns `None` when the turn has ended or is parked.
    pub async fn next(&mut self) -> Option<String> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Waits for the end and returns the reply, as [`Conversation::say`](super::Conversation::say) would.
    ///
    /// ```
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// # use windlass_runtime::Conversation;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let mut chat = Conversation::builder().simulator(LlmSimConfig::fixed("Hello!")).start().await?;
    /// let answer = chat.stream("Hi").await?;
    /// assert_eq!(answer.finish().await?.text, "Hello!");
    /// # Ok::<(), windlass_runtime::ConversationError>(())
    /// # }).unwrap();
    /// ```
    pub async fn finish(self) -> std::result::Result<Reply, ConversationError> {
        self.end().await?.or_stopped()
    }

    /// Cancels the turn and returns the text so far.
    pub async fn cancel(self) -> std::result::Result<Reply, ConversationError> {
        let stop = self
            .runtime
            .interrupt(self.session_id, Some(self.turn_id), None);
        match stop.await {
            // The turn ended in the meantime.
            Ok(()) | Err(AgentLoopError::NoActiveTurn(_)) => self.end().await,
            Err(error) => Err(error.into()),
        }
    }

    async fn end(mut self) -> std::result::Result<Reply, ConversationError> {
        while self.next().await.is_some() {}
        let turn = match std::mem::replace(&mut self.state, State::Gone) {
            State::Ended(turn) => turn.turn().await?,
            _ => return Err(AgentLoopError::SessionNotFound(self.session_id).into()),
        };
        Ok(Reply::new(&self.runtime, self.session_id, turn).await?)
    }
}

impl Stream for AnswerStream {
    type Item = String;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut reading = match std::mem::replace(&mut self.state, State::Gone) {
            State::Ready(turn) => Box::pin(turn.read_more()) as PieceFuture,
            State::Reading(reading) => reading,
            ended @ (State::Ended(_) | State::Gone) => {
                self.state = ended;
                return Poll::Ready(None);
            }
        };
        let polled = reading.as_mut().poll(cx);
        if polled.is_pending() {
            self.state = State::Reading(reading);
        }
        let (turn, piece) = ready!(polled);
        self.state = match piece {
            Some(_) => State::Ready(turn),
            None => State::Ended(turn),
        };
        Poll::Ready(piece)
    }
}

/// A turn that is being read.
struct TurnReader {
    runtime: InProcessRuntime,
    events: EventStream,
    handle: TurnHandle,
    guard: CallerGuard,
    result: Option<Result<TurnResult>>,
    /// The last event to read, once the turn has ended or is parked.
    last: Option<u64>,
    /// The event that was read last.
    at: u64,
    /// The part of the current message that was already returned.
    returned: String,
    /// Whether a message has ended, so that the next one begins with a separator.
    needs_separator: bool,
}

impl TurnReader {
    async fn read_more(mut self: Box<Self>) -> (Box<Self>, Option<String>) {
        let piece = self.next_piece().await;
        (self, piece)
    }

    async fn next_piece(&mut self) -> Option<String> {
        while self.last.is_none_or(|last| self.at < last) {
            tokio::select! {
                biased;
                event = self.events.next() => {
                    let event = event?;
                    self.at = event.seq();
                    if event.context.turn_id != Some(self.handle.turn_id()) {
                        continue;
                    }
                    if event.data.ends_turn() {
                        return None;
                    }
                    if let Some(piece) = self.piece_of(&event) {
                        return Some(piece);
                    }
                }
                result = self.handle.outcome(), if self.last.is_none() => {
                    // No event marks a parked turn, so the stream ends with the events recorded so far.
                    let head = self.runtime.latest_sequence(self.handle.session_id()).await;
                    self.last = Some(head.unwrap_or(self.at));
                    self.result = Some(result);
                }
            }
        }
        None
    }

    fn piece_of(&mut self, event: &Event) -> Option<String> {
        match &event.data {
            EventData::OutputMessageDelta(data) => self.take_piece(data.delta.clone()),
            EventData::OutputMessageCompleted(data) if !data.message.is_error_report() => {
                // The complete message is authoritative: text that no piece contained is returned now.
                let text = data.message.text().unwrap_or_default();
                let rest = text.strip_prefix(self.returned.as_str()).map(str::to_owned);
                let piece = rest.and_then(|rest| self.take_piece(rest));
                self.needs_separator |= !self.returned.is_empty();
                self.returned.clear();
                piece
            }
            _ => None,
        }
    }

    fn take_piece(&mut self, text: String) -> Option<String> {
        if text.is_empty() {
            return None;
        }
        let is_first = self.returned.is_empty() && std::mem::take(&mut self.needs_separator);
        self.returned.push_str(&text);
        Some(if is_first {
            format!("{BETWEEN_MESSAGES}{text}")
        } else {
            text
        })
    }

    /// Waits for the turn's result.
    async fn turn(mut self: Box<Self>) -> Result<TurnResult> {
        match self.result.take() {
            Some(result) => result,
            None => self.handle.outcome().await,
        }
    }
}

impl Drop for TurnReader {
    /// Dropping the stream of a parked turn leaves the turn parked.
    fn drop(&mut self) {
        if !matches!(self.handle.result.try_recv(), Err(TryRecvError::Empty)) {
            self.guard.disarm();
        }
    }
}
