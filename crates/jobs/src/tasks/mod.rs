//! Tasks: a durable queue, fair between owners, executed by a few workers at once.

mod core;
mod dispatch;
mod queue;
mod task;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use windlass_store::HostRecord;

use self::core::{KEPT, OpenTasks, RequestRow};
use crate::dispatch::Holds;
use crate::error::{JobError, check_name};
use crate::ledger::{Change, Ledger, Machine};
use crate::retention::{BYTES_OF_OWNER, KeepNewest};
use crate::rows::{JobStore, PAGE, readable, rows_after};
use crate::spec::JobSpec;
use crate::turn_runner::{ActiveHold, Assignment};
use windlass_core::Clock;

pub use self::core::fold_tasks;
pub(crate) use self::task::RUN_VERSION;
pub(crate) use self::task::cut;
use self::task::is_run_id;
pub use self::task::{
    Attempt, Task, TaskCommand, TaskEnd, TaskEvent, TaskId, TaskMarker, TaskRefused, TaskState,
    TaskStatus,
};
pub use crate::attempt::EndStatus;

/// Rows of open tasks.
const OPEN: &str = "work.task";
/// Rows of ended tasks. They lie apart, so that nobody who looks for work comes across them.
const ENDED: &str = "work.task.ended";

/// Rows of ended tasks and their index, which a store may remove where there is no room for histories.
pub(crate) const EXPENDABLE: [&str; 2] = [ENDED, KEPT];

/// The most workers.
pub const MAX_WORKERS: usize = 8;
/// The longest name of an owner.
const OWNER_BYTES: usize = 256;
/// The longest page of a list.
const LIST: usize = 500;
/// How many rows a list for one owner looks at before it says where to go on, and how many bytes.
const LOOKS: usize = 4096;
const LOOK_BYTES: usize = 8 * LIST_BYTES;
/// How many bytes of tasks are in a page of a list, or a little more.
pub(crate) const LIST_BYTES: usize = 4 * 1024 * 1024;
/// How many tasks can be queued at once, and how much their prompts may have together.
pub(crate) const AT_ONCE: usize = 1000;
pub(crate) const AT_ONCE_BYTES: usize = 1024 * 1024;

/// What an operator can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskSettings {
    /// How many tasks run at once, from 1 to [`MAX_WORKERS`].
    pub workers: usize,
    /// How many tasks may be open.
    pub open_tasks: usize,
    /// How many of them may be one owner's, so that none takes all the room.
    pub open_tasks_of_owner: usize,
    /// How many ended tasks of each owner are kept; the oldest go first.
    pub ended_tasks_of_owner: usize,
    /// How many bytes the open tasks of one owner may have, and how many its ended tasks.
    pub bytes_of_owner: u64,
}

impl Default for TaskSettings {
    fn default() -> Self {
        Self {
            workers: 2,
            open_tasks: 100_000,
            open_tasks_of_owner: 50_000,
            ended_tasks_of_owner: 100_000,
            bytes_of_owner: BYTES_OF_OWNER,
        }
    }
}

/// A task that is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    /// Its id. Where this owner has a task of that id, it is answered, and nothing is queued.
    pub id: Option<TaskId>,
    /// What is to be done.
    pub spec: JobSpec,
    /// The task that it does again.
    pub retry_of: Option<TaskId>,
    /// Names the request that asks for it, where that may come again: then the task that it queued is answered.
    pub request: Option<String>,
}

