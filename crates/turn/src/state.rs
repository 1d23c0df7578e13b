//! The state of a thread: what the journal folds into.

use std::collections::VecDeque;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::Value;
use windlass_core::budget::Spent;
use windlass_core::digest::Digest128;
use windlass_core::error::WaitingFor;
use windlass_core::events::{Event, TokenUsage, TurnOutline};
use windlass_core::history::History;
use windlass_core::mcp::DiscoveredTools;
use windlass_core::message::Message;
use windlass_core::session::SessionStatus;
use windlass_core::shared_list::SharedList;
use windlass_core::tools::{SideEffectClass, ToolCall};
use windlass_core::typed_id::{ExecId, MessageId, SessionId, TurnId};

use crate::decision::{Command, Decision};
use crate::fits::Misfit;
use crate::run::{KnownSession, LastRun, LimitWait, Run, Settled};
use crate::transcript::Transcript;

/// One conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Thread {
    pub(crate) session_id: SessionId,
    pub(crate) head: u64,
    /// Whether records before the head are no longer kept.
    pub(crate) is_cut: bool,
    pub(crate) history: Transcript,
    pub(crate) usage: Option<TokenUsage>,
    /// What its turns have used of their budgets; of the time, only turns that have ended.
    pub(crate) spent: Spent,
    pub(crate) started_at: Option<DateTime<Utc>>,
    pub(crate) turn: Option<Turn>,
    pub(crate) queue: VecDeque<Queued>,
    /// Where each turn of the conversation has ended. Shared, because every decision starts from a copy.
    pub(crate) ends: SharedList<TurnEnd>,
    /// Calls of imported messages that have no result yet.
    pub(crate) dangling: Vec<Arc<ToolCall>>,
    /// Answers from outside that were taken in the running or last turn, so that a repeat is known.
    pub(crate) answered: Vec<Answered>,
    /// Those of turns before. Shared, because every decision starts from a copy.
    pub(crate) answered_before: SharedList<Answered>,
    /// The session that the last backend has of the conversation.
    pub(crate) session: Option<KnownSession>,
    /// What MCP servers offered when they were last asked. Shared, because every decision starts from a copy.
    pub(crate) discovered: Arc<DiscoveredTools>,
    /// What the provider counted in the newest request.
    pub(crate) measured: Option<Measured>,
    /// The sessions that its calls have begun. Shared, because every decision starts from a copy.
    pub(crate) children: Arc<Vec<Child>>,
}

/// A session that a call of a thread has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Child {
    /// The turn of the call.
    pub turn_id: TurnId,
    /// The call.
    pub exec_id: ExecId,
    /// The session.
    pub session_id: SessionId,
    /// Whether what it came to is on record.
    pub is_done: bool,
}

/// How long a request was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Measured {
    /// As the provider counts.
    pub(crate) tokens: u64,
    /// How many messages of the conversation it had.
    pub(crate) messages: usize,
}

/// Where a turn has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnEnd {
    /// The turn.
    pub turn_id: TurnId,
    /// Its last event.
    pub seq: u64,
    /// How many messages the conversation had then.
    pub messages: usize,
}

/// An input that waits for its turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Queued {
    /// The turn that it will start.
    pub turn_id: TurnId,
    /// What was said.
    pub message: Arc<Message>,
    /// How long the turn may take, where not as planned.
    pub timeout_ms: Option<u64>,
}

/// An answer from outside that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) exec_id: ExecId,
    /// The call, or the question, as the answer names it.
    pub(crate) call_id: String,
    pub(crate) digest: String,
}

