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

/// A run of a backend: one prompt, until it has ended.
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
    /// Earlier attempts.
    pub attempts: Attempts,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// The id of its session, as far as it is known.
    pub session_id: Option<String>,
    /// Whether the agent has that session and there is evidence that it received its prompt.
    pub is_established: bool,
    /// The usage that it reported last.
    pub usage: Option<TokenUsage>,
    /// Whether its process is gone. An approval may still be pending.
    pub is_lost: bool,
    /// The text that is currently streaming.
    pub part: Reason,
    /// Calls without a position in the conversation, oldest first. Positioned calls are dropped, because a run may make thousands.
    pub calls: Vec<Call>,
    /// Its open permission requests, by call.
    pub(crate) asked: Vec<Asked>,
    /// The calls that were ended without it, by its own ids.
    pub(crate) ended_by_us: Vec<String>,
    parts: u64,
    /// Messages after all that are positioned. A message waits for the results of the calls before it.
    waiting: VecDeque<Piece>,
}

/// A permission that a backend asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    pub(crate) exec_id: ExecId,
    pub(crate) request_id: String,
    /// The requested call.
    pub(crate) call: Arc<ToolCall>,
}

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Message(Arc<Message>),
    Result(ExecId),
}

/// State that a run passes to the next run of the turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LastRun {
    /// The session that it had, or was to have.
    pub(crate) session: SessionChoice,
    pub(crate) prompt: BackendPrompt,
    pub(crate) message_ids: Arc<[MessageId]>,
    pub(crate) is_established: bool,
}

/// A wait until a provider's limit is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitWait {
    /// When the backend is asked again.
    pub until: DateTime<Utc>,
    /// Earlier attempts.
    pub attempts: Attempts,
    /// How many such waits there were in a row.
    pub waits: u32,
}

/// A session that a backend has of this conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownSession {
    /// Registered name of the agent.
    pub backend: Arc<str>,
    /// The agent's own session ID.
    pub session_id: String,
    /// Cumulative usage of the session.
    pub totals: SessionTotals,
    /// How many messages the conversation had when the backend last knew all of them.
    pub(crate) messages: usize,
    /// Later messages of its last turn that the agent never read.
    pub(crate) unread: Arc<[MessageId]>,
    /// Whether the agent received all messages of the last run.
    pub(crate) is_current: bool,
}

/// A decision about a call whose process was gone by then: it applies when the agent asks again.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settled {
    pub(crate) call: Arc<ToolCall>,
    pub(crate) is_allowed: bool,
}

impl Settled {
    pub(crate) fn is_about(&self, call: Digest128) -> bool {
        call_digest(&self.call) == call
    }
}

/// How a run begins.
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
            asked: Vec::new(),
            ended_by_us: Vec::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Returns the command that starts the run; `known` is the session that a backend has of the conversation.
    pub(crate) fn command(&self, known: Option<&KnownSession>) -> Command {
        let known = known.filter(|known| self.session.id() == Some(&known.session_id));
        Command::RunBackend {
            exec_id: self.exec_id,
            session: self.session.clone(),
            totals: known.map_or_else(SessionTotals::default, |known| known.totals),
        }
    }

    pub(crate) fn last_run(&self) -> LastRun {
        let session = match (&self.session_id, self.is_established, &self.session) {
            (Some(id), true, _) => SessionChoice::Resume { id: id.clone() },
            // An id that was never established may be taken all the same: the next one gets another.
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

    /// Finds a call by the backend's id.
    pub(crate) fn call_named(&self, call_id: &str) -> Option<&Call> {
        self.calls.iter().rev().find(|call| call.call.id == call_id)
    }

    /// Finds the call for which a request asks.
    pub(crate) fn call_asking(&self, request_id: &str) -> Option<&Call> {
        let asked = self.asked.iter().find(|it| it.request_id == request_id)?;
        let mut calls = self.calls.iter();
        calls.find(|call| call.exec_id == asked.exec_id)
    }

    /// Returns the request that asks for a call.
    pub(crate) fn request_for(&self, exec_id: ExecId) -> Option<&str> {
        let mut asked = self.asked.iter();
        let asked = asked.find(|asked| asked.exec_id == exec_id);
        asked.map(|asked| asked.request_id.as_str())
    }

    /// Returns the permission request of a call, if there is one.
    pub(crate) fn asked_for(&self, exec_id: ExecId) -> Option<Digest128> {
        let mut asked = self.asked.iter();
        let asked = asked.find(|asked| asked.exec_id == exec_id);
        asked.map(|asked| call_digest(&asked.call))
    }

    /// Tells whether all that was begun has been recorded to its end.
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

    /// Takes a message that the run has brought.
    pub(crate) fn say(&mut self, message: Arc<Message>, calls: Vec<Call>) {
        self.waiting.push_back(Piece::Message(message));
        let results = calls.iter().map(|call| Piece::Result(call.exec_id));
        self.waiting.extend(results);
        self.calls.extend(calls);
    }

    /// Positions the calls that no earlier call blocks.
    pub(crate) fn settle(&mut self, mut place: impl FnMut(Arc<Message>)) {
        while let Some(piece) = self.waiting.front() {
            match piece {
                Piece::Message(message) => place(Arc::clone(message)),
                Piece::Result(exec_id) => {
                    let is_its = |call: &Call| call.exec_id == *exec_id;
                    let Some(at) = self.calls.iter().position(is_its) else {
                        return;
                    };
                    let CallState::Done { message, .. } = &self.calls[at].state else {
                        return;
                    };
                    place(Arc::clone(message));
                    let call = self.calls.remove(at);
                    self.asked.retain(|asked| asked.exec_id != call.exec_id);
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
