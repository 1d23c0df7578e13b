//! Whole agents that carry a turn in our place.
//!
//! A [`Backend`] is a foreign agent, a [`BackendSession`] one process of it, which may serve several turns of one conversation.
//! Nothing here knows a vendor, and nothing here decides what becomes of a turn: a failed one is told as it was
//! ([`BackendOutcome`]), and [`Attempts`] says what may be tried next.

mod attempts;
mod error;
mod event;
mod host_access;
mod outcome;
mod permission;
mod spec;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

pub use attempts::{Attempts, MAX_ABORTS, Next};
pub use error::{BackendError, BackendErrorKind};
pub use event::{BackendEvent, BackendNotice, ObservedCall, ObservedResult};
pub use host_access::{
    HostAccess, HostAccessError, HostOffers, TerminalExit, TerminalOutput, TerminalRequest,
};
pub use outcome::{BackendEnd, BackendExit, BackendOutcome, BackendUsage, SessionTotals};
pub use permission::{PermissionDecision, PermissionRequest, PermissionScope};
pub use spec::{BackendSpec, SessionChoice};

/// A foreign agent that can carry turns.
#[async_trait]
pub trait Backend: Send + Sync {
    /// Returns the name by which threads ask for it.
    fn name(&self) -> &str;

    /// Chooses the id of a new session, to be recorded before its process starts. `None` where the agent chooses by itself; then
    /// [`BackendEvent::Started`] tells it as soon as it is known.
    fn choose_session(&self) -> Option<String>;

    /// Finds out whether the agent is installed here, and which one.
    async fn check(&self, spec: &BackendSpec) -> Result<BackendVersion, BackendError>;

    /// Starts a process. That it has started says nothing of the session: the first [`prompt`](BackendSession::prompt) tells.
    async fn open(&self, spec: BackendSpec) -> Result<Box<dyn BackendSession>, BackendError>;
}

/// Which agent is installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendVersion {
    /// What it says of its version.
    pub version: String,
}

/// A process of a foreign agent. All methods may be called at any time, also while a turn runs.
///
/// When it is dropped, the process is ended behind the scenes; who wants to know that it is gone calls [`close`](Self::close).
#[async_trait]
pub trait BackendSession: Send + Sync {
    /// Tells what the process does.
    fn status(&self) -> BackendStatus;

    /// Carries one turn to its end and tells what happens meanwhile. A reader that is slow holds up the agent; one that is gone
    /// misses what is told, and the turn goes on. Only one turn runs at a time.
    async fn prompt(&self, prompt: &str, events: mpsc::Sender<BackendEvent>) -> BackendOutcome;

    /// Says something to the running turn, where the agent can take it.
    async fn steer(&self, text: &str) -> Result<Steered, BackendError>;

    /// Asks the running turn to end. The process and its session stay; [`prompt`](Self::prompt) returns when the turn has ended.
    async fn interrupt(&self) -> Result<(), BackendError>;

    /// Answers a request of [`BackendEvent::Permission`]. One that is no longer open is refused.
    async fn answer(&self, request: &str, decision: PermissionDecision)
    -> Result<(), BackendError>;

    /// Ends the process, and a running turn with it. Returns when nobody of its tree is left; may be called twice.
    async fn close(&self) -> BackendExit;
}

/// What became of something said to a running turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steered {
    /// The running turn has it.
    Taken,
    /// The agent takes nothing now; it is to be said in the next turn.
    NotTaken,
}

/// What a process of an agent does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackendStatus {
    /// It has not been asked anything since it started or since its last turn.
    Idle,
    /// It carries a turn.
    Running,
    /// It carries a turn and waits until its provider's limit is over.
    Waiting {
        /// When that is, where the agent says so.
        until: Option<chrono::DateTime<chrono::Utc>>,
    },
    /// It ended after a turn that succeeded, or before any.
    Completed,
    /// It ended by itself, or a limit of ours ended it, and its last turn failed.
    Failed,
    /// Somebody ended it.
    Cancelled,
}