impl NewTask {
    /// Asks for a task.
    #[must_use]
    pub const fn new(spec: JobSpec) -> Self {
        Self {
            id: None,
            spec,
            retry_of: None,
            request: None,
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
#[derive(Debug, Clone)]
pub struct Tasks {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    ledger: Ledger<OpenTasks>,
    settings: TaskSettings,
    holds: Holds<TaskId>,
}

impl Tasks {
    /// Opens the store's open tasks. Nothing runs before [`run`](Self::run).
    pub async fn open(
        store: JobStore,
        clock: Arc<dyn Clock>,
        settings: TaskSettings,
    ) -> Result<Self, JobError> {
        if !(1..=MAX_WORKERS).contains(&settings.workers) {
            let reason = format!("must be from 1 to {MAX_WORKERS}, not {}", settings.workers);
            return Err(JobError::invalid("workers", reason));
        }
        let keep = KeepNewest {
            ended: ENDED,
            by_owner: None,
            index: KEPT,
            newest: settings.ended_tasks_of_owner,
            bytes: settings.bytes_of_owner,
        };
        Ok(Self {
            inner: Arc::new(Inner {
                ledger: Ledger::open(store, clock, keep).await?,
                settings,
                holds: Holds::default(),
            }),
        })
    }

    /// Returns what was set.
    #[must_use]
    pub fn settings(&self) -> TaskSettings {
        self.inner.settings
    }

    fn wake(&self) {
        self.inner.ledger.wake();
        self.inner.ledger.notify_changed();
    }

    /// Returns a counter that changes when a task has changed.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.inner.ledger.watch()
    }

    /// Queues a task. When this returns it is durable.
    pub async fn submit(&self, owner: &str, task: NewTask) -> Result<Task, JobError> {
        let mut tasks = self.submit_all(owner, vec![task]).await?;
        tasks
            .pop()
            .ok_or_else(|| JobError::Storage("a task was queued and is not there".to_owned()))
    }

    /// Queues tasks, all or none, in one commit: a thousand at most, with prompts of 1 MiB together.
    pub async fn submit_all(
        &self,
        owner: &str,
        tasks: Vec<NewTask>,
    ) -> Result<Vec<Task>, JobError> {
        // Ids of runs can be reckoned beforehand, so nobody else may take them.
        let is_of_run = |task: &NewTask| task.id.is_some_and(is_run_id);
        if tasks.iter().any(is_of_run) {
            let reason = "is one of those that runs of automations have; leave it out";
            return Err(JobError::invalid("id", reason));
        }
        self.queue_all(owner, tasks).await
    }

    /// Queues tasks, also such as runs of automations have.
    pub(crate) async fn queue_all(
        &self,
        owner: &str,
        tasks: Vec<NewTask>,
    ) -> Result<Vec<Task>, JobError> {
        check_name("owner", owner, OWNER_BYTES)?;
        check_batch(&tasks)?;
        let ledger = &self.inner.ledger;
        let now = ledger.now();
        let mut writer = ledger.lock().await?;
        let queue = &writer.open.queue;
        let mut changes: Vec<Change<OpenTasks>> = Vec::new();
        let mut ids = HashSet::new();
        let mut answers = Vec::new();
        for mut task in tasks {
            if let Some(request) = &task.request {
                let made = ledger.store.row(OpenTasks::REQUEST_ROWS, request).await?;
                task.id = made.map(|made: RequestRow| made.task_id).or(task.id);
            }
            let known = match task.id {
                Some(id) => self.find(id).await?,
                None => None,
            };
            if let Some(known) = known {
                check_owner(&known, owner)?;
                answers.push(known);
                continue;
            }
            let id = task.id.unwrap_or_else(|| ledger.clock().uuid().into());
            if !ids.insert(id) {
                return Err(JobError::invalid("id", "is there twice"));
            }
            let queued = TaskEvent::Queued {
                owner: owner.to_owned(),
                number: writer.open.number(changes.len()),
                spec: Box::new(task.spec),
                retry_of: task.retry_of,
            };
            let change = Change::<OpenTasks>::begin(id, queued, task.request, now)?;
            answers.push(change.after.clone());
            changes.push(change);
        }
        let settings = self.inner.settings;
        let of_owner = "open tasks of this owner";
        for (what, open, limit) in [
            (of_owner, queue.open_of(owner), settings.open_tasks_of_owner),
            ("open tasks", queue.open(), settings.open_tasks),
        ] {
            if open + changes.len() > limit {
                return Err(JobError::TooMany { what, limit });
            }
        }
        let added = changes.iter().map(|change| change.after.spec.bytes());
        let bytes = queue.bytes_of(owner) + added.sum::<u64>();
        let limit = settings.bytes_of_owner;
        if !changes.is_empty() && bytes > limit {
            return Err(JobError::TooManyBytes {
                what: of_owner,
                limit,
            });
        }
        if !changes.is_empty() {
            writer.write(now, changes).await?;
            drop(writer);
            self.wake();
        }
        Ok(answers)
    }

    /// Finds a task.
    pub async fn get(&self, id: TaskId) -> Result<Task, JobError> {
        let found = self.find(id).await?;
        found.ok_or_else(|| JobError::not_found("task", id))
    }

    async fn find(&self, id: TaskId) -> Result<Option<Task>, JobError> {
        // A task moves from open to ended and never back, so this order misses none.
        let name = id.to_string();
        match self.inner.ledger.store.row(OPEN, &name).await? {
            Some(task) => Ok(Some(task)),
            None => self.inner.ledger.store.row(ENDED, &name).await,
        }
    }

    /// Lists tasks, the newest first: all, or those of one owner. There may be fewer than `limit` also where `next` is set: where
    /// they are big, or few are the owner's.
    pub async fn list(
        &self,
        owner: Option<&str>,
        before: Option<TaskId>,
        limit: usize,
    ) -> Result<TaskPage, JobError> {
        let limit = limit.clamp(1, LIST);
        let mut page = TaskPage::default();
        let mut before = before.map(|id| id.to_string());
        let (mut looks, mut looked, mut bytes) = (0, 0, 0);
        let mut count = PAGE;
        loop {
            let count_now = match owner {
                Some(_) => count,
                None => count.min(limit - page.tasks.len()),
            };
            let rows = self.rows(before.as_deref(), count_now).await?;
            looks += rows.tasks.len();
            looked += rows.bytes;
            for (task, size) in rows.tasks {
                if owner.is_none_or(|owner| owner == task.owner) {
                    page.next = Some(task.id);
                    page.tasks.push(task);
                    bytes += size;
                    if page.tasks.len() == limit || bytes >= LIST_BYTES {
                        return Ok(page);
                    }
                }
            }
            let Some(next) = rows.next else {
                page.next = None;
                return Ok(page);
            };
            if looks >= LOOKS || looked >= LOOK_BYTES {
                page.next = next.parse().ok();
                return Ok(page);
            }
            before = Some(next);
            count = rows_after(rows.bytes, count_now);
        }
    }

    /// Reads rows of both kinds in one order.
    async fn rows(&self, before: Option<&str>, count: usize) -> Result<Rows, JobError> {
        let records = &self.inner.ledger.store.records;
        // Open ones first: one that ends in between is found twice, and none is missed.
        let open = records.page(OPEN, before, count).await?;
        let ended = records.page(ENDED, before, count).await?;
        let with_kind = |kind: &'static str| move |record: HostRecord| (kind, record);
        let mut found: Vec<_> = (ended.into_iter().map(with_kind(ENDED)))
            .chain(open.into_iter().map(with_kind(OPEN)))
            .collect();
        let bytes = found.iter().map(|(_, record)| record.body.len()).sum();
        found.sort_by(|(_, a), (_, b)| b.name.cmp(&a.name));
        found.dedup_by(|(_, later), (_, kept)| later.name == kept.name);
        let next = if found.len() >= count {
            found.get(count - 1).map(|(_, record)| record.name.clone())
        } else {
            None
        };
        found.truncate(count);
        let tasks = found.iter().filter_map(|(kind, record)| {
            let task = readable(kind, record)?;
            Some((task, record.body.len()))
        });
        Ok(Rows {
            tasks: tasks.collect(),
            bytes,
            next,
        })
    }

    /// Returns why a task does not run now, although it is not at its end.
    #[must_use]
    pub fn hold_of(&self, task: &Task) -> Option<ActiveHold> {
        match &task.state {
            TaskState::Queued { .. } => task.queued_hold().cloned(),
            TaskState::Running => self.inner.holds.get(task.id),
            TaskState::Ended(_) => None,
        }
    }

    /// Tries everything that is held at once: the configuration has changed, for example.
    pub async fn retry_held(&self) -> Result<(), JobError> {
        self.inner.ledger.lock().await?.open.queue.release_held();
        self.inner.holds.retry_all();
        self.inner.ledger.wake();
        Ok(())
    }

    /// Returns the attempts that run and whose tasks are cancelled. Their turns must not continue.
    pub async fn cancelled_attempts(&self) -> Result<Vec<Assignment>, JobError> {
        let writer = self.inner.ledger.lock().await?;
        let running = writer.open.queue.running().iter();
        let cancelled = running.filter(|(_, running)| running.is_canceled);
        let mut attempts = Vec::new();
        for (id, _) in cancelled {
            match self.get(*id).await {
                Ok(task) => attempts.extend(task.assignment()),
                Err(error @ JobError::Corrupt { .. }) => {
                    tracing::error!(%error, "a cancelled task cannot be read");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(attempts)
    }

    /// Counts tasks.
    pub async fn counts(&self) -> Result<TaskCounts, JobError> {
        Ok(self.inner.ledger.look().await?.open.counts())
    }

    /// Calls a task off. One that waits ends at once; one that runs is stopped, and ends when its turn has. One that has ended is answered as it is.
    pub async fn cancel(&self, id: TaskId) -> Result<Task, JobError> {
        let now = self.inner.ledger.now();
        let mut writer = self.inner.ledger.lock().await?;
        let task = self.get(id).await?;
        let Ok(events) = task.decide(TaskCommand::Cancel, now) else {
            return Ok(task);
        };
        if events.is_empty() {
            return Ok(task);
        }
        let change = Change::<OpenTasks>::of(task, events, now);
        let after = change.after.clone();
        writer.write(now, vec![change]).await?;
        drop(writer);
        self.wake();
        Ok(after)
    }

    /// Queues a task of this owner again that failed or was called off. Its end stays: what is queued is a new task that names it.
    pub async fn retry(&self, owner: &str, id: TaskId) -> Result<Task, JobError> {
        let task = self.get(id).await?;
        check_owner(&task, owner)?;
        match task.status() {
            TaskStatus::Failed | TaskStatus::Canceled => {
                let again = NewTask {
                    id: None,
                    spec: task.spec,
                    retry_of: Some(id),
                    request: None,
                };
                self.submit(owner, again).await
            }
            TaskStatus::Queued | TaskStatus::Running | TaskStatus::Completed => {
                Err(JobError::Conflict {
                    what: "task",
                    id: id.to_string(),
                    reason: "is not failed or canceled, so there is nothing to do again",
                })
            }
        }
    }

    /// Forgets which requests queued a task, of those that are older than this.
    pub async fn forget_requests(&self, age: Duration) -> Result<usize, JobError> {
        self.inner.ledger.forget_requests(age).await
    }

    /// Forgets ended tasks that are older than this; returns how many.
    pub async fn forget(&self, age: Duration) -> Result<usize, JobError> {
        self.inner.ledger.forget(age).await
    }
}

/// Some tasks as they lie in the store.
struct Rows {
    /// Each with the bytes of its row.
    tasks: Vec<(Task, usize)>,
    /// How much was read for them.
    bytes: usize,
    /// The last name, where there may be more.
    next: Option<String>,
}

/// Refuses what is over a bound.
fn check_batch(tasks: &[NewTask]) -> Result<(), JobError> {
    if tasks.len() > AT_ONCE {
        let reason = format!(
            "has {} entries, and {AT_ONCE} can be queued at once",
            tasks.len()
        );
        return Err(JobError::invalid("tasks", reason));
    }
    tasks.iter().try_for_each(|task| task.spec.check())?;
    let bytes: usize = tasks.iter().map(|task| task.spec.prompt.len()).sum();
    if bytes > AT_ONCE_BYTES {
        let reason =
            format!("has prompts of {bytes} bytes, and {AT_ONCE_BYTES} can be queued at once");
        return Err(JobError::invalid("tasks", reason));
    }
    Ok(())
}

fn check_owner(task: &Task, owner: &str) -> Result<(), JobError> {
    if task.owner == owner {
        Ok(())
    } else {
        Err(JobError::Conflict {
            what: "task",
            id: task.id.to_string(),
            reason: "belongs to another owner",
        })
    }
}
