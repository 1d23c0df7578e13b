//! Quotas of each stored token. Revoking a token ends everything that it has open.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::error::{ApiError, Result};
use crate::service::Service;
use crate::settings::{ClientLimits, Validity};

/// Interval between checks of the tokens in use.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Resources in use by stored tokens. The operator's token is not listed: it is valid as long as the process and has no limits.
#[derive(Default)]
pub(crate) struct Quotas(Mutex<HashMap<String, TokenShares>>);

/// A resource that is counted per token.
#[derive(Clone, Copy)]
pub enum Quota {
    /// Open TCP and Unix connections.
    Connections,
    /// Open event streams.
    Subscribers,
    /// Bytes of bodies that are being read.
    BodyBytes,
    /// Bytes of responses that are being written.
    AnswerBytes,
}

#[derive(Default)]
struct TokenShares {
    counts: [usize; 4],
    revoked: CancellationToken,
}

/// One caller's share of a quota; released on drop.
pub struct Share {
    app: Service,
    token_id: Option<String>,
    quota: Quota,
    count: usize,
    /// Cancelled when the token is revoked.
    pub revoked: CancellationToken,
}

impl Quota {
    /// Returns the limit, and the name of what it limits.
    fn limit(self, limits: &ClientLimits) -> (usize, &'static str) {
        match self {
            Self::Connections => (limits.connections_of_token, "connections of one token"),
            Self::Subscribers => (limits.subscribers_of_token, "subscribers of one token"),
            Self::BodyBytes => (
                limits.body_bytes_of_token,
                "bytes of bodies of one token at once",
            ),
            Self::AnswerBytes => (
                limits.answer_bytes_of_token,
                "bytes of unread answers of one token",
            ),
        }
    }
}

impl Quotas {
    /// Cancels the shares of revoked tokens.
    fn end_revoked(&self, is_valid: impl Fn(&str) -> bool) {
        for (token_id, open) in self.0.lock().iter() {
            if !is_valid(token_id) {
                open.revoked.cancel();
            }
        }
    }
}

impl Share {
    /// Takes one unit of a quota, if the caller has one left.
    pub fn one(app: &Service, token_id: Option<&str>, quota: Quota) -> Result<Self> {
        let mut share = Self::none(app, token_id, quota);
        share.grow(1)?;
        Ok(share)
    }

    /// Creates an empty share.
    pub fn none(app: &Service, token_id: Option<&str>, quota: Quota) -> Self {
        Self {
            app: Service::clone(app),
            token_id: token_id.map(str::to_owned),
            quota,
            count: 0,
            revoked: CancellationToken::new(),
        }
    }

    /// Takes more units, if the caller has them left.
    pub fn grow(&mut self, more: usize) -> Result<()> {
        let Some(token_id) = &self.token_id else {
            return Ok(());
        };
        let (limit, name) = self.quota.limit(&self.app.settings.limits);
        let mut table = self.app.quotas.0.lock();
        let open = table.entry(token_id.clone()).or_default();
        let count = &mut open.counts[self.quota as usize];
        if count.saturating_add(more) > limit {
            return Err(ApiError::limit(name, limit));
        }
        *count += more;
        self.count += more;
        self.revoked = open.revoked.clone();
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Some(token_id) = &self.token_id else {
            return;
        };
        let mut table = self.app.quotas.0.lock();
        if let Some(open) = table.get_mut(token_id) {
            open.counts[self.quota as usize] -= self.count;
            if open.counts == [0; 4] {
                table.remove(token_id);
            }
        }
    }
}

/// Checks the tokens in use until the server stops.
pub(crate) async fn watch_tokens(app: Service) {
    if app.settings.access.is_open() {
        return;
    }
    loop {
        tokio::select! {
            () = app.stopping.cancelled() => return,
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
        }
        app.quotas
            .end_revoked(|credential| app.settings.validity(credential) == Validity::Valid);
    }
}
