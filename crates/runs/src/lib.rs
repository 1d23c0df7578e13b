//! Run tracing: agents that Windlass does not execute report their work as runs, with a durable start, turns and one end.
//!
//! [`Runs`] implements the rules: write access, current ownership, lost connections and read access. [`rpc`] is the JSON-RPC 2.0 form of these
//! operations. Both are independent of the transport: a connection is a [`RunCaller`], and time is a [`Clock`](windlass_core::Clock). Only open runs are
//! in memory; everything else is read from a [`RunLog`](windlass_store::RunLog).
//!
//! Turns of Windlass threads are runs too, so one list shows the work of all agents: [`AllRuns`] combines both. A turn's run has the turn's ID, and
//! its records are derived from the thread's events on read. External writes to it are rejected; canceling it interrupts the turn.

#![warn(missing_docs)]

mod agent;
mod all;
mod caller;
mod cancel;
mod complete;
mod error;
mod limits;
mod list;
mod open;
mod record;
mod resume;
pub mod rpc;
mod runs;
mod start;
mod subscribe;
mod sweep;
mod trace;
mod turns;

pub use agent::Agents;
pub use all::{AllRuns, AnyRun, ThreadTurns};
pub use caller::{ClientId, Role, RunCaller};
pub use cancel::CancelRun;
pub use error::RunError;
pub use limits::RunLimits;
pub use list::{ListRuns, RunList};
pub use record::{DropReason, RecordOutcome};
pub use resume::Resumed;
pub use runs::{Reads, RunSettings, Runs};
pub use start::{StartRun, Started};
pub use subscribe::{Follower, RunEvent, Snapshot, SnapshotPage};
pub use trace::Trace;
pub use turns::Turns;
