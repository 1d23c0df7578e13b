//! The runs, and what every verb begins with.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use windlass_core::runs::{RunRecord, RunStatus};
use windlass_store::{JournalError, KeptRun, RunFilter, RunLog, TurnRun};

use crate::agent::Agents;
use crate::all::{AllRuns, AnyRun};
use crate::caller::{Caller, ClientId, Role};
use crate::clock::Clock;
use crate::error::RunError;
use crate::limits::RunLimits;
use crate::open::{Holder, OpenRun, OpenRuns};
use crate::turns::Turns;

/// How often a write is tried again when somebody else wrote to the run in between.
const TRIES: usize = 64;
/// How many open runs are looked up at a time when the store is opened.
const PAGE: usize = 500;

/// Who may read runs without being bound to their agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reads {
    /// The host alone.
    #[default]
    HostOnly,
    /// Everybody who is not bound to another agent: nobody is asked for a token.
    Open,
}

/// What an operator can set.
#[derive(Debug, Clone)]
pub struct RunSettings {
    /// How long a run waits for the end of its connection's last words.
    pub grace: Duration,
    /// How long it waits to be taken up again, where the connection asked for it, and after a restart.
    pub lease: Duration,
    /// How much one may report.
    pub limits: RunLimits,
    /// What is known of agents.
    pub agents: Agents,
    /// Who may read.
    pub reads: Reads,
}

impl Default for RunSettings {
    fn default() -> Self {
        Self {
            grace: Duration::from_millis(250),
            lease: Duration::from_secs(10),
            limits: RunLimits::default(),
            agents: Agents::default(),
            reads: Reads::default(),
        }
    }
}

/// The runs; clones share them.
#[derive(Clone)]
pub struct Runs {
    pub(crate) log: Arc<dyn RunLog>,
    /// The same runs and turns of our own sessions, to be read.
    pub(crate) all: AllRuns,
    pub(crate) turns: Option<Arc<dyn Turns>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Arc<RunSettings>,
    open: Arc<Mutex<OpenRuns>>,
    /// Rings when a deadline may have come nearer.
    pub(crate) lost: Arc<Notify>,
}

impl std::fmt::Debug for Runs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runs")
            .field("open", &self.open().len())
            .finish_non_exhaustive()
    }
}

impl Runs {
    /// Takes up the runs of a log. Those that are open wait for their owners as long as the lease is.
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
                open.hold(run, Holder::Nobody { until });
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

    /// Returns the current run of a connection: the one it started last, while it is open.
    #[must_use]
    pub fn current_run(&self, client: &ClientId) -> Option<Arc<str>> {
        self.open().current(client)
    }

    /// Plain data is left behind by a panic elsewhere, so a poisoned lock is still good. It is never held across an await.
    pub(crate) fn open(&self) -> MutexGuard<'_, OpenRuns> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds a run that the caller may write to.
    pub(crate) async fn writable(
        &self,
        caller: &Caller,
        run_id: &str,
    ) -> Result<Writable, RunError> {
        let open = self.open().get(run_id).cloned();
        if let Some(OpenRun { run, holder, .. }) = open {
            let may = match &caller.role {
                Role::Bound(agent) => *agent == run.summary.agent_id,
                Role::Unbound => holder == Holder::Connection(caller.client_id.clone()),
                Role::Host => false,
            };
            return Ok(match may {
                true => Writable::Open(run),
                false => Writable::Unknown,
            });
        }
        if let Some(run) = self.all.turn(run_id).await? {
            return Ok(match self.may_read(caller, &run.summary.agent_id) {
                true => Writable::Turn(run),
                false => Writable::Unknown,
            });
        }
        let Some(run) = self.log.get(run_id).await? else {
            return Ok(Writable::Unknown);
        };
        let may = match &caller.role {
            Role::Bound(agent) => *agent == run.summary.agent_id,
            Role::Unbound => run.client == caller.client_id.as_str(),
            Role::Host => false,
        };
        Ok(match may {
            true => Writable::of(run),
            false => Writable::Unknown,
        })
    }

    /// Tells whether a caller may see the runs of an agent.
    pub(crate) fn may_read(&self, caller: &Caller, agent_id: &str) -> bool {
        match &caller.role {
            Role::Bound(bound) => bound == agent_id,
            Role::Host => true,
            Role::Unbound => caller.reads_all || self.settings.reads == Reads::Open,
        }
    }

    /// Finds a run that the caller may see.
    pub(crate) async fn readable(
        &self,
        caller: &Caller,
        run_id: &str,
    ) -> Result<Option<AnyRun>, RunError> {
        let run = self.all.get(run_id).await?;
        Ok(run.filter(|run| self.may_read(caller, &run.summary().agent_id)))
    }

    /// Writes to an open run what `records` makes of it. When somebody else wrote first, it is asked again.
    pub(crate) async fn append(
        &self,
        mut run: KeptRun,
        records: impl Fn(&KeptRun) -> Vec<RunRecord>,
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
            "too many others write to run `{}`; try again",
            run.summary.run_id
        )))
    }
}

/// What a caller can do with a run.
#[derive(Debug)]
pub(crate) enum Writable {
    /// Write to it.
    Open(KeptRun),
    /// Learn how it ended.
    Ended(KeptRun),
    /// Call it off: it is a turn of one of our own sessions.
    Turn(TurnRun),
    /// Nothing: it is not there, or not the caller's.
    Unknown,
}

impl Writable {
    fn of(run: KeptRun) -> Self {
        match run.summary.status {
            RunStatus::InProgress => Self::Open(run),
            _ => Self::Ended(run),
        }
    }
}

/// What came of a write.
#[derive(Debug)]
pub(crate) enum Appended {
    /// It is durable; this is the run as it was before.
    Done { before: KeptRun },
    /// The run had ended.
    Ended(KeptRun),
    /// The right to write had gone to somebody else.
    Lost,
}
