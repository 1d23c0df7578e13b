//! The protocol of an agent as a state machine, without I/O and clocks.

use std::path::PathBuf;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use windlass_core::backend::{
    BackendEnd, BackendError, BackendEvent, BackendExit, BackendUsage, HostAccessError,
    PermissionDecision, SessionTotals, Steered, TerminalRequest,
};

use crate::limits::RateLimit;
use crate::state::SessionState;

/// An action that a protocol requests.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Send a line to the agent; the newline is added.
    Send(String),
    /// Report this event to the turn's reader.
    Event(BackendEvent),
    /// Forward the request to the host, and pass the answer to [`Protocol::host_answer`].
    Host(HostCall),
    /// The agent announced that it will be silent for this long.
    Silent(Duration),
    /// The agent waits until this time.
    SilentUntil(DateTime<Utc>),
    /// The agent accepted or rejected a text sent to the running turn.
    Steered(SteerId, Steered),
    /// The turn has ended.
    Ended(Result<BackendEnd, BackendError>),
    /// There will be no session; the process is unusable.
    Broken(BackendError),
}

/// Identifies a text that is sent to a running turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SteerId(pub u64);

/// Whether an agent accepts a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// The agent is still starting.
    NotYet,
    /// Ready after this much silence: until then, the agent may replay history.
    WhenQuiet(Duration),
    Ready,
}

/// The protocol of an agent. No input makes it panic, and its memory is bounded for any input.
pub trait Protocol: Send {
    /// Returns the first steps after the process has started; by default none.
    fn begin(&mut self) -> Vec<Step> {
        Vec::new()
    }

    /// Reads a line from the agent, without its newline.
    fn line(&mut self, line: &[u8]) -> Vec<Step>;

    /// Reads a line from standard error. Most agents write nothing there that can be parsed.
    fn stderr_text(&mut self, _text: &str) -> Vec<Step> {
        Vec::new()
    }

    /// Returns whether a turn can start.
    fn readiness(&self) -> Readiness;

    /// Starts a turn.
    fn prompt(&mut self, prompt: &str) -> Vec<Step>;

    /// Sends a text to the running turn; `None` if the agent accepts none now, as by default. [`Step::Steered`] reports the result.
    fn steer(&mut self, _id: SteerId, _text: &str) -> Option<Vec<Step>> {
        None
    }

    /// Requests the end of the running turn.
    fn interrupt(&mut self) -> Vec<Step>;

    /// Answers an open permission request; `None` if there is none with that ID.
    fn answer(&mut self, request: &str, decision: &PermissionDecision) -> Option<Vec<Step>>;

    /// Returns whether the agent waits for a person.
    fn waits_for_user(&self) -> bool;

    /// Passes on the host's answer, which is in ACP form.
    fn host_answer(
        &mut self,
        _request: Value,
        _answer: Result<Value, HostAccessError>,
    ) -> Vec<Step> {
        Vec::new()
    }

    /// Returns the state of the session and its turn.
    fn state(&self) -> &SessionState;

    /// Explains an unexpected exit of the process. `stderr` is the tail of its standard error.
    fn explain_exit(&self, exit: &BackendExit, stderr: &str) -> BackendError;

    /// Returns the session ID, if the session is established.
    fn session(&self) -> Option<&str> {
        self.state().session.as_deref()
    }

    /// Returns the rate limit that the agent has hit in this turn.
    fn limit(&self) -> Option<RateLimit> {
        self.state().limits.current()
    }

    fn usage(&self) -> Option<BackendUsage> {
        self.state().meter.turn()
    }

    /// Returns the session's usage totals.
    fn totals(&self) -> SessionTotals {
        self.state().meter.totals()
    }
}

/// A request from an agent to the host.
#[derive(Debug, Clone, PartialEq)]
pub struct HostCall {
    /// The agent's ID of the request.
    pub request: Value,
    /// The requested operation.
    pub operation: HostOperation,
}

/// A host operation that an agent requests.
#[derive(Debug, Clone, PartialEq)]
pub enum HostOperation {
    /// Read a file.
    Read {
        /// Path of the file.
        path: PathBuf,
        /// First line to read.
        line: Option<u64>,
        /// Maximum number of lines.
        limit: Option<u64>,
    },
    /// Write a file.
    Write {
        /// Path of the file.
        path: PathBuf,
        /// The new contents.
        text: String,
    },
    /// Start a program.
    StartTerminal(TerminalRequest),
    /// Return a terminal's output.
    TerminalOutput(String),
    /// Wait until a terminal's program exits.
    WaitForTerminal(String),
    /// Kill a terminal's program.
    KillTerminal(String),
    /// Release a terminal.
    ReleaseTerminal(String),
}

impl HostOperation {
    /// Returns whether the operation touches the host's files or starts a program.
    pub(crate) fn has_side_effects(&self) -> bool {
        match self {
            Self::Read { .. } | Self::Write { .. } | Self::StartTerminal(_) => true,
            Self::TerminalOutput(_)
            | Self::WaitForTerminal(_)
            | Self::KillTerminal(_)
            | Self::ReleaseTerminal(_) => false,
        }
    }
}
