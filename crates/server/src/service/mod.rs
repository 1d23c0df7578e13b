//! What can be asked of the daemon: one verb, one file.
//!
//! HTTP and the socket both read a request, call one of these functions and write down what it returns. A function says
//! what it needs to know of the request; whether the caller may ask at all is settled before, by [`rules`].

mod approvals;
mod compact;
mod create;
mod detail;
mod environments;
pub(crate) mod fields;
pub(crate) mod follow;
mod fork;
mod interrupt;
pub(crate) mod list;
pub(crate) mod one_shot;
mod patch;
mod results;
mod retry;
pub(crate) mod rules;
mod start;
mod steer;
mod summary;
mod undo;
mod usage;
mod user_input;

use crate::tokens::Caller;

/// A request, as far as it matters beside what it says.
pub(crate) struct Asked {
    /// Who asks.
    pub(crate) caller: Caller,
    /// Which request it is, of those that may come again.
    pub(crate) repeatable: Option<String>,
}
