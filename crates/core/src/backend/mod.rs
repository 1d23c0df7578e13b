//! External agents that execute turns.
//!
//! A [`Backend`] is an external agent. A [`BackendSession`] is one of its processes, which can serve several turns of one conversation. This module
//! is independent of vendors and does not decide how a turn ends. It reports failures unchanged ([`BackendOutcome`]), and [`Attempts`] decides
//! whether to retry.

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
pub use permission::{PermissionDecision, PermissionRequest};
pub use spec::{BackendSpec, SessionChoice};

/// An external agent that can execute turns.
#[async_trait]
pub trait Backend: Send + Sync {
    /// Returns the name that threads refer to.
    fn name(&self) -> &str;

    /// Chooses the ID of a new session, which is recorded before the process starts. `None` if the agent chooses the ID; [`BackendEvent::Started`]
    /// then reports it.
    fn choose_session(&self) -> Option<String>;

    /// Returns the installed version of the agent.
    ///
    /// # Errors
    /// The agent is not installed or does not start.
    async fn check(&self, spec: &BackendSpec) -> Result<BackendVersion, BackendError>;

    /// Starts a process. The state of the session is known only after the first [`prompt`](BackendSession::prompt).
    async fn open(&self, spec: BackendSpec) -> Result<Box<dyn BackendSession>, BackendError>;
}

/// The installed agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendVersion {
    /// The version, as reported by the agent.
    pub version: String,
}

/// A process of an external agent. All methods may be called at any time, including while a turn runs.
///
/// Dropping it ends the process in the background. To wait until the process is gone, call [`close`](Self::close).
#[async_trait]
pub trait BackendSession: Send + Sync {
    /// Returns the process's current state.
    fn status(&self) -> BackendStatus;

    /// Executes one turn to its end and sends its events. A slow receiver blocks the agent. If the receiver is dropped, events are lost and the turn
    /// continues. Only one turn runs at a time.
    async fn prompt(&self, prompt: &str, events: mpsc::Sender<BackendEvent>) -> BackendOutcome;

    /// Sends a message to the running turn, if the agent supports it.
    async fn steer(&self, text: &str) -> Result<Steered, BackendError>;

    /// Asks the running turn to end. The process and its session stay; [`prompt`](Self::prompt) returns when the turn has ended.
    async fn interrupt(&self) -> Result<(), BackendError>;

    /// Answers a request of [`BackendEvent::Permission`]. One that is no longer open is refused.
    async fn answer(&self, request: &str, decision: PermissionDecision)
    -> Result<(), BackendError>;

    /// Ends the process and any running turn. Returns when the whole process tree has exited; idempotent.
    async fn close(&self) -> BackendExit;
}

/// The result of steering a running turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steered {
    /// The running turn received it.
    Accepted,
    /// The agent accepts no message now; send it with the next turn.
    Rejected,
}

/// The state of an agent's process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackendStatus {
    /// It has not received a prompt since it started or since its last turn.
    Idle,
    /// A turn is running.
    Running,
    /// A turn is running and waits for the provider's rate limit to reset.
    Waiting {
        /// The reset time, if the agent reports it.
        until: Option<chrono::DateTime<chrono::Utc>>,
    },
    /// It ended after a turn that succeeded, or before any.
    Completed,
    /// It exited, or one of our limits ended it, and its last turn failed.
    Failed,
    /// It was cancelled.
    Cancelled,
}
