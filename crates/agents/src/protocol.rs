//! How an agent speaks, without pipes and clocks.

use std::path::PathBuf;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use windlass_core::backend::{
    BackendEnd, BackendError, BackendEvent, BackendExit, BackendUsage, HostAccessError,
    PermissionDecision, SessionTotals, Steered, TerminalRequest,
};

use crate::limits::Limit;

/// What a protocol wants done.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Give the agent a line; its end is added.
    Send(String),
    /// Tell this.
    Event(BackendEvent),
    /// Ask the host, and give the answer to [`Protocol::host_answer`].
    Host(HostCall),
    /// The agent announced that it will be silent for so long.
    Silent(Duration),
    /// The agent waits until then.
    SilentUntil(DateTime<Utc>),
    /// A text that was said to the running turn was taken, or not.
    Steered(SteerId, Steered),
    /// The turn has ended.
    Ended(Result<BackendEnd, BackendError>),
    /// There will be no session; the process is of no use.
    Broken(BackendError),
}

/// Names a text that is said to a running turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SteerId(pub u64);

/// Whether an agent can be asked something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// It is still getting ready.
    NotYet,
    /// It is ready when it has said nothing for so long: until then it may repeat what was said before.
    WhenQuiet(Duration),
    /// It is.
    Ready,
}

/// How an agent speaks. No input makes it panic, and it holds only so much, whatever it is given.
pub trait Protocol: Send {
    /// Returns what to do when the process has started.
    fn begin(&mut self) -> Vec<Step>;

    /// Reads a line of the agent, without its end.
    fn line(&mut self, line: &[u8]) -> Vec<Step>;

    /// Reads what the agent complained about. Most say nothing there that is to be understood.
    fn complaint(&mut self, _text: &str) -> Vec<Step> {
        Vec::new()
    }

    /// Tells whether a turn can begin.
    fn readiness(&self) -> Readiness;

    /// Begins a turn.
    fn prompt(&mut self, prompt: &str) -> Vec<Step>;

    /// Says something to the running turn; `None` if the agent takes nothing now. [`Step::Steered`] tells what became of it.
    fn steer(&mut self, id: SteerId, text: &str) -> Option<Vec<Step>>;

    /// Asks the running turn to end.
    fn interrupt(&mut self) -> Vec<Step>;

    /// Answers an open request for a permission; `None` if there is none of that name.
    fn answer(&mut self, request: &str, decision: &PermissionDecision) -> Option<Vec<Step>>;

    /// Tells whether the agent waits for a person.
    fn waits_for_person(&self) -> bool;

    /// Gives what the host answered.
    fn host_answer(
        &mut self,
        _request: Value,
        _answer: Result<HostAnswer, HostAccessError>,
    ) -> Vec<Step> {
        Vec::new()
    }

    /// Returns the session, if it is established.
    fn session(&self) -> Option<&str>;

    /// Says why a process ended in the middle of something. `stderr` is the last of its complaints.
    fn why_ended(&self, exit: &BackendExit, stderr: &str) -> BackendError;

    /// Returns the limit that the agent has met in this turn.
    fn limit(&self) -> Option<Limit>;

    /// Returns what this turn used.
    fn usage(&self) -> Option<BackendUsage>;

    /// Returns what was counted of the session.
    fn totals(&self) -> SessionTotals;
}

/// What an agent asks of the host.
#[derive(Debug, Clone, PartialEq)]
pub struct HostCall {
    /// The agent's own name of the request.
    pub request: Value,
    /// What it asks.
    pub ask: HostAsk,
}

/// What an agent asks of the host.
#[derive(Debug, Clone, PartialEq)]
pub enum HostAsk {
    /// Read a file.
    Read {
        /// The file.
        path: PathBuf,
        /// The first line.
        line: Option<u64>,
        /// How many lines.
        limit: Option<u64>,
    },
    /// Write a file.
    Write {
        /// The file.
        path: PathBuf,
        /// What is to be in it.
        text: String,
    },
    /// Start a program.
    StartTerminal(TerminalRequest),
    /// Show what a terminal printed.
    TerminalOutput(String),
    /// Wait for a terminal's program.
    WaitForTerminal(String),
    /// End a terminal's program.
    KillTerminal(String),
    /// Forget a terminal.
    ReleaseTerminal(String),
}

impl HostAsk {
    /// Tells whether it touches the host's files or starts something there.
    pub(crate) fn does_something(&self) -> bool {
        match self {
            Self::Read { .. } | Self::Write { .. } | Self::StartTerminal(_) => true,
            Self::TerminalOutput(_)
            | Self::WaitForTerminal(_)
            | Self::KillTerminal(_)
            | Self::ReleaseTerminal(_) => false,
        }
    }
}

/// What the host answers, as the protocol of agents words it.
#[derive(Debug, Clone, PartialEq)]
pub struct HostAnswer(pub Value);
