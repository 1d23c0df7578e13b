//! The state of an external agent's run, which replaces our own loop of model and tools.

use std::collections::VecDeque;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use windlass_core::backend::{Attempts, SessionChoice, SessionTotals};
use windlass_core::derived_id::step_of_part;
use windlass_core::digest::Digest128;
use windlass_core::events::{BackendPrompt, TokenUsage};
use windlass_core::message::Message;
use windlass_core::remembered_calls::call_digest;
use windlass_core::tools::ToolCall;
use windlass_core::typed_id::{ExecId, MessageId};

use crate::decision::Command;
use crate::state::{Call, CallState, Reason, Text};

/// A run of an external agent: one prompt, until it has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub exec_id: ExecId,
    /// The backend's name.
    pub backend: Arc<str>,
    /// The session chosen at the start.
    pub session: SessionChoice,
    /// The kind of prompt that the agent receives.
    pub prompt: BackendPrompt,
    /// The user messages in the prompt.
    pub message_ids: Arc<[MessageId]>,
    /// The failed attempts so far.
    pub attempts: Attempts,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// The ID of its session, if known.
    pub session_id: Option<String>,
    /// Whether the agent has that session and there is evidence that it received its prompt.
    pub is_established: bool,
    /// The latest reported usage.
    pub usage: Option<TokenUsage>,
    /// Whether its process is gone. An approval may still be pending.
    pub is_lost: bool,
    /// The text that is currently streaming.
    pub part: Reason,
    /// Calls without a position in the conversation, oldest first. Positioned calls are dropped, because a run may make thousands.
    pub calls: Vec<Call>,
    /// Its open permission requests.
    pub(crate) permissions: Vec<OpenPermission>,
    /// The calls that Windlass ended, by the agent's IDs.
    pub(crate) ended_by_us: Vec<String>,
    parts: u64,
    /// Messages after all that are positioned. A message waits for the results of the calls before it.
    waiting: VecDeque<PendingEntry>,
}

/// A permission request of an external agent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OpenPermission {
    pub(crate) exec_id: ExecId,
    pub(crate) request_id: String,
    /// The requested call.
    pub(crate) call: Arc<ToolCall>,
}

#[derive(Debug, Clone, PartialEq)]
enum PendingEntry {
    Message(Arc<Message>),
    Result(ExecId),
}

/// State that a run passes to the next run of the turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LastRun {
    /// The session that it had, or was to start.
    pub(crate) session: SessionChoice,
    pub(crate) prompt: BackendPrompt,
    pub(crate) message_ids: Arc<[MessageId]>,
    pub(crate) is_established: bool,
}

/// A wait until a provider's rate limit resets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitWait {
    /// When the run is repeated.
    pub until: DateTime<Utc>,
    /// The failed attempts so far.
    pub attempts: Attempts,
    /// The number of consecutive waits.
    pub waits: u32,
}

/// An external agent's session of this conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownSession {
    /// Registered name of the agent.
    pub backend: Arc<str>,
    /// The agent's own session ID.
    pub session_id: String,
    /// Cumulative usage of the session.
    pub totals: SessionTotals,
    /// The length of the conversation when the agent last knew all messages.
    pub(crate) messages: usize,
    /// Later messages of its last turn that the agent never read.
    pub(crate) unread: Arc<[MessageId]>,
    /// Whether the agent received all messages of the last run.
    pub(crate) is_current: bool,
}

/// A decision about a call whose process was already gone. It applies when the agent repeats its request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OfflineDecision {
    pub(crate) call: Arc<ToolCall>,
    pub(crate) is_allowed: bool,
}

impl OfflineDecision {
    pub(crate) fn is_about(&self, call: Digest128) -> bool {
        call_digest(&self.call) == call
    }
}

/// The parameters of a new run.
pub(crate) struct RunStart {
    pub(crate) exec_id: ExecId,
    pub(crate) backend: Arc<str>,
    pub(crate) session: SessionChoice,
    pub(crate) prompt: BackendPrompt,
    pub(crate) message_ids: Arc<[MessageId]>,
    pub(crate) attempts: Attempts,
    pub(crate) at: DateTime<Utc>,
}

