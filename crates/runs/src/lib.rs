//! Run tracing: agents that Windlass does not run itself report their work as runs, with a durable start, turns and one
//! end.
//!
//! [`Runs`] holds the rules: who may write to which run, which connection has the right at the moment, what becomes of a
//! run whose connection is lost, and who may see what. It knows no transport: a connection is a [`Caller`], and time is
//! a [`Clock`]. Only open runs are in memory; everything else is looked up in a
//! [`RunLog`](windlass_store::RunLog).
//!
//! Turns of our own sessions are runs too, so that one list shows everything that agents did: [`AllRuns`] joins both. A turn's
//! run has the turn's id, and its records are made from the session's events when they are read. Nobody writes to it from
//! outside; calling it off interrupts the turn.

#![warn(missing_docs)]

mod agent;
mod all;
mod caller;
mod cancel;
mod clock;
mod complete;
mod error;
mod limits;
mod list;
mod open;
mod record;
mod resume;
mod runs;
mod start;
mod subscribe;
mod sweep;
mod trace;
mod turns;

pub use agent::{Agents, slug};
pub use all::{AllRuns, AnyRun, OwnTurns};
pub use caller::{Caller, ClientId, Role};
pub use cancel::CancelRun;
pub use clock::{Clock, SystemClock};
pub use error::{Reason, RunError};
pub use limits::RunLimits;
pub use list::{ListRuns, RunList};
pub use record::{Dropped, Recorded};
pub use resume::Resumed;
pub use runs::{Reads, RunSettings, Runs};
pub use start::{StartRun, Started};
pub use subscribe::{Follower, RunEvent, Snapshot, SnapshotPage};
pub use trace::Trace;
pub use turns::Turns;
