//! Limits on followers of threads: in total, and per token.

use tokio_util::sync::CancellationToken;

use crate::error::{ApiError, Result};
use crate::limits::quotas::{Quota, Share};
use crate::service::{LimitPermit, Service};
use crate::tokens::ApiCaller;

/// The permit of one follower; released on drop.
pub struct Subscriber {
    share: Share,
    _permit: LimitPermit,
}

impl Subscriber {
    /// Takes a permit, if the caller has one left.
    pub(crate) fn take(app: &Service, caller: &ApiCaller) -> Result<Self> {
        let limit = app.settings.limits.subscribers;
        let permit = LimitPermit::take(app, |counters| &counters.subscribers);
        if !permit.is_within(limit) {
            return Err(ApiError::limit("subscribers", limit));
        }
        Ok(Self {
            share: Share::one(app, caller.credential(), Quota::Subscribers)?,
            _permit: permit,
        })
    }

    /// Cancelled when the follower's token is revoked.
    #[must_use]
    pub fn revoked(&self) -> &CancellationToken {
        &self.share.revoked
    }
}
