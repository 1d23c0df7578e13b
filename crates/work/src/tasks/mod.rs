//! Tasks: a durable queue, fair between owners, carried out by a few workers at once.

mod core;
mod dispatch;
mod queue;
mod task;

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, MutexGuard, Notify, watch};
use windlass_store::HostRecord;

use self::core::{Change, Core};
use crate::clock::Clock;
use crate::error::{WorkError, check_name};
use crate::ledger::{WorkStore, read_row};
use crate::spec::WorkSpec;

pub use self::core::fold_tasks;
pub(crate) use self::task::cut;
pub use self::task::{
    Attempt, EndStatus, Task, TaskCommand, TaskEnd, TaskEvent, TaskId, TaskMarker, TaskRefused,
    TaskState, TaskStatus,
};

/// Rows of open tasks.
const OPEN: &str = "work.task";
/// Rows of ended tasks. They lie apart, so that nobody who looks for work comes across them.
const ENDED: &str = "work.task.ended";
/// Rows of owners with open tasks.
const OWNER: &str = "work.task.owner";
/// The row with what is counted.
const STATE: &str = "work.state";

/// The most workers.
pub const MAX_WORKERS: usize = 8;
/// The longest name of an owner.
const OWNER_BYTES: usize = 256;
/// The longest page of a list.
const LIST: usize = 500;
/// How many rows a list for one owner looks at before it says where to go on.
const LOOKS: usize = 4096;

/// What an operator can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskSettings {
    /// How many tasks run at once, from 1 to [`MAX_WORKERS`].
    pub workers: usize,
    /// How many tasks may be open.
    pub open_tasks: usize,
    /// How many of them may be one owner's, so that none takes all the room.
    pub open_tasks_of_owner: usize,
}

impl Default for TaskSettings {
    fn default() -> Self {
        Self {
            workers: 2,
            open_tasks: 100_000,
            open_tasks_of_owner: 50_000,
        }
    }
}

/// A task that is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    /// Its id. Where one of that id is there, it is answered, and nothing is queued.
    pub id: Option<TaskId>,
    /// What is to be done.
    pub spec: WorkSpec,
    /// The task that it does again.
    pub retry_of: Option<TaskId>,
}

impl NewTask {
    /// Asks for a task.
    #[must_use]
    pub const fn new(spec: WorkSpec) -> Self {
        Self {
            id: None,
            spec,
            retry_of: None,
        }
    }
}

/// How many tasks there are. Ended ones are counted from the beginning, also those that were forgotten since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskCounts {
    /// Those that wait.
    pub queued: usize,
    /// Those that a worker has.
    pub running: usize,
    /// Those that were done.
    pub completed: u64,
    /// Those that were not done.
    pub failed: u64,
    /// Those that were called off.
    pub canceled: u64,
}

/// A part of the list.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TaskPage {
    /// The tasks, the newest first.
    pub tasks: Vec<Task>,
    /// Where the next part begins, if there may be one.
    pub next: Option<TaskId>,
}

/// The tasks; clones share them.
#[derive(Clone)]
pub struct Tasks {
    inner: Arc<Inner>,
}

struct Inner {
    store: WorkStore,
    clock: Arc<dyn Clock>,
    settings: TaskSettings,
    core: Mutex<Core>,
    /// Rings when there may be something to start or to stop.
    bell: Notify,
    /// Counts changes, for whoever waits for one.
    changes: watch::Sender<u64>,
}

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tasks")
            .field("settings", &self.inner.settings)
            .finish_non_exhaustive()
    }
}

