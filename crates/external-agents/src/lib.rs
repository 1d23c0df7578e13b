//! External agents that execute turns of Windlass: Claude Code, Codex, and agents that speak the Agent Client Protocol.
//!
//! The protocol of each agent is a pure state machine ([`Protocol`]); one task per process handles all I/O and timers. The README of this crate lists
//! the guarantees.

mod acp;
mod backend;
mod calls;
mod claude;
mod codex;
mod json;
mod limits;
mod permission;
mod protocol;
mod rpc;
mod sandbox;
mod session;
mod state;
mod usage;

pub use acp::{Acp, AcpSettings};
pub use backend::{AgentKind, ExternalAgent};
pub use claude::Claude;
pub use codex::{Codex, CodexSettings};
pub use limits::RateLimit;
pub use protocol::{HostCall, HostOperation, Protocol, Readiness, SteerId, Step};
pub use sandbox::{SandboxError, SandboxProvider};
pub use session::SessionSettings;
pub use state::SessionState;
