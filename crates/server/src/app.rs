//! What all requests share.

use std::collections::HashSet;
use std::future::Future;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_protocol::Environment;
use windlass_runtime::InProcessRuntime;
use windlass_store::queries::Queries;

use crate::chosen::Chosen;
use crate::environments::FixedEnvironments;
use crate::error::{ApiError, Result};
use crate::fanout::Fanouts;
use crate::git::GitStates;
use crate::http::answers::LargeAnswers;
use crate::locks::Locks;
use crate::quotas::Quotas;
use crate::readiness::Readiness;
use crate::rooms::Rooms;
use crate::settings::Settings;
use crate::store::WireStore;
use crate::supervise::Loops;
use crate::visitors::Lobby;
use crate::work::Work;

/// What all requests share.
pub(crate) struct App {
    pub(crate) runtime: InProcessRuntime,
    pub(crate) settings: Settings,
    pub(crate) store: Arc<dyn WireStore>,
    /// What is recorded of threads, turns and what waits in them.
    pub(crate) queries: Arc<dyn Queries>,
    pub(crate) rooms: Rooms,
    pub(crate) fixed: FixedEnvironments,
    /// All environments, as the store has them.
    pub(crate) environments: RwLock<Arc<Vec<Environment>>>,
    /// What was chosen over the API.
    pub(crate) chosen: RwLock<Arc<Chosen>>,
    /// The names of tools that threads have without any client.
    pub(crate) builtin_tools: HashSet<String>,
    pub(crate) git: GitStates,
    pub(crate) counters: Counters,
    /// The threads whose events are being read.
    pub(crate) fanouts: Fanouts,
    /// Answers that are written while they are read.
    pub(crate) large_answers: LargeAnswers,
    /// What each token has open.
    pub(crate) quotas: Quotas,
    /// Work that nobody sits beside, where it is carried out.
    pub(crate) work: Option<Work>,
    /// Connections that have not shown who they are, and those of them that became sockets.
    pub(crate) lobby: Lobby,
    pub(crate) socket_lobby: Lobby,
    pub(crate) readiness: Readiness,
    pub(crate) loops: Loops,
    /// Requests with an idempotency key that are under way.
    pub(crate) under_way: Locks,
    /// Threads whose records are being changed, so that no change is lost.
    pub(crate) changing: Locks,
    /// Requests that change something; they outlive their connections.
    pub(crate) working: TaskTracker,
    /// Says that the server stops.
    pub(crate) stopping: CancellationToken,
    pub(crate) port: u16,
}

pub(crate) type Shared = Arc<App>;

impl App {
    /// Does something in a task of its own, because the one of a connection ends with it.
    pub(crate) async fn carry<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        let carried = self.working.spawn(work).await;
        carried.map_err(ApiError::internal)
    }
}

/// What is counted.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) requests: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) frames: AtomicU64,
    pub(crate) connections: AtomicUsize,
    pub(crate) subscribers: AtomicUsize,
    pub(crate) sockets: AtomicUsize,
    pub(crate) upkeeps: AtomicU64,
    pub(crate) failed_upkeeps: AtomicU64,
    /// Bytes by which rows that retention never removes exceed its limit, as of the last upkeep.
    pub(crate) over_limit: AtomicU64,
    /// Records that upkeep has removed.
    pub(crate) removed: AtomicU64,
}

/// One place of a limited number; given back when dropped.
pub(crate) struct LimitPermit {
    app: Shared,
    of: fn(&Counters) -> &AtomicUsize,
}

impl LimitPermit {
    /// Takes a place, whether there is one or not.
    pub(crate) fn of(app: &Shared, of: fn(&Counters) -> &AtomicUsize) -> Self {
        of(&app.counters).fetch_add(1, Ordering::Relaxed);
        let app = Arc::clone(app);
        Self { app, of }
    }

    /// Tells whether no more places are taken than there are.
    pub(crate) fn is_within(&self, limit: usize) -> bool {
        (self.of)(&self.app.counters).load(Ordering::Relaxed) <= limit
    }
}

impl Drop for LimitPermit {
    fn drop(&mut self) {
        (self.of)(&self.app.counters).fetch_sub(1, Ordering::Relaxed);
    }
}
