//! What each stored token has open, how much that may be, and that a token which is taken back takes it all along.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::error::{ApiError, Result};
use crate::service::Service;
use crate::settings::{Access, Limits};

/// How often the tokens of what is open are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What stored tokens have open. The operator's is in no table: that token lasts as long as the process, and nobody limits it.
#[derive(Default)]
pub(crate) struct Quotas(Mutex<HashMap<String, OfToken>>);

/// What is counted for each token.
#[derive(Clone, Copy)]
pub enum Quota {
    /// Open connections.
    Connections,
    /// Open event streams.
    Subscribers,
    /// Bytes of bodies that are being read.
    BodyBytes,
    /// Bytes of answers that are being written.
    AnswerBytes,
}

#[derive(Default)]
struct OfToken {
    counts: [usize; 4],
    revoked: CancellationToken,
}

/// What one caller has of a quota; given back when dropped.
pub struct Share {
    app: Service,
    token_id: Option<String>,
    quota: Quota,
    count: usize,
    /// Cancelled when the token is taken back.
    pub revoked: CancellationToken,
}

impl Quota {
    fn limit(self, limits: &Limits) -> usize {
        match self {
            Self::Connections => limits.connections_of_token,
            Self::Subscribers => limits.subscribers_of_token,
            Self::BodyBytes => limits.body_bytes_of_token,
            Self::AnswerBytes => limits.answer_bytes_of_token,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections of one token",
            Self::Subscribers => "subscribers of one token",
            Self::BodyBytes => "bytes of bodies of one token at once",
            Self::AnswerBytes => "bytes of unread answers of one token",
        }
    }
}

impl Quotas {
    fn table(&self) -> MutexGuard<'_, HashMap<String, OfToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends what tokens have open that are no longer there.
    fn end_revoked(&self, is_there: impl Fn(&str) -> bool) {
        for (token_id, open) in self.table().iter() {
            if !is_there(token_id) {
                open.revoked.cancel();
            }
        }
    }
}

impl Share {
    /// Takes one of a quota, if the caller has one left.
    pub fn one(app: &Service, token_id: Option<&str>, quota: Quota) -> Result<Self> {
        let mut share = Self::none(app, token_id, quota);
        share.grow(1)?;
        Ok(share)
    }

    /// Takes nothing yet.
    pub fn none(app: &Service, token_id: Option<&str>, quota: Quota) -> Self {
        Self {
            app: Service::clone(app),
            token_id: token_id.map(str::to_owned),
            quota,
            count: 0,
            revoked: CancellationToken::new(),
        }
    }

    /// Takes more, if the caller has that left.
    pub fn grow(&mut self, more: usize) -> Result<()> {
        let Some(token_id) = &self.token_id else {
            return Ok(());
        };
        let limit = self.quota.limit(&self.app.settings.limits);
        let mut table = self.app.quotas.table();
        let open = table.entry(token_id.clone()).or_default();
        let count = &mut open.counts[self.quota as usize];
        if count.saturating_add(more) > limit {
            return Err(ApiError::limit(self.quota.name(), limit));
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
        let mut table = self.app.quotas.table();
        if let Some(open) = table.get_mut(token_id) {
            open.counts[self.quota as usize] -= self.count;
            if open.counts == [0; 4] {
                table.remove(token_id);
            }
        }
    }
}

/// Looks after the tokens of what is open until the server stops.
pub(crate) async fn watch_tokens(app: Service) {
    let Access::Tokens { stored, .. } = &app.settings.access else {
        return;
    };
    loop {
        tokio::select! {
            () = app.stopping.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        app.quotas
            .end_revoked(|token_id| stored.by_id(token_id).is_present());
    }
}
