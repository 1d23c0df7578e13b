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
pub mod fields;
pub(crate) mod fleet;
pub(crate) mod follow;
mod fork;
mod health;
mod interrupt;
mod list;
mod mcp;
mod metrics;
mod one_shot;
mod one_shot_frames;
mod patch;
mod providers;
mod queue;
mod remove;
mod replay;
mod results;
mod resume;
mod retry;
pub(crate) mod rules;
pub(crate) mod sessions;
mod skills;
mod snapshots;
pub(crate) mod start;
mod steer;
mod summary;
pub(crate) mod tasks;
mod undo;
mod usage;
mod user_input;
mod workspace;

use std::ops::Deref;

pub use detail::DetailJson;
pub use export::{Export, HeadLine};
pub use fields::UnknownFields;
pub use fleet::{FleetFollower, WorkerAction};
pub use follow::{FollowedEvent, Follower, Heard, Wanted};
pub use one_shot_frames::{OneTurn, frame};
pub use sessions::{Archived, SessionOrder, SessionQuery};
pub use tasks::TaskQuery;

use crate::service::{Service, Shared};
use crate::tokens::Caller;

/// A request that is answered: the functions that must know who asks are its methods, the others those of [`Service`].
pub struct Asked {
    /// The service.
    pub app: Shared,
    /// Who asks.
    pub caller: Caller,
    /// Which request it is, of those that may come again.
    pub repeatable: Option<String>,
}

impl Deref for Asked {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.app
    }
}