impl Run {
    pub(crate) fn new(start: RunStart) -> Self {
        Self {
            session_id: start.session.id().map(str::to_owned),
            part: part(start.exec_id, 1, start.at),
            parts: 1,
            exec_id: start.exec_id,
            backend: start.backend,
            session: start.session,
            prompt: start.prompt,
            message_ids: start.message_ids,
            attempts: start.attempts,
            started_at: start.at,
            is_established: false,
            usage: None,
            is_lost: false,
            calls: Vec::new(),
            permissions: Vec::new(),
            ended_by_us: Vec::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Returns the command that starts the run; `known` is the agent's session of the conversation.
    pub(crate) fn command(&self, known: Option<&KnownSession>) -> Command {
        let known = known.filter(|known| self.session.id() == Some(&known.session_id));
        Command::RunBackend {
            exec_id: self.exec_id,
            session: self.session.clone(),
            totals: known.map(|known| known.totals).unwrap_or_default(),
        }
    }

    pub(crate) fn last_run(&self) -> LastRun {
        let session = match (&self.session_id, self.is_established, &self.session) {
            (Some(id), true, _) => SessionChoice::Resume { id: id.clone() },
            // An ID that was never established may be in use anyway: the next session gets another.
            (_, _, SessionChoice::New { .. }) => SessionChoice::New { id: None },
            (_, _, SessionChoice::Resume { id }) => SessionChoice::Resume { id: id.clone() },
        };
        LastRun {
            session,
            prompt: self.prompt,
            message_ids: Arc::clone(&self.message_ids),
            is_established: self.is_established,
        }
    }

    /// Finds a call by the agent's ID.
    pub(crate) fn call_by_id(&self, call_id: &str) -> Option<&Call> {
        self.calls.iter().rev().find(|call| call.call.id == call_id)
    }

    /// Finds the call of a permission request.
    pub(crate) fn call_of_request(&self, request_id: &str) -> Option<&Call> {
        let mut permissions = self.permissions.iter();
        let permission = permissions.find(|it| it.request_id == request_id)?;
        let mut calls = self.calls.iter();
        calls.find(|call| call.exec_id == permission.exec_id)
    }

    /// Returns the permission request of a call, if there is one.
    pub(crate) fn permission_of(&self, exec_id: ExecId) -> Option<&OpenPermission> {
        self.permissions.iter().find(|it| it.exec_id == exec_id)
    }

    /// Returns whether all messages and calls of the run have their ends recorded.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_silent() && self.calls.iter().all(|call| call.state.is_done())
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.part.text_started.is_none() && self.part.thinking_started.is_none()
    }

    /// Begins another part.
    pub(crate) fn next_part(&mut self, at: DateTime<Utc>) {
        self.parts += 1;
        self.part = part(self.exec_id, self.parts, at);
    }

    /// Adds a message of the run, to be positioned.
    pub(crate) fn add_message(&mut self, message: Arc<Message>, calls: Vec<Call>) {
        self.waiting.push_back(PendingEntry::Message(message));
        let results = calls.iter().map(|call| PendingEntry::Result(call.exec_id));
        self.waiting.extend(results);
        self.calls.extend(calls);
    }

    /// Positions the calls that no earlier call blocks.
    pub(crate) fn settle(&mut self, mut add: impl FnMut(Arc<Message>)) {
        while let Some(piece) = self.waiting.front() {
            match piece {
                PendingEntry::Message(message) => add(Arc::clone(message)),
                PendingEntry::Result(exec_id) => {
                    let is_call = |call: &Call| call.exec_id == *exec_id;
                    let Some(at) = self.calls.iter().position(is_call) else {
                        return;
                    };
                    let CallState::Done { message, .. } = &self.calls[at].state else {
                        return;
                    };
                    add(Arc::clone(message));
                    let call = self.calls.remove(at);
                    self.permissions.retain(|it| it.exec_id != call.exec_id);
                }
            }
            self.waiting.pop_front();
        }
    }
}

fn part(exec_id: ExecId, n: u64, at: DateTime<Utc>) -> Reason {
    Reason {
        exec_id: step_of_part(exec_id, n),
        started_at: at,
        text_started: None,
        thinking_started: None,
        text: Text::default(),
        thinking: Text::default(),
    }
}
