//! The state of a thread: the fold of its journal.

use std::collections::VecDeque;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;
use windlass_core::SharedList;
use windlass_core::budget::Spent;
use windlass_core::digest::Digest128;
use windlass_core::error::WaitingFor;
use windlass_core::events::{Event, TokenUsage, TurnOutline};
use windlass_core::history::History;
use windlass_core::mcp::DiscoveredTools;
use windlass_core::message::Message;
use windlass_core::session::SessionStatus;
use windlass_core::tools::{SideEffectClass, ToolCall};
use windlass_core::typed_id::{ExecId, MessageId, SessionId, TurnId};

use crate::decision::{Command, Decision};
use crate::run::{KnownSession, LastRun, LimitWait, OfflineDecision, Run};
use crate::transcript::Transcript;
use crate::validate::InvalidEvent;

/// The state of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Thread {
    pub(crate) session_id: SessionId,
    pub(crate) head: u64,
    /// Whether records before the head were pruned.
    pub(crate) is_cut: bool,
    pub(crate) history: Transcript,
    pub(crate) usage: Option<TokenUsage>,
    /// Budget used by its turns. Time includes only turns that have ended.
    pub(crate) spent: Spent,
    pub(crate) started_at: Option<DateTime<Utc>>,
    pub(crate) turn: Option<Turn>,
    pub(crate) queue: VecDeque<Queued>,
    /// The end of each turn of the conversation. Shared, because every decision starts from a copy.
    pub(crate) ends: SharedList<TurnEnd>,
    /// Calls of imported messages that have no result yet.
    pub(crate) dangling: Vec<Arc<ToolCall>>,
    /// External answers that were accepted in the running or last turn, to recognize repeats.
    pub(crate) answered: Vec<Answered>,
    /// External answers of earlier turns. Shared, because every decision starts from a copy.
    pub(crate) answered_before: SharedList<Answered>,
    /// The external agent's session of the conversation.
    pub(crate) session: Option<KnownSession>,
    /// The tools that MCP servers offered at the last discovery. Shared, because every decision starts from a copy.
    pub(crate) discovered: Arc<DiscoveredTools>,
    /// The provider's token count of the newest request.
    pub(crate) measured: Option<Measured>,
    /// The sessions that its calls created. Shared, because every decision starts from a copy.
    pub(crate) children: Arc<Vec<Child>>,
}

/// A session that a call of a thread created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Child {
    /// The turn of the call.
    pub turn_id: TurnId,
    pub exec_id: ExecId,
    pub session_id: SessionId,
    /// Whether its result is recorded.
    pub is_done: bool,
}

/// The size of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Measured {
    /// Tokens as counted by the provider.
    pub(crate) tokens: u64,
    /// The number of messages in it.
    pub(crate) messages: usize,
}

/// The end of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnEnd {
    pub turn_id: TurnId,
    /// Its last event.
    pub seq: u64,
    /// The number of messages in the conversation at that time.
    pub messages: usize,
}

/// A queued input.
#[derive(Debug, Clone, PartialEq)]
pub struct Queued {
    /// The turn that it will start.
    pub turn_id: TurnId,
    pub message: Arc<Message>,
    /// Timeout of the turn, if it differs from the plan.
    pub timeout_ms: Option<u64>,
}

/// An external answer that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) exec_id: ExecId,
    /// The ID of the call or question, as in the answer.
    pub(crate) call_id: String,
    pub(crate) digest: String,
}

