//! Starts, feeds, confines and ends programs, and ensures that none of their processes remains.
//!
//! The README of this crate lists the guarantees of each sandbox.

mod confine;
mod error;
mod kill;
mod launch;
mod limits;
mod network;
mod orphans;
mod output;
mod parent_death_guard;
mod process_tree;
mod processes;
mod program;
mod protected_paths;
mod proxied;
mod read;
mod records;
mod running;
mod sandbox_init;
mod sandbox_spec;
mod shutdown;
mod signals;
mod stdin_writer;
mod supervise;

pub use confine::{Confinement, SandboxBounds, closed_by_landlock};
pub use error::ProcessError;
pub use kill::end_leftovers;
pub use limits::ResourceLimits;
pub use network::Network;
pub use orphans::adopt_orphans;
pub use output::{Excerpt, NO_MORE_SHOWN, Output, OutputSink, SinkFrom};
pub use processes::MARK;
pub use program::{Program, Stderr, Stdin, Stdout};
pub use protected_paths::{Hidden, ProtectedPaths, open_path};
pub use proxied::{InnerListener, Launcher, Proxied, become_proxied};
pub use read::{Chunks, LineTooLong, Lines};
pub use records::{Leftovers, Records};
pub use running::{Cause, End, Running};
pub use sandbox_spec::SandboxSpec;
pub use shutdown::{ShutdownSequence, ShutdownStep};
pub use stdin_writer::{StdinError, StdinWriter};
