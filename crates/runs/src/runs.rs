//! The run operations and their common checks.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use windlass_core::Clock;
use windlass_core::lock::lock;
use windlass_core::runs::{RunRecord, RunStatus};
use windlass_macros::Defaults;
use windlass_store::{JournalError, RunFilter, RunLog, StoredRun, TurnRun};

use crate::agent::Agents;
use crate::all::{AllRuns, AnyRun};
use crate::caller::{ClientId, Role, RunCaller};
use crate::error::RunError;
use crate::limits::RunLimits;
use crate::open::{Holder, OpenRun, OpenRuns};
use crate::turns::Turns;

/// Maximum retries of a write that conflicts with concurrent writes to the run.
const TRIES: usize = 64;
/// Page size for loading open runs at startup.
const PAGE: usize = 500;

/// Read access for connections that are not bound to the runs' agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reads {
    /// Only the host may read.
    #[default]
    HostOnly,
    /// Every connection that is not bound to another agent may read: no tokens are required.
    Open,
}

/// Settings of run tracing.
#[derive(Clone, Defaults)]
pub struct RunSettings {
    /// How long a run stays open after its connection is lost, if the connection requested no lease.
    #[default(Duration::from_millis(250))]
    pub grace: Duration,
    /// How long a run waits to be resumed, if its connection requested it, and after a restart.
    #[default(Duration::from_secs(10))]
    pub lease: Duration,
    /// Limits of reported data.
    pub limits: RunLimits,
    /// The configured agents.
    pub agents: Agents,
    /// Read access for unbound connections.
    pub reads: Reads,
}

/// The run operations; clones share state.
#[derive(Clone)]
pub struct Runs {
    pub(crate) log: Arc<dyn RunLog>,
    /// Read access to these runs and to the turns of threads.
    pub(crate) all: AllRuns,
    pub(crate) turns: Option<Arc<dyn Turns>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Arc<RunSettings>,
    open: Arc<Mutex<OpenRuns>>,
    /// Notified when the next deadline may have moved earlier.
    pub(crate) lost: Arc<Notify>,
}

impl Runs {
    /// Loads the runs of a log. Open runs wait for their owners for the duration of the lease.
    pub async fn open_log(
        log: Arc<dyn RunLog>,
        clock: Arc<dyn Clock>,
        settings: RunSettings,
    ) -> Result<Self, RunError> {
        let mut open = OpenRuns::default();
        let until = clock.elapsed() + settings.lease;
        let mut filter = RunFilter {
            status: Some(RunStatus::InProgress),
            ..RunFilter::default()
        };
        loop {
            let page = log.list(filter.clone(), PAGE).await?;
            let Some(last) = page.last() else {
                break;
            };
            filter.before = Some(last.position);
            for run in page {
                open.assign(run, Holder::Waiting { until });
            }
        }
        Ok(Self {
            all: AllRuns::new(Arc::clone(&log), None, settings.limits.clone()),
            turns: None,
            log,
            clock,
            settings: Arc::new(settings),
            open: Arc::new(Mutex::new(open)),
            lost: Arc::default(),
        })
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &RunSettings {
        &self.settings
    }

    /// Returns how many runs are open.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.open().len()
    }

    /// Returns the current run of a connection: the one it started last, while that is open.
    #[must_use]
    pub fn current_run(&self, client: &ClientId) -> Option<Arc<str>> {
        self.open().current(client)
    }

    /// A panic elsewhere leaves plain data intact, so a poisoned lock is still valid. The lock is never held across an await.
    pub(crate) fn open(&self) -> MutexGuard<'_, OpenRuns> {
        lock(&self.open)
    }

    /// Returns a run that the caller may write to.
    pub(crate) async fn writable(
        &self,
        caller: &RunCaller,
        run_id: &str,
    ) -> Result<WriteAccess, RunError> {
        let may_write = |run: &StoredRun, is_own: bool| match &caller.role {
            Role::Bound(agent) => *agent == run.summary.agent_id,
            Role::Unbound => is_own,
            Role::Host => false,
        };
        let open = self.open().get(run_id).cloned();
        if let Some(OpenRun { run, holder, .. }) = open {
            let is_own = holder == Holder::Connection(caller.client_id.clone());
            return Ok(if may_write(&run, is_own) {
                WriteAccess::Open(run)
            } else {
                WriteAccess::Unknown
            });
        }
        if let Some(run) = self.all.turn(run_id).await? {
            return Ok(if self.may_read(caller, &run.summary.agent_id) {
                WriteAccess::Turn(run)
            } else {
                WriteAccess::Unknown
            });
        }
        let run = self.log.get(run_id).await?;
        let run = run.filter(|run| may_write(run, run.client == caller.client_id.as_str()));
        Ok(run.map_or(WriteAccess::Unknown, WriteAccess::from))
    }

    /// Returns whether a caller may read the runs of an agent.
    pub(crate) fn may_read(&self, caller: &RunCaller, agent_id: &str) -> bool {
        match &caller.role {
            Role::Bound(bound) => bound == agent_id,
            Role::Host => true,
            Role::Unbound => caller.reads_all || self.settings.reads == Reads::Open,
        }
    }

    /// Returns a run that the caller may read.
    pub(crate) async fn readable(
        &self,
        caller: &RunCaller,
        run_id: &str,
    ) -> Result<Option<AnyRun>, RunError> {
        let run = self.all.get(run_id).await?;
        Ok(run.filter(|run| self.may_read(caller, &run.summary().agent_id)))
    }

    /// Appends the output of `records` to an open run. After a conflicting write, `records` is called again.
    pub(crate) async fn append(
        &self,
        mut run: StoredRun,
        records: impl Fn(&StoredRun) -> Vec<RunRecord>,
    ) -> Result<Appended, RunError> {
        for _ in 0..TRIES {
            match self.log.append(&run, records(&run)).await {
                Ok(now) => {
                    self.open().update(now);
                    return Ok(Appended::Done { before: run });
                }
                Err(JournalError::OutOfSequence { .. }) => {}
                Err(JournalError::Fenced { .. } | JournalError::Removed(_)) => {
                    return Ok(Appended::Lost);
                }
                Err(error) => return Err(error.into()),
            }
            let epoch = run.epoch;
            let Some(now) = self.log.get(&run.summary.run_id).await? else {
                return Ok(Appended::Lost);
            };
            self.open().update(now.clone());
            if now.epoch != epoch {
                return Ok(Appended::Lost);
            }
            if now.summary.status != RunStatus::InProgress {
                return Ok(Appended::Ended(now));
            }
            run = now;
        }
        Err(RunError::Storage(format!(
            "run `{}` has too many concurrent writers; try again",
            run.summary.run_id
        )))
    }
}

/// The caller's access to a run.
#[derive(Debug)]
pub(crate) enum WriteAccess {
    /// The run is writable.
    Open(StoredRun),
    /// The run has ended; its outcome is readable.
    Ended(StoredRun),
    /// The run is a turn of a thread, and can only be canceled.
    Turn(TurnRun),
    /// The run does not exist or belongs to another agent.
    Unknown,
}

impl From<StoredRun> for WriteAccess {
    fn from(run: StoredRun) -> Self {
        match run.summary.status {
            RunStatus::InProgress => Self::Open(run),
            _ => Self::Ended(run),
        }
    }
}

/// Result of a write.
#[derive(Debug)]
pub(crate) enum Appended {
    /// The write is durable; `before` is the run's previous state.
    Done { before: StoredRun },
    /// The run had ended.
    Ended(StoredRun),
    /// Another connection owns the run now.
    Lost,
}