impl Tasks {
    /// Takes up the open tasks of a store. Nothing is carried out before [`run`](Self::run).
    pub async fn open(
        store: WorkStore,
        clock: Arc<dyn Clock>,
        settings: TaskSettings,
    ) -> Result<Self, WorkError> {
        if !(1..=MAX_WORKERS).contains(&settings.workers) {
            let reason = format!("must be from 1 to {MAX_WORKERS}, not {}", settings.workers);
            return Err(WorkError::invalid("workers", reason));
        }
        let core = Core::open(&store).await?;
        Ok(Self {
            inner: Arc::new(Inner {
                store,
                clock,
                settings,
                core: Mutex::new(core),
                bell: Notify::new(),
                changes: watch::Sender::new(0),
            }),
        })
    }

    /// Returns what was set.
    #[must_use]
    pub fn settings(&self) -> TaskSettings {
        self.inner.settings
    }

    fn now(&self) -> DateTime<Utc> {
        self.inner.clock.now()
    }

    /// Takes the right to change tasks. What is in memory is read again where nobody knows whether the last write is durable.
    async fn core(&self) -> Result<MutexGuard<'_, Core>, WorkError> {
        let mut core = self.inner.core.lock().await;
        core.make_sound(&self.inner.store).await?;
        Ok(core)
    }

    fn rang(&self) {
        self.inner.bell.notify_one();
        self.inner.changes.send_modify(|count| *count += 1);
    }

    /// Returns a doorbell that rings when a task has changed.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    /// Queues a task. When this returns it is durable.
    pub async fn submit(&self, owner: &str, task: NewTask) -> Result<Task, WorkError> {
        let mut tasks = self.submit_all(owner, vec![task]).await?;
        tasks
            .pop()
            .ok_or_else(|| WorkError::Storage("a task was queued and is not there".to_owned()))
    }

    /// Queues tasks, all or none, in one commit.
    pub async fn submit_all(
        &self,
        owner: &str,
        tasks: Vec<NewTask>,
    ) -> Result<Vec<Task>, WorkError> {
        check_name("owner", owner, OWNER_BYTES)?;
        tasks.iter().try_for_each(|task| task.spec.check())?;
        let now = self.now();
        let mut core = self.core().await?;
        let mut changes: Vec<Change> = Vec::new();
        let mut answers = Vec::new();
        for task in tasks {
            let known = match task.id {
                Some(id) => self.find(id).await?,
                None => None,
            };
            if let Some(known) = known {
                answers.push(known);
                continue;
            }
            let id = task.id.unwrap_or_else(|| self.inner.clock.uuid().into());
            if changes.iter().any(|change| change.id() == id) {
                return Err(WorkError::invalid("id", "is there twice"));
            }
            let change = core.queue_task(owner, id, task, changes.len(), now)?;
            answers.push(change.after().clone());
            changes.push(change);
        }
        let settings = self.inner.settings;
        let of_owner = "open tasks of this owner";
        for (what, open, limit) in [
            (
                of_owner,
                core.queue.open_of(owner),
                settings.open_tasks_of_owner,
            ),
            ("open tasks", core.queue.open(), settings.open_tasks),
        ] {
            if open + changes.len() > limit {
                return Err(WorkError::TooMany { what, limit });
            }
        }
        if !changes.is_empty() {
            core.write(now, changes).await?;
            drop(core);
            self.rang();
        }
        Ok(answers)
    }

    /// Finds a task.
    pub async fn get(&self, id: TaskId) -> Result<Task, WorkError> {
        let found = self.find(id).await?;
        found.ok_or_else(|| WorkError::not_found("task", id))
    }

    async fn find(&self, id: TaskId) -> Result<Option<Task>, WorkError> {
        // A task moves from open to ended and never back, so this order misses none.
        let name = id.to_string();
        match self.inner.store.row(OPEN, &name).await? {
            Some(task) => Ok(Some(task)),
            None => self.inner.store.row(ENDED, &name).await,
        }
    }

    /// Lists tasks, the newest first: all, or those of one owner.
    pub async fn list(
        &self,
        owner: Option<&str>,
        before: Option<TaskId>,
        limit: usize,
    ) -> Result<TaskPage, WorkError> {
        let limit = limit.clamp(1, LIST);
        let mut page = TaskPage::default();
        let mut before = before.map(|id| id.to_string());
        let mut looks = 0;
        loop {
            let (found, next) = self.rows(before.as_deref(), limit).await?;
            looks += found.len();
            for task in found {
                if owner.is_none_or(|owner| owner == task.owner) {
                    page.next = Some(task.id);
                    page.tasks.push(task);
                    if page.tasks.len() == limit {
                        return Ok(page);
                    }
                }
            }
            let Some(next) = next else {
                page.next = None;
                return Ok(page);
            };
            if looks >= LOOKS {
                page.next = next.parse().ok();
                return Ok(page);
            }
            before = Some(next);
        }
    }

    /// Reads rows of both kinds in one order, and says where to go on.
    async fn rows(
        &self,
        before: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Task>, Option<String>), WorkError> {
        let records = &self.inner.store.records;
        // Open ones first: one that ends in between is found twice, and none is missed.
        let open = records.page(OPEN, before, limit).await?;
        let ended = records.page(ENDED, before, limit).await?;
        let with_kind = |kind: &'static str| move |record: HostRecord| (kind, record);
        let mut found: Vec<_> = (ended.into_iter().map(with_kind(ENDED)))
            .chain(open.into_iter().map(with_kind(OPEN)))
            .collect();
        found.sort_by(|(_, a), (_, b)| b.name.cmp(&a.name));
        found.dedup_by(|(_, later), (_, kept)| later.name == kept.name);
        let next = match found.len() >= limit {
            true => found.get(limit - 1).map(|(_, record)| record.name.clone()),
            false => None,
        };
        found.truncate(limit);
        let tasks = found.iter().filter_map(|(kind, record)| {
            let read = read_row(kind, record);
            read.inspect_err(|error| tracing::error!(%error, "a task is left out of a list"))
                .ok()
        });
        Ok((tasks.collect(), next))
    }

    /// Counts tasks.
    pub async fn counts(&self) -> Result<TaskCounts, WorkError> {
        Ok(self.core().await?.counts())
    }

    /// Calls a task off. One that waits ends at once; one that runs is stopped, and ends when its turn has. One that has ended is answered as it is.
    pub async fn cancel(&self, id: TaskId) -> Result<Task, WorkError> {
        let now = self.now();
        let mut core = self.core().await?;
        let task = self.get(id).await?;
        let Ok(events) = task.decide(TaskCommand::Cancel, now) else {
            return Ok(task);
        };
        if events.is_empty() {
            return Ok(task);
        }
        let change = Change::of(task, events, now);
        let after = change.after().clone();
        core.write(now, vec![change]).await?;
        drop(core);
        self.rang();
        Ok(after)
    }

    /// Queues a task again that failed or was called off. Its end stays: what is queued is a new task that names it.
    pub async fn retry(&self, owner: &str, id: TaskId) -> Result<Task, WorkError> {
        let task = self.get(id).await?;
        match task.status() {
            TaskStatus::Failed | TaskStatus::Canceled => {
                let again = NewTask {
                    id: None,
                    spec: task.spec,
                    retry_of: Some(id),
                };
                self.submit(owner, again).await
            }
            TaskStatus::Queued | TaskStatus::Running | TaskStatus::Completed => {
                Err(WorkError::Conflict {
                    what: "task",
                    id: id.to_string(),
                    reason: "is not failed or canceled, so there is nothing to do again",
                })
            }
        }
    }

    /// Forgets ended tasks that are older than this, and of the rest all but the newest; returns how many.
    pub async fn forget(&self, age: Duration, newest: usize) -> Result<usize, WorkError> {
        let age = TimeDelta::from_std(age).unwrap_or(TimeDelta::MAX);
        let before = self.now().checked_sub_signed(age);
        let before = before.unwrap_or(DateTime::<Utc>::MIN_UTC);
        Ok(self.inner.store.records.trim(ENDED, before, newest).await?)
    }
}
