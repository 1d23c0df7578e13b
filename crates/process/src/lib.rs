//! One way to start, feed, confine and end programs, and to see that nothing of them is left.
//!
//! The README of this crate says what is promised in which sandbox.

mod confine;
mod error;
mod family;
mod feed;
mod hidden;
mod kill;
mod ladder;
mod launch;
mod lifeline;
mod limits;
mod network;
mod orphans;
mod output;
mod place;
mod processes;
mod program;
mod proxied;
mod read;
mod records;
mod running;
mod sandbox_init;
mod signals;
mod supervise;

pub use confine::{Bounds, Confinement, closed_by_landlock};
pub use error::ProcessError;
pub use feed::{Feed, FeedError};
pub use hidden::{Hidden, HiddenPaths, open_to_look};
pub use kill::end_leftovers;
pub use ladder::{Ladder, Rung};
pub use limits::Limits;
pub use network::Network;
pub use orphans::adopt_orphans;
pub use output::{Excerpt, NO_MORE_SHOWN, Output, WholeFrom, WholeOutput};
pub use place::Place;
pub use processes::MARK;
pub use program::{Program, Stderr, Stdin, Stdout};
pub use proxied::{InnerListener, Launcher, Proxied, become_proxied};
pub use read::{Chunks, LineTooLong, Lines};
pub use records::{Leftovers, Records};
pub use running::{Cause, End, Running};
