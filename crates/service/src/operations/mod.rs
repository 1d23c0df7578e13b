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
mod prelude;
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

use windlass_jobs::JobError;

use crate::error::{ApiError, Result};
use crate::tokens::ApiCaller;

/// The caller and the metadata of a request, passed to an operation with its call.
#[derive(Debug)]
pub struct RequestContext {
    /// The authenticated client and its rights.
    pub caller: ApiCaller,
    /// Identifies the request across retries, if it has an idempotency key.
    pub repeatable: Option<String>,
    /// Fields of the body that the request type does not declare.
    pub unknown_fields: UnknownFields,
}

impl RequestContext {
    /// Creates the context of a request without an idempotency key.
    #[must_use]
    pub fn new(caller: ApiCaller) -> Self {
        Self {
            caller,
            repeatable: None,
            unknown_fields: UnknownFields::default(),
        }
    }
}

/// Returns the maximum number of entries of a list: the requested number, within limits.
fn limit(requested: Option<u64>, default: usize, max: usize) -> usize {
    requested.map_or(default, saturated).clamp(1, max)
}

/// Returns a job of the caller. For an agent, a job of another owner gets the same error as a missing one, which does not reveal whether it exists.
fn accessible<T>(
    ctx: &RequestContext,
    found: std::result::Result<T, JobError>,
    owner: impl Fn(&T) -> &str,
    not_found: impl Fn() -> ApiError,
) -> Result<T> {
    match found {
        Ok(job) if ctx.caller.can_access(owner(&job)) => Ok(job),
        Ok(_) | Err(JobError::NotFound { .. }) => Err(not_found()),
        Err(error) => Err(error.into()),
    }
}

fn saturated(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
