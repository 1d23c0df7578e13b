//! Connections that have not authenticated yet: each has a few seconds, and the oldest one is closed first when the limit is reached.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_service::{ApiError, LimitPermit, Quota, Share};

use crate::app::SharedApp;
use crate::error::Result;

/// Unauthenticated connections, oldest first.
#[derive(Default)]
pub(crate) struct PendingConnections(Mutex<Unauthenticated>);

#[derive(Default)]
struct Unauthenticated {
    next: u64,
    by_number: BTreeMap<u64, CancellationToken>,
}

impl PendingConnections {
    fn enter(&self) -> (u64, CancellationToken) {
        let mut pending = self.0.lock();
        let number = pending.next;
        pending.next += 1;
        let dismissed = CancellationToken::new();
        pending.by_number.insert(number, dismissed.clone());
        (number, dismissed)
    }

    fn leave(&self, number: u64) {
        self.0.lock().by_number.remove(&number);
    }

    /// Closes the oldest connection; returns `false` if there is none.
    pub(crate) fn dismiss_oldest(&self) -> bool {
        let oldest = self.0.lock().by_number.pop_first();
        if let Some((_, dismissed)) = &oldest {
            dismissed.cancel();
        }
        oldest.is_some()
    }
}

/// The protocol of a connection; each has its own limit.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Http,
    Socket,
}

impl Kind {
    fn pending_connections(self, app: &SharedApp) -> &PendingConnections {
        match self {
            Self::Http => &app.pending_connections,
            Self::Socket => &app.pending_sockets,
        }
    }

    /// Takes a permit. At the limit, the oldest unauthenticated connection is closed.
    fn permit(self, app: &SharedApp) -> Result<LimitPermit> {
        let service = &app.service;
        let (permit, what, limit) = match self {
            Self::Http => (
                LimitPermit::take(service, |counters| &counters.connections),
                "connections",
                service.settings.limits.connections,
            ),
            Self::Socket => (
                LimitPermit::take(service, |counters| &counters.sockets),
                "sockets",
                service.settings.rpc.connections,
            ),
        };
        if permit.is_within(limit) || self.pending_connections(app).dismiss_oldest() {
            return Ok(permit);
        }
        Err(ApiError::limit(what, limit))
    }
}

/// A connection, unauthenticated until it presents a token.
pub(crate) struct PendingConnection {
    app: SharedApp,
    kind: Kind,
    number: u64,
    deadline: Instant,
    dismissed: CancellationToken,
    admitted: CancellationToken,
    /// Its share of its token's connection quota; the first token presented decides.
    share: OnceLock<Share>,
    _permit: LimitPermit,
}

impl PendingConnection {
    /// Registers a connection within the limit.
    pub(crate) fn enter(app: &SharedApp, kind: Kind) -> Result<Arc<Self>> {
        let permit = kind.permit(app)?;
        let (number, dismissed) = kind.pending_connections(app).enter();
        Ok(Arc::new(Self {
            app: SharedApp::clone(app),
            kind,
            number,
            deadline: Instant::now() + app.service.settings.limits.token_time,
            dismissed,
            admitted: CancellationToken::new(),
            share: OnceLock::new(),
            _permit: permit,
        }))
    }

    /// Records that it has authenticated.
    pub(crate) fn admit(&self, credential: Option<&str>) -> Result<()> {
        if self.share.get().is_none() {
            let share = Share::one(&self.app.service, credential, Quota::Connections)?;
            let _ = self.share.set(share);
            self.kind.pending_connections(&self.app).leave(self.number);
            self.admitted.cancel();
        }
        Ok(())
    }

    /// Waits until the connection must be closed: its time to authenticate is over, or another connection needs the permit.
    pub(crate) async fn dismissed(&self) {
        tokio::select! {
            biased;
            () = self.admitted.cancelled() => std::future::pending().await,
            () = self.dismissed.cancelled() => {}
            () = tokio::time::sleep_until(self.deadline) => {}
        }
    }

    /// Waits until its token is revoked.
    pub(crate) async fn revoked(&self) {
        self.admitted.cancelled().await;
        match self.share.get() {
            Some(share) => share.revoked.cancelled().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for PendingConnection {
    fn drop(&mut self) {
        self.kind.pending_connections(&self.app).leave(self.number);
    }
}
