//! The operations of the daemon, one file each.
//!
//! HTTP and the socket both parse a request, call one of these functions and serialize the result. A function gets the part of the request that it
//! needs; [`rules`] has checked the caller's rights before.

mod daemon;
pub mod fields;
pub(crate) mod jobs;
mod prelude;
pub(crate) mod rules;
pub(crate) mod sessions;
pub(crate) mod threads;
pub(crate) mod turns;

pub use fields::UnknownFields;
pub use jobs::fleet::FleetFollower;
pub use threads::detail::DetailJson;
pub use threads::follow::{FollowItem, FollowedEvent, Follower};
pub use turns::one_shot_frames::OneTurn;

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
