//! The state of a backend's run: what a whole agent does in the place of our own loop.

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
    /// The step.
    pub exec_id: ExecId,
    /// The backend's name.
    pub backend: Arc<str>,
    /// What was chosen when it began.
    pub session: SessionChoice,
    /// What it was told.
    pub prompt: BackendPrompt,
    /// What of it was said to the turn.
    pub message_ids: Arc<[MessageId]>,
    /// What was tried before.
    pub attempts: Attempts,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// The id of its session, as far as it is known.
    pub session_id: Option<String>,
    /// Whether the backend has that session, and was seen to have heard what it was told.
    pub is_established: bool,
    /// The usage that it reported last.
    pub usage: Option<TokenUsage>,
    /// Whether its process is gone. It still may wait for somebody.
    pub is_lost: bool,
    /// What it says now.
    pub part: Reason,
    /// Its calls without a place in the conversation, oldest first. Those that have one are forgotten: a run may make thousands.
    pub calls: Vec<Call>,
    /// What it asks, by call.
    pub(crate) asked: Vec<Asked>,
    /// The calls that were ended without it, by its own ids.
    pub(crate) ended_by_us: Vec<String>,
    parts: u64,
    /// What stands behind all that has its place. A message waits for the results of the calls before it.
    waiting: VecDeque<Piece>,
}

/// A permission that a backend asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    pub(crate) exec_id: ExecId,
    pub(crate) request_id: String,
    /// What it asks for.
    pub(crate) call: Arc<ToolCall>,
}

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Message(Arc<Message>),
    Result(ExecId),
}

/// What a run leaves to the one that follows it in the turn.
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
    /// What was tried before.
    pub attempts: Attempts,
    /// How many such waits there were in a row.
    pub waits: u32,
}

/// A session that a backend has of this conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownSession {
    /// The backend.
    pub backend: Arc<str>,
    /// The session.
    pub session_id: String,
    /// What was counted of it.
    pub totals: SessionTotals,
    /// How many messages the conversation had when the backend last knew all of them.
    pub(crate) messages: usize,
    /// What was said to its last turn behind these, and what it never read.
    pub(crate) unread: Arc<[MessageId]>,
    /// Whether it has heard all that was said to the last run. One that has not is still to be counted with.
    pub(crate) is_current: bool,
}

/// What somebody decided about a call whose process was gone by then: it holds when the backend asks again.
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

    pub(crate) fn command(&self) -> Command {
        Command::RunBackend {
            exec_id: self.exec_id,
            backend: Arc::clone(&self.backend),
            session: self.session.clone(),
            prompt: self.prompt,
            attempts: self.attempts,
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

    /// Returns what was asked for a call, if it was.
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

    /// Places what no call before it holds up.
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
