//! The operations of the daemon, one file each.
//!
//! HTTP and the socket both parse a request, call one of these functions and serialize the result. A function gets the part of the request that it
//! needs; [`rules`] has checked the caller's rights before.

mod agent_control;
mod agent_runs;
mod approvals;
mod attachments;
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
mod openapi;
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
pub(crate) mod thread_record;
mod undo;
mod usage;
mod user_input;
mod workspace;

pub use detail::DetailJson;
pub use fields::UnknownFields;
pub use fleet::FleetFollower;
pub use follow::{FollowItem, FollowedEvent, Follower};
pub use one_shot_frames::OneTurn;

use crate::tokens::Caller;

/// The caller and the metadata of a request, passed to an operation with its call.
#[derive(Debug)]
pub struct RequestContext {
    /// The client.
    pub caller: Caller,
    /// Identifies the request across retries, if it has an idempotency key.
    pub repeatable: Option<String>,
    /// Fields of the body that the request type does not declare.
    pub unknown_fields: UnknownFields,
}

impl RequestContext {
    /// Creates the context of a request without an idempotency key.
    #[must_use]
    pub fn new(caller: Caller) -> Self {
        Self {
            caller,
            repeatable: None,
            unknown_fields: UnknownFields::default(),
        }
    }
}

/// Returns the maximum number of entries of a list: the requested number, within limits.
fn limit(wanted: Option<u64>, default: usize, most: usize) -> usize {
    wanted.map_or(default, saturated).clamp(1, most)
}

fn saturated(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
