//! State shared by all requests.

use std::collections::HashSet;
use std::future::Future;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_protocol::EnvironmentInfo;
use windlass_runtime::InProcessRuntime;
use windlass_store::queries::{Queries, ThreadQuery, ThreadState};

use crate::background::readiness::Readiness;
use crate::background::supervise::Loops;
use crate::environments::FixedEnvironments;
use crate::error::{ApiError, Result};
use crate::fanout::Fanouts;
use crate::git::GitStates;
use crate::jobs::Jobs;
use crate::limits::quotas::Quotas;
use crate::limits::thread_quota::ThreadQuota;
use crate::locks::Locks;
use crate::settings::Settings;
use crate::settings::effective::EffectiveSettings;
use crate::store::WireStore;

/// Every operation of the Runtime API: [`Handle`](crate::Handle) has one implementation for each. Cheap to clone.
#[derive(Clone)]
pub struct Service(Arc<State>);

impl Deref for Service {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

/// State shared by all requests.
pub struct State {
    pub(crate) runtime: InProcessRuntime,
    /// The settings of the operator.
    pub settings: Settings,
    /// Records that only the API has.
    pub store: Arc<dyn WireStore>,
    /// Queries for recorded threads, turns and waits.
    pub(crate) queries: Arc<dyn Queries>,
    pub(crate) thread_quota: ThreadQuota,
    pub(crate) fixed: FixedEnvironments,
    /// All environments, as the store has them.
    pub(crate) environments: RwLock<Arc<Vec<EnvironmentInfo>>>,
    /// Settings in effect, including those set over the API.
    pub(crate) effective: RwLock<Arc<EffectiveSettings>>,
    /// Names of the tools that threads have without any client.
    pub(crate) builtin_tools: HashSet<String>,
    pub(crate) git: GitStates,
    /// The counters behind the metrics.
    pub counters: Counters,
    /// The threads whose events are being read.
    pub(crate) fanouts: Fanouts,
    /// Resources in use by each token.
    pub(crate) quotas: Quotas,
    /// The job ledgers, if jobs are enabled.
    pub(crate) jobs: Option<Jobs>,
    pub(crate) readiness: Readiness,
    pub(crate) loops: Loops,
    /// Requests with an idempotency key that are being executed.
    pub keyed_requests: Locks,
    /// Threads whose records are being changed, so that no change is lost.
    pub(crate) write_locks: Locks,
    /// Locked while the records of a thread are checked, which reads all of them.
    pub(crate) verifying: tokio::sync::Mutex<()>,
    /// Requests with side effects; they outlive their connections.
    pub detached_tasks: TaskTracker,
    /// Cancelled when the daemon shuts down.
    pub stopping: CancellationToken,
}

impl Service {
    pub(crate) fn new(state: State) -> Self {
        Self(Arc::new(state))
    }

    pub(crate) fn downgrade(&self) -> WeakService {
        WeakService(Arc::downgrade(&self.0))
    }

    /// Runs a future in its own task, because a connection's task ends with the connection.
    pub async fn run_detached<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        let result = self.detached_tasks.spawn(work).await;
        result.map_err(ApiError::internal)
    }

    /// Returns the model of threads whose clients name none, as `provider/model`.
    #[must_use]
    pub fn default_model(&self) -> String {
        let effective = self.effective();
        let (provider, model) = (effective.provider(), effective.models.default_name());
        if provider.is_empty() || model.starts_with(&format!("{provider}/")) {
            model.to_owned()
        } else {
            format!("{provider}/{model}")
        }
    }

    /// Returns whether a turn is running; parked turns do not count.
    pub async fn has_running_turn(&self) -> bool {
        let running = ThreadQuery {
            states: vec![ThreadState::Running],
            ..ThreadQuery::first(1)
        };
        let running = self.queries.threads(running).await;
        running.is_ok_and(|running| !running.entries.is_empty())
    }

    /// Returns a receiver that changes with each record of any stream.
    pub fn watch_records(&self) -> watch::Receiver<u64> {
        self.runtime.journal().watch_all()
    }

    /// Stops all turns once their running tools are recorded. They resume at the next start.
    pub async fn release_turns(&self, grace: Duration) {
        self.runtime.shutdown(grace).await;
    }
}

/// A weak reference to the service.
pub(crate) struct WeakService(Weak<State>);

impl WeakService {
    pub(crate) fn upgrade(&self) -> Option<Service> {
        self.0.upgrade().map(Service)
    }
}

/// The counters behind the metrics. Transports count their requests and connections here.
#[derive(Default)]
pub struct Counters {
    /// Requests that were answered.
    pub requests: AtomicU64,
    /// Requests that failed with an internal error.
    pub failures: AtomicU64,
    /// Events that were sent to subscribers.
    pub frames: AtomicU64,
    /// Open TCP and Unix connections.
    pub connections: AtomicUsize,
    /// Open event streams.
    pub subscribers: AtomicUsize,
    /// Open WebSocket connections.
    pub sockets: AtomicUsize,
    /// Completed maintenance runs.
    pub upkeeps: AtomicU64,
    /// Failed maintenance runs.
    pub failed_upkeeps: AtomicU64,
    /// Bytes by which rows that retention never removes exceed its limit, as of the last upkeep.
    pub over_limit: AtomicU64,
    /// Records that upkeep has removed.
    pub removed: AtomicU64,
}

/// A permit from a limited number; released on drop.
pub struct LimitPermit {
    app: Service,
    counter: fn(&Counters) -> &AtomicUsize,
}

impl LimitPermit {
    /// Takes a permit, even over the limit.
    pub fn take(app: &Service, counter: fn(&Counters) -> &AtomicUsize) -> Self {
        counter(&app.counters).fetch_add(1, Ordering::Relaxed);
        let app = Service::clone(app);
        Self { app, counter }
    }

    /// Returns whether the number of permits is within the limit.
    pub fn is_within(&self, limit: usize) -> bool {
        (self.counter)(&self.app.counters).load(Ordering::Relaxed) <= limit
    }
}

impl Drop for LimitPermit {
    fn drop(&mut self) {
        (self.counter)(&self.app.counters).fetch_sub(1, Ordering::Relaxed);
    }
}
