//! Limits of open connections, for all calls together and for one session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use windlass_core::typed_id::SessionId;

use windlass_core::lock::lock;

/// The connection slots of all calls. A cheap handle.
#[derive(Debug, Clone)]
pub(super) struct ConnectionSlots {
    all: Arc<Semaphore>,
    /// Number of slots of one session: a quarter, so that no session uses all of them.
    each: usize,
    sessions: Arc<Mutex<HashMap<SessionId, Weak<Semaphore>>>>,
}

/// The connection slots of one call.
#[derive(Debug)]
pub(super) struct CallConnectionSlots {
    all: Arc<Semaphore>,
    /// The slots of its session, if it has one, and their number.
    session: Option<(Arc<Semaphore>, usize)>,
}

/// A slot that is in use until this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    _all: OwnedSemaphorePermit,
    _own: Option<OwnedSemaphorePermit>,
}

impl ConnectionSlots {
    pub(super) fn new(count: usize) -> Self {
        let count = count.min(Semaphore::MAX_PERMITS);
        Self {
            all: Arc::new(Semaphore::new(count)),
            each: (count / 4).max(1),
            sessions: Arc::default(),
        }
    }

    pub(super) fn for_call(&self, session_id: Option<SessionId>) -> CallConnectionSlots {
        let session = session_id.map(|session_id| {
            let mut sessions = lock(&self.sessions);
            // Sessions without running calls have no connections either.
            sessions.retain(|_, slots| slots.strong_count() > 0);
            let existing = sessions.get(&session_id).and_then(Weak::upgrade);
            let slots = existing.unwrap_or_else(|| Arc::new(Semaphore::new(self.each)));
            sessions.insert(session_id, Arc::downgrade(&slots));
            (slots, self.each)
        });
        CallConnectionSlots {
            all: Arc::clone(&self.all),
            session,
        }
    }
}

impl CallConnectionSlots {
    /// Acquires a slot, or returns why none is available.
    pub(super) fn acquire(&self) -> Result<ConnectionPermit, String> {
        let mut own = None;
        if let Some((slots, count)) = &self.session {
            let permit = Arc::clone(slots).try_acquire_owned();
            own = Some(permit.map_err(|_| {
                format!(
                    "more than {count} connections of the commands of this conversation together"
                )
            })?);
        }
        let all = Arc::clone(&self.all)
            .try_acquire_owned()
            .map_err(|_| "too many connections of the commands of this host together".to_owned())?;
        Ok(ConnectionPermit {
            _all: all,
            _own: own,
        })
    }
}