/// One input on its way to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// Identifies the turn.
    pub id: TurnId,
    /// The input that started it.
    pub input_message_id: MessageId,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// When it is stopped.
    pub deadline: Option<DateTime<Utc>>,
    /// How many model calls were begun; one that is made again counts once.
    pub iterations: usize,
    /// How many model calls ended, those that were made again included.
    pub llm_calls: usize,
    /// How many tool calls were begun.
    pub tool_calls: usize,
    /// What it used.
    pub usage: Option<TokenUsage>,
    /// What it has used of its budget, without the time.
    pub spent: Spent,
    /// When the first text came.
    pub first_token_at: Option<DateTime<Utc>>,
    /// The newest message of the agent.
    pub last_message_id: Option<MessageId>,
    /// How often it went on after the process was gone.
    pub resumes: u32,
    /// How many processes in a row went down while they were at work on it: since a tool call last ran to its end.
    pub crashes: u32,
    /// How many processes went down in all while they were at work on it.
    pub total_crashes: u32,
    /// Whether the process that was at work on it let go of it in order.
    pub is_released: bool,
    /// Whether somebody allowed its later calls together with an earlier one.
    pub asks_nobody: bool,
    /// Calls that somebody allowed in it for good, each by [`call_digest`](windlass_core::remembered_calls::call_digest).
    pub allowed: Vec<Digest128>,
    /// The digest of what MCP servers offered it.
    pub discovered: Option<String>,
    /// What people see of it; shared, because every decision starts from a copy.
    pub outline: Arc<TurnOutline>,
    /// What was said to it and waits for the next model call.
    pub steered: Vec<Arc<Message>>,
    /// What it is doing.
    pub phase: Phase,
    /// The model call whose end is not recorded yet; its answer may be.
    pub(crate) open_reason: Option<ExecId>,
    /// The backend's run that ended last.
    pub(crate) last_run: Option<LastRun>,
    /// How many waits for a provider's limit there were in a row.
    pub(crate) limit_waits: u32,
    /// What was decided about calls of a backend that has yet to ask for them again.
    pub(crate) settled: Vec<Settled>,
    /// How often the history was to be made shorter by itself.
    pub(crate) tries: CompactionTries,
}

/// How often a turn tried to make the history shorter by itself: it does not try again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CompactionTries {
    /// Since the last model call.
    pub(crate) since_call: u32,
    /// Those in a row that failed.
    pub(crate) failed: u32,
}

/// What a turn is doing.
#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    /// It begins or ends: nothing runs.
    Between,
    /// The model is called.
    Reasoning(Reason),
    /// Tools are called.
    Acting(Act),
    /// The history is made shorter.
    Compacting(Compaction),
    /// A backend carries the turn.
    Backend(Box<Run>),
    /// The backend's provider lets it do no more for now.
    Limited(LimitWait),
}

/// A history that is being made shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compaction {
    /// The step.
    pub exec_id: ExecId,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// How many of the newest messages stay whole; `None` where somebody asked for it, and the turn is about nothing else.
    pub kept: Option<usize>,
}

impl Compaction {
    /// Tells whether nobody asked for it.
    #[must_use]
    pub fn is_auto(&self) -> bool {
        self.kept.is_some()
    }
}

/// A model call.
#[derive(Debug, Clone, PartialEq)]
pub struct Reason {
    /// The step.
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

/// Text as it came, piece by piece. A thread is copied for every decision, so its text must not be.
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
    /// How many results, counted from the first call, stand in the history.
    pub placed: usize,
}

/// One call.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The step.
    pub exec_id: ExecId,
    /// The call.
    pub call: Arc<ToolCall>,
    /// When it began.
    pub started_at: Option<DateTime<Utc>>,
    /// How far it is.
    pub state: CallState,
}

/// How far a call is.
#[derive(Debug, Clone, PartialEq)]
pub enum CallState {
    /// It waits for others.
    Queued,
    /// It runs.
    Running {
        /// What repeating it would do.
        side_effects: SideEffectClass,
    },
    /// Somebody must allow it.
    AwaitingApproval {
        /// What repeating it would do, once allowed.
        side_effects: SideEffectClass,
        /// When it counts as refused.
        expires_at: Option<DateTime<Utc>>,
    },
    /// Somebody outside must answer it.
    AwaitingResult {
        /// When it counts as failed.
        expires_at: Option<DateTime<Utc>>,
    },
    /// The user must answer a question of it.
    AwaitingAnswer {
        /// The question's id.
        request_id: String,
        /// What is asked.
        prompt: Value,
        /// When it counts as failed.
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
    /// Tells whether there is a result.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done { .. })
    }

