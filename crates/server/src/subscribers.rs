//! Who follows threads: how many there may be in all and for one token, and that a token which is taken back takes its streams along.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::app::{LimitPermit, Shared};
use crate::error::{ApiError, Result};
use crate::settings::Access;
use crate::tokens::Caller;

/// How often the tokens of open streams are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The streams of stored tokens. Those of the operator are in no table: that token lasts as long as the process.
#[derive(Default)]
pub(crate) struct Subscribers(Mutex<HashMap<String, OfToken>>);

struct OfToken {
    count: usize,
    revoked: CancellationToken,
}

/// The place of one who follows a thread; given back when dropped.
pub(crate) struct Subscriber {
    app: Shared,
    token_id: Option<String>,
    pub(crate) revoked: CancellationToken,
    _permit: LimitPermit,
}

impl Subscribers {
    fn table(&self) -> MutexGuard<'_, HashMap<String, OfToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the streams of tokens that are no longer there.
    fn end_revoked(&self, is_there: impl Fn(&str) -> bool) {
        for (token_id, streams) in self.table().iter() {
            if !is_there(token_id) {
                streams.revoked.cancel();
            }
        }
    }
}

impl Subscriber {
    /// Takes a place, if there is one for this caller.
    pub(crate) fn take(app: &Shared, caller: &Caller) -> Result<Self> {
        let limits = &app.settings.limits;
        let permit = LimitPermit::take(app, "subscribers", limits.subscribers, |counters| {
            &counters.subscribers
        })?;
        let revoked = match &caller.token_id {
            None => CancellationToken::new(),
            Some(token_id) => {
                let mut table = app.subscribers.table();
                let streams = table.entry(token_id.clone()).or_insert_with(|| OfToken {
                    count: 0,
                    revoked: CancellationToken::new(),
                });
                if streams.count >= limits.subscribers_of_token {
                    let what = "subscribers of one token";
                    return Err(ApiError::limit(what, limits.subscribers_of_token));
                }
                streams.count += 1;
                streams.revoked.clone()
            }
        };
        Ok(Self {
            app: Shared::clone(app),
            token_id: caller.token_id.clone(),
            revoked,
            _permit: permit,
        })
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let Some(token_id) = &self.token_id else {
            return;
        };
        let mut table = self.app.subscribers.table();
        if let Some(streams) = table.get_mut(token_id) {
            streams.count -= 1;
            if streams.count == 0 {
                table.remove(token_id);
            }
        }
    }
}

/// Looks after the tokens of open streams until the server stops.
pub(crate) async fn watch_tokens(app: Shared) {
    let Access::Tokens { stored, .. } = &app.settings.access else {
        return;
    };
    loop {
        tokio::select! {
            () = app.stopping.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        app.subscribers.end_revoked(|token_id| stored.has(token_id));
    }
}
