//! Connections until they have shown who they are: each has a few seconds for it, and the one that took longest goes first when
//! there is no place for another.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use windlass_service::LimitPermit;

use crate::app::Shared;
use windlass_service::ApiError;

use crate::error::Result;
use windlass_service::{Quota, Share};

/// Those who have not shown yet who they are, by when they came.
#[derive(Default)]
pub(crate) struct Lobby(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    next: u64,
    strangers: BTreeMap<u64, CancellationToken>,
}

impl Lobby {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self) -> (u64, CancellationToken) {
        let mut waiting = self.waiting();
        let number = waiting.next;
        waiting.next += 1;
        let dismissed = CancellationToken::new();
        waiting.strangers.insert(number, dismissed.clone());
        (number, dismissed)
    }

    fn leave(&self, number: u64) {
        self.waiting().strangers.remove(&number);
    }

    /// Sends the one away that came first; tells whether there was one.
    pub(crate) fn send_oldest_away(&self) -> bool {
        let oldest = self.waiting().strangers.pop_first();
        if let Some((_, dismissed)) = &oldest {
            dismissed.cancel();
        }
        oldest.is_some()
    }
}

/// What a connection can be.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// It asks over HTTP.
    Http,
    /// It has become a socket.
    Socket,
}

impl Kind {
    fn lobby(self, app: &Shared) -> &Lobby {
        match self {
            Self::Http => &app.lobby,
            Self::Socket => &app.socket_lobby,
        }
    }

    /// Takes one of the places. Where there is none, a stranger has to give up his.
    fn place(self, app: &Shared) -> Result<LimitPermit> {
        let place = match self {
            Self::Http => LimitPermit::of(&app.service, |counters| &counters.connections),
            Self::Socket => LimitPermit::of(&app.service, |counters| &counters.sockets),
        };
        let (what, limit) = match self {
            Self::Http => ("connections", app.service.settings.limits.connections),
            Self::Socket => ("sockets", app.service.settings.rpc.connections),
        };
        if place.is_within(limit) || self.lobby(app).send_oldest_away() {
            return Ok(place);
        }
        Err(ApiError::limit(what, limit))
    }
}

/// One connection: a stranger until it has shown a token.
pub(crate) struct Visitor {
    app: Shared,
    kind: Kind,
    number: u64,
    deadline: Instant,
    dismissed: CancellationToken,
    admitted: CancellationToken,
    /// What its token has of the connections, once it is admitted. It stays with the first that it shows.
    share: OnceLock<Share>,
    _place: LimitPermit,
}

impl Visitor {
    /// Lets a connection in, if there is a place.
    pub(crate) fn enter(app: &Shared, kind: Kind) -> Result<Arc<Self>> {
        let place = kind.place(app)?;
        let (number, dismissed) = kind.lobby(app).enter();
        Ok(Arc::new(Self {
            app: Shared::clone(app),
            kind,
            number,
            deadline: Instant::now() + app.service.settings.limits.token_time,
            dismissed,
            admitted: CancellationToken::new(),
            share: OnceLock::new(),
            _place: place,
        }))
    }

    /// Takes note of who it is.
    pub(crate) fn admit(&self, token_id: Option<&str>) -> Result<()> {
        if self.share.get().is_none() {
            let share = Share::one(&self.app.service, token_id, Quota::Connections)?;
            let _ = self.share.set(share);
            self.kind.lobby(&self.app).leave(self.number);
            self.admitted.cancel();
        }
        Ok(())
    }

    /// Waits until it has to go: no token was shown in time, or somebody else needs the place.
    pub(crate) async fn dismissed(&self) {
        tokio::select! {
            biased;
            () = self.admitted.cancelled() => std::future::pending().await,
            () = self.dismissed.cancelled() => {}
            () = tokio::time::sleep_until(self.deadline) => {}
        }
    }

    /// Waits until the token that it has shown is taken back.
    pub(crate) async fn revoked(&self) {
        self.admitted.cancelled().await;
        match self.share.get() {
            Some(share) => share.revoked.cancelled().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.kind.lobby(&self.app).leave(self.number);
    }
}