/// One input in processing.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// Identifies the turn.
    pub id: TurnId,
    /// The input that started it.
    pub input_message_id: MessageId,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// Time of its newest record.
    pub(crate) recorded_at: DateTime<Utc>,
    /// When it is stopped.
    pub deadline: Option<DateTime<Utc>>,
    /// The number of model calls started; a retried call counts once.
    pub iterations: usize,
    /// The number of model calls that ended, including repeated ones.
    pub llm_calls: usize,
    /// The number of tool calls started.
    pub tool_calls: usize,
    /// Token usage of the turn.
    pub usage: Option<TokenUsage>,
    /// Budget used so far, without the time.
    pub spent: Spent,
    /// Time of the first text.
    pub first_token_at: Option<DateTime<Utc>>,
    /// The newest message of the agent.
    pub last_message_id: Option<MessageId>,
    /// Number of resumes after a crash.
    pub resumes: u32,
    /// The number of consecutive crashes of a process that executed the turn, since the last completed tool call.
    pub crashes: u32,
    /// Total number of crashes of processes that executed the turn.
    pub total_crashes: u32,
    /// Whether its last process released it in order.
    pub is_released: bool,
    /// Whether an approval covered all later calls of the turn.
    pub auto_approves: bool,
    /// Calls approved for the project, each by [`call_digest`](windlass_core::remembered_calls::call_digest).
    pub allowed: Vec<Digest128>,
    /// The digest of the tools that MCP servers offered it.
    pub discovered: Option<String>,
    /// The user-visible outline; shared, because every decision starts from a copy.
    pub outline: Arc<TurnOutline>,
    /// Steering messages that wait for the next model call.
    pub steered: Vec<Arc<Message>>,
    pub phase: Phase,
    /// The model call whose end is not recorded yet; its answer may be.
    pub(crate) open_reason: Option<ExecId>,
    /// The backend's run that ended last.
    pub(crate) last_run: Option<LastRun>,
    /// The number of consecutive waits for a rate limit.
    pub(crate) limit_waits: u32,
    /// Decisions about calls for which the external agent has yet to repeat its request.
    pub(crate) offline_decisions: Vec<OfflineDecision>,
    /// Whether an answer of it was rejected because it does not match the turn's schema. The model repairs one answer only.
    pub(crate) is_repairing: bool,
    /// Attempts at automatic compaction.
    pub(crate) compaction_attempts: CompactionAttempts,
}

/// Counts a turn's automatic compactions, which are limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CompactionAttempts {
    /// Since the last model call.
    pub(crate) since_call: u32,
    /// Those in a row that failed.
    pub(crate) failed: u32,
}

/// The current activity of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    /// No step is running: the turn begins or ends.
    Between,
    /// The model is called.
    Reasoning(Reason),
    /// Tools are called.
    Acting(Act),
    /// A compaction of the history.
    Compacting(Compaction),
    /// An external agent executes the turn.
    Backend(Box<Run>),
    /// The turn waits for the rate limit of its external agent's provider.
    Limited(LimitWait),
}

/// A running compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compaction {
    pub exec_id: ExecId,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// Number of newest messages that remain verbatim; `None` if a client requested the compaction, in a turn of its own.
    pub recent_messages: Option<usize>,
}

impl Compaction {
    /// Returns whether it started automatically.
    #[must_use]
    pub fn is_auto(&self) -> bool {
        self.recent_messages.is_some()
    }
}

/// A model call.
#[derive(Debug, Clone, PartialEq)]
pub struct Reason {
    pub exec_id: ExecId,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// When text was first shown.
    pub text_started: Option<DateTime<Utc>>,
    /// When thinking was first shown.
    pub thinking_started: Option<DateTime<Utc>>,
    /// The text that is in the journal.
    pub text: Text,
    /// The thinking that is in the journal.
    pub thinking: Text,
}

/// Streamed text in pieces. Every decision copies the thread, so the pieces are shared.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Text(SharedList<Arc<str>>);

impl Text {
    pub(crate) fn push(&mut self, piece: &str) {
        self.0.push(piece.into());
    }

    /// Returns the whole text.
    #[must_use]
    pub fn joined(&self) -> String {
        self.0.iter().map(|piece| &**piece).collect()
    }
}

/// The calls of one answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Act {
    /// The calls in their order.
    pub calls: Vec<Call>,
    /// The number of results, counted from the first call, that are in the history.
    pub placed: usize,
}

/// A tool call of the turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub exec_id: ExecId,
    pub call: Arc<ToolCall>,
    /// When it began.
    pub started_at: Option<DateTime<Utc>>,
    pub state: CallState,
}

/// The progress of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum CallState {
    /// It waits for other calls.
    Queued,
    /// Its tool is running.
    Running {
        /// The effect of repeating it.
        side_effects: SideEffectClass,
    },
    /// It needs an approval.
    AwaitingApproval {
        /// The effect of repeating it, once approved.
        side_effects: SideEffectClass,
        /// When the approval times out and counts as denied.
        expires_at: Option<DateTime<Utc>>,
    },
    /// It needs a result from a client.
    AwaitingResult {
        /// When the wait times out and the call counts as failed.
        expires_at: Option<DateTime<Utc>>,
    },
    /// The user must answer a question of it.
    AwaitingAnswer {
        /// The question's id.
        request_id: String,
        /// The question, as the client sees it.
        prompt: Value,
        /// When the question times out and counts as failed.
        expires_at: Option<DateTime<Utc>>,
    },
    /// It has a result.
    Done {
        /// The message with the result.
        message: Arc<Message>,
        /// Whether it succeeded.
        success: bool,
    },
}

