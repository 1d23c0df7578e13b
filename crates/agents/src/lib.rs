//! Foreign agents that carry turns of Windlass: Claude Code, Codex, and whatever speaks the Agent Client Protocol.
//!
//! Each agent's way of speaking is a pure state machine ([`Protocol`]); one task does the reading, writing and waiting for all of
//! them. The README of this crate says what is promised.

mod acp;
mod calls;
mod carry;
mod claude;
mod codex;
mod ended;
mod gemini;
mod json;
mod limits;
mod place;
mod protocol;
mod rpc;
mod session;
mod usage;

pub use acp::{Acp, AcpBackend, AcpSettings};
pub use carry::{Carried, carry};
pub use claude::{Claude, ClaudeBackend};
pub use codex::{Codex, CodexBackend, CodexExec, CodexSettings};
pub use gemini::GeminiStream;
pub use limits::{Limit, Limits};
pub use place::{PlaceError, Places};
pub use protocol::{HostAnswer, HostAsk, HostCall, Protocol, Readiness, SteerId, Step};
pub use session::SessionSettings;
pub use usage::Meter;
