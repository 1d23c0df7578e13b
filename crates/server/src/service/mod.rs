//! What can be asked of the daemon: one verb, one file.
//!
//! HTTP and the socket both read a request, call one of these functions and write down what it returns. A function says
//! what it needs to know of the request; whether the caller may ask at all is settled before, by [`rules`].

mod agent_control;
mod agent_runs;
mod approvals;
mod automations;
mod budget;
mod compact;
mod config;
mod context;
pub(crate) mod create;
pub(crate) mod detail;
mod environments;
pub(crate) mod export;
pub(crate) mod fields;
pub(crate) mod fleet;
pub(crate) mod follow;
mod fork;
mod interrupt;
mod list;
mod mcp;
pub(crate) mod one_shot;
mod patch;
mod providers;
mod remove;
mod replay;
mod results;
mod retry;
pub(crate) mod rules;
pub(crate) mod sessions;
mod skills;
mod snapshots;
pub(crate) mod start;
mod steer;
mod summary;
pub(crate) mod tasks;
pub(crate) mod thread_record;
mod undo;
mod usage;
mod user_input;

use std::ops::Deref;

use crate::app::{App, Shared};
use crate::tokens::Caller;

/// A request that is answered: the functions that must know who asks are its methods, the others those of [`App`].
pub(crate) struct Asked {
    pub(crate) app: Shared,
    /// Who asks.
    pub(crate) caller: Caller,
    /// Which request it is, of those that may come again.
    pub(crate) repeatable: Option<String>,
}

impl Deref for Asked {
    type Target = App;

    fn deref(&self) -> &App {
        &self.app
    }
}