impl CallState {
    /// Returns whether the call has a result.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done { .. })
    }

    /// Moves the deadline of the wait.
    pub(crate) fn extend(&mut self, by: TimeDelta) {
        if let Self::AwaitingApproval { expires_at, .. }
        | Self::AwaitingResult { expires_at }
        | Self::AwaitingAnswer { expires_at, .. } = self
            && let Some(at) = expires_at
        {
            *at = at.checked_add_signed(by).unwrap_or(*at);
        }
    }

    /// Returns when the wait times out.
    #[must_use]
    pub fn expires_at(&self) -> Option<DateTime<Utc>> {
        match self {
            Self::AwaitingApproval { expires_at, .. }
            | Self::AwaitingResult { expires_at }
            | Self::AwaitingAnswer { expires_at, .. } => *expires_at,
            Self::Queued | Self::Running { .. } | Self::Done { .. } => None,
        }
    }
}

impl Act {
    /// Finds a call by its step.
    #[must_use]
    pub fn call(&self, exec_id: ExecId) -> Option<&Call> {
        self.calls.iter().find(|call| call.exec_id == exec_id)
    }

    /// Returns whether every call has a result.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.calls.iter().all(|call| call.state.is_done())
    }
}

impl Turn {
    /// Returns the calls of the turn's newest answer, if it is acting.
    #[must_use]
    pub fn act(&self) -> Option<&Act> {
        match &self.phase {
            Phase::Acting(act) => Some(act),
            _ => None,
        }
    }

    /// Returns the backend's run, if there is one.
    #[must_use]
    pub fn run(&self) -> Option<&Run> {
        match &self.phase {
            Phase::Backend(run) => Some(run),
            _ => None,
        }
    }

    /// Returns the calls that the turn is concerned with: those of its newest answer, or those of its backend.
    #[must_use]
    pub fn calls(&self) -> &[Call] {
        match &self.phase {
            Phase::Acting(act) => &act.calls,
            Phase::Backend(run) => &run.calls,
            Phase::Between | Phase::Reasoning(_) | Phase::Compacting(_) | Phase::Limited(_) => &[],
        }
    }

    pub(crate) fn calls_mut(&mut self) -> &mut [Call] {
        match &mut self.phase {
            Phase::Acting(act) => &mut act.calls,
            Phase::Backend(run) => &mut run.calls,
            Phase::Between | Phase::Reasoning(_) | Phase::Compacting(_) | Phase::Limited(_) => {
                &mut []
            }
        }
    }

    /// Returns whether the turn is parked: it waits for a user, a client or a rate limit.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Limited(_)) || self.waiting_for().is_some()
    }

    /// Returns the number of consecutive crashes, assuming that the process that executed the turn is gone. A parked turn is not the cause of a
    /// process's end.
    #[must_use]
    pub fn crashes_without_its_process(&self) -> u32 {
        self.crashes.saturating_add(u32::from(self.is_at_work()))
    }

    /// Tells whether the end of the process now would be a crash of the turn.
    pub(crate) fn is_at_work(&self) -> bool {
        !self.is_released && !self.is_waiting()
    }

    /// Returns the open waits of the turn, if no other work is left.
    #[must_use]
    pub fn waiting_for(&self) -> Option<WaitingFor> {
        let calls = self.calls();
        if calls
            .iter()
            .any(|call| matches!(call.state, CallState::Running { .. }))
        {
            return None;
        }
        let mut waiting = WaitingFor::default();
        for call in calls {
            let id = || call.call.id.clone();
            match &call.state {
                CallState::AwaitingApproval { .. } => waiting.approvals.push(id()),
                CallState::AwaitingResult { .. } | CallState::AwaitingAnswer { .. } => {
                    waiting.tool_results.push(id())
                }
                CallState::Queued | CallState::Running { .. } | CallState::Done { .. } => {}
            }
        }
        (waiting != WaitingFor::default()).then_some(waiting)
    }
}

impl Thread {
    /// Makes the thread of a session without events.
    #[must_use]
    pub fn new(session_id: SessionId) -> Self {
        Self {
            session_id,
            head: 0,
            is_cut: false,
            history: Transcript::default(),
            usage: None,
            spent: Spent::default(),
            started_at: None,
            turn: None,
            queue: VecDeque::new(),
            ends: SharedList::default(),
            dangling: Vec::new(),
            answered: Vec::new(),
            answered_before: SharedList::default(),
            session: None,
            discovered: Arc::default(),
            measured: None,
            children: Arc::default(),
        }
    }