    /// Returns when the wait ends by itself.
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

    /// Tells whether every call has a result.
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
            Phase::Between
            | Phase::Reasoning(_)
            | Phase::Compacting(_)
            | Phase::Backend(_)
            | Phase::Limited(_) => None,
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

    /// Tells whether nobody is at work on the turn: it waits for somebody, or until a limit is over.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Limited(_)) || self.waiting_for().is_some()
    }

    /// Returns how many processes in a row have gone down, if the one that was at work on the turn is gone now. A turn that
    /// waits is at rest: whatever ends its process then, the turn is not the cause.
    #[must_use]
    pub fn crashes_without_its_process(&self) -> u32 {
        self.crashes.saturating_add(u32::from(self.is_at_work()))
    }

    /// Tells whether the end of the process now would be a crash of the turn.
    pub(crate) fn is_at_work(&self) -> bool {
        !self.is_released && !self.is_waiting()
    }

    /// Returns what the turn waits for, if nothing else is left to do.
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
    ) -> Result<Self, Misfit> {
        let mut thread = Self::new(session_id);
        let mut events = events.into_iter();
        events.try_for_each(|event| thread.evolve(event))?;
        Ok(thread)
    }

    /// Moves on to where a decision led, when its events are durable; returns them and what to do.
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
    /// Returns what was said.
    #[must_use]
    pub fn history(&self) -> &History {
        self.history.whole()
    }
    /// Returns the approximate size of the conversation in memory, in bytes. It takes constant time.
    #[must_use]
    pub fn conversation_bytes(&self) -> usize {
        self.history.bytes()
    }
    /// Returns what the model reads of it: all, or a summary and what came after.
    #[must_use]
    pub fn context(&self) -> &History {
        self.history.context()
    }
    /// Returns what all turns used.
    #[must_use]
    pub fn usage(&self) -> Option<TokenUsage> {
        self.usage
    }
    /// Returns what its turns have used of their budgets. Of the time, only turns that have ended count.
    #[must_use]
    pub fn spent(&self) -> &Spent {
        &self.spent
    }
    /// Returns the sessions that its calls have begun, oldest first.
    #[must_use]
    pub fn children(&self) -> &[Child] {
        &self.children
    }
    /// Returns the session that the last backend has of the conversation.
    #[must_use]
    pub fn backend_session(&self) -> Option<&KnownSession> {
        self.session.as_ref()
    }
    /// Returns what MCP servers offered the running or last turn, as far as it is still on record.
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
    /// Returns the inputs that wait for their turns.
    #[must_use]
    pub fn queue(&self) -> &VecDeque<Queued> {
        &self.queue
    }

    /// Returns where the turns of the conversation have ended, oldest first.
    pub fn ends(&self) -> impl DoubleEndedIterator<Item = &TurnEnd> + '_ {
        self.ends.iter()
    }

    /// Returns what the session is doing.
    #[must_use]
    pub fn status(&self) -> SessionStatus {
        match &self.turn {
            Some(turn) if turn.waiting_for().is_some() => SessionStatus::WaitingForToolResults,
            Some(_) => SessionStatus::Active,
            None if self.started_at.is_none() => SessionStatus::Started,
            None => SessionStatus::Idle,
        }
    }

    /// Returns the next moment at which [`crate::Input::Timer`] would change something.
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

    /// Returns what should be running now. After a crash, this is what to start.
    #[must_use]
    pub fn pending_commands(&self) -> Vec<Command> {
        let Some(turn) = &self.turn else {
            return self
                .queue
                .front()
                .map(|next| Command::Prepare {
                    turn_id: next.turn_id,
                })
                .into_iter()
                .collect();
        };
        match &turn.phase {
            Phase::Between | Phase::Limited(_) => Vec::new(),
            Phase::Backend(run) if run.is_lost => Vec::new(),
            Phase::Backend(run) => vec![run.command()],
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