    /// Folds a journal into its thread.
    pub fn fold<'a>(
        session_id: SessionId,
        events: impl IntoIterator<Item = &'a Event>,
    ) -> Result<Self, InvalidEvent> {
        let mut thread = Self::new(session_id);
        let mut events = events.into_iter();
        events.try_for_each(|event| thread.evolve(event))?;
        Ok(thread)
    }

    /// Applies a decision once its events are durable; returns its events and commands.
    pub fn commit(&mut self, decision: Decision) -> (Vec<Arc<Event>>, Vec<Command>) {
        *self = *decision.after;
        (decision.events, decision.commands)
    }

    /// Returns the session.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.session_id
    }
    /// Returns the number of the newest event.
    #[must_use]
    pub fn head(&self) -> u64 {
        self.head
    }
    /// Returns the full conversation.
    #[must_use]
    pub fn history(&self) -> &History {
        self.history.whole()
    }
    /// Returns the approximate size of the conversation in memory, in bytes. It takes constant time.
    #[must_use]
    pub fn conversation_bytes(&self) -> usize {
        self.history.bytes()
    }
    /// Returns the model's view of the conversation: all of it, or a summary and the messages since.
    #[must_use]
    pub fn context(&self) -> &History {
        self.history.context()
    }
    /// Returns the usage of all turns.
    #[must_use]
    pub fn usage(&self) -> Option<TokenUsage> {
        self.usage
    }
    /// Returns the budget used by its turns. Time includes only turns that have ended.
    #[must_use]
    pub fn spent(&self) -> &Spent {
        &self.spent
    }
    /// Returns the sessions that its calls created, oldest first.
    #[must_use]
    pub fn children(&self) -> &[Child] {
        &self.children
    }
    /// Returns the external agent's session of the conversation.
    #[must_use]
    pub fn backend_session(&self) -> Option<&KnownSession> {
        self.session.as_ref()
    }
    /// Returns the tools that MCP servers offered the running or last turn, if they are still recorded.
    #[must_use]
    pub fn discovered(&self) -> &Arc<DiscoveredTools> {
        &self.discovered
    }
    /// Returns when the first turn started.
    #[must_use]
    pub fn started_at(&self) -> Option<DateTime<Utc>> {
        self.started_at
    }
    /// Returns the turn that is running or parked.
    #[must_use]
    pub fn turn(&self) -> Option<&Turn> {
        self.turn.as_ref()
    }
    /// Returns the queued inputs.
    #[must_use]
    pub fn queue(&self) -> &VecDeque<Queued> {
        &self.queue
    }

    /// Returns the ends of the conversation's turns, oldest first.
    pub fn ends(&self) -> impl DoubleEndedIterator<Item = &TurnEnd> + '_ {
        self.ends.iter()
    }

    /// Returns the session's current activity.
    #[must_use]
    pub fn status(&self) -> SessionStatus {
        match &self.turn {
            Some(turn) if turn.waiting_for().is_some() => SessionStatus::WaitingForToolResults,
            Some(_) => SessionStatus::Active,
            None if self.started_at.is_none() => SessionStatus::Started,
            None => SessionStatus::Idle,
        }
    }

    /// Returns the next time at which [`crate::Input::Timer`] would change something.
    #[must_use]
    pub fn next_deadline(&self) -> Option<DateTime<Utc>> {
        let turn = self.turn.as_ref()?;
        let waits = turn.calls().iter();
        let waits = waits.filter_map(|call| call.state.expires_at());
        let limit = match &turn.phase {
            Phase::Limited(wait) => Some(wait.until),
            _ => None,
        };
        waits.chain(turn.deadline).chain(limit).min()
    }

    /// Returns the commands that should be running now, to be started after a crash.
    #[must_use]
    pub fn pending_commands(&self) -> Vec<Command> {
        let Some(turn) = &self.turn else {
            let next = self.queue.front().map(|next| next.turn_id);
            let prepare = next.map(|turn_id| Command::Prepare { turn_id });
            return prepare.into_iter().collect();
        };
        match &turn.phase {
            Phase::Between | Phase::Limited(_) => Vec::new(),
            Phase::Backend(run) if run.is_lost => Vec::new(),
            Phase::Backend(run) => vec![run.command(self.session.as_ref())],
            Phase::Compacting(Compaction { exec_id, .. }) => {
                vec![Command::Summarise { exec_id: *exec_id }]
            }
            Phase::Reasoning(reason) => {
                vec![Command::CallModel {
                    exec_id: reason.exec_id,
                    iteration: turn.iterations,
                }]
            }
            Phase::Acting(act) => act
                .calls
                .iter()
                .filter(|call| matches!(call.state, CallState::Running { .. }))
                .map(|call| Command::RunTool {
                    exec_id: call.exec_id,
                    call: Arc::clone(&call.call),
                })
                .collect(),
        }
    }
}
