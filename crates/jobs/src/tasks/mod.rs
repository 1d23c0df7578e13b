//! Tasks: a durable queue, fair between owners, executed by a limited number of workers.

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

use self::core::{OpenTasks, RETAINED, TaskRequestRow};
use crate::dispatch::Holds;
use crate::error::{JobError, check_name, skip_corrupt};
use crate::ledger::{Change, JobKind, Ledger};
use crate::retention::{BYTES_OF_OWNER, KeepNewest};
use crate::rows::{JobStore, PAGE, readable, rows_after};
use crate::spec::JobSpec;
use crate::turn_runner::{ActiveHold, Assignment};
use windlass_core::Clock;

pub(crate) use self::task::RUN_VERSION;
pub(crate) use self::task::cut;
pub use self::task::{
    Attempt, Task, TaskEnd, TaskEvent, TaskId, TaskIdMarker, TaskState, TaskStatus,
};
use self::task::{TaskCommand, is_run_id};
pub use crate::attempt::EndStatus;
use windlass_macros::Defaults;

/// Rows of open tasks.
const OPEN: &str = "work.task";
/// Rows of ended tasks, separate so that opening the queue does not read them.
const ENDED: &str = "work.task.ended";

/// Rows of ended tasks and their index, which a store may prune when history exceeds its limit.
pub(crate) const EXPENDABLE: [&str; 2] = [ENDED, RETAINED];

/// Maximum number of workers.
pub const MAX_WORKERS: usize = 8;
/// Maximum length of an owner's name in bytes.
const OWNER_BYTES: usize = 256;
/// Maximum page size of a list.
const MAX_PAGE: usize = 500;
/// Maximum rows and bytes that one list request for an owner reads before it returns a cursor.
const MAX_SCANNED_ROWS: usize = 4096;
const MAX_SCANNED_BYTES: usize = 8 * LIST_BYTES;
/// Size at which a page of a list is complete, in bytes.
pub(crate) const LIST_BYTES: usize = 4 * 1024 * 1024;
/// Maximum number of tasks in one request, and maximum bytes of their prompts.
const MAX_BATCH: usize = 1000;
pub(crate) const MAX_BATCH_BYTES: usize = 1024 * 1024;

/// Settings of the task queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Defaults)]
pub struct TaskSettings {
    /// Maximum number of tasks that run at once, from 1 to [`MAX_WORKERS`].
    #[default(2)]
    pub workers: usize,
    /// Maximum number of open tasks.
    #[default(100_000)]
    pub open_tasks: usize,
    /// Maximum number of open tasks of one owner.
    #[default(50_000)]
    pub open_tasks_of_owner: usize,
    /// Maximum number of stored ended tasks of each owner; the oldest are removed first.
    #[default(100_000)]
    pub ended_tasks_of_owner: usize,
    /// Maximum bytes of one owner's open tasks, and of its ended tasks.
    #[default(BYTES_OF_OWNER)]
    pub bytes_of_owner: u64,
}

/// A request to queue a task.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    /// ID of the task; default: a new one. If the owner already has a task with this ID, it is returned and nothing is queued.
    pub id: Option<TaskId>,
    /// The work to do.
    pub spec: JobSpec,
    /// The task that it retries.
    pub retry_of: Option<TaskId>,
    /// Idempotency key: a repeated request returns the task that it queued.
    pub request: Option<String>,
}

impl NewTask {
    /// Creates a request with a generated ID.
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

/// Numbers of tasks by status. The numbers of ended tasks include removed ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskCounts {
    /// Tasks that wait for a worker.
    pub queued: usize,
    /// Tasks that are running.
    pub running: usize,
    /// Tasks that succeeded.
    pub completed: u64,
    /// Tasks that failed.
    pub failed: u64,
    /// Tasks that were cancelled.
    pub canceled: u64,
}

/// A page of a list of tasks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TaskPage {
    /// The tasks, the newest first.
    pub tasks: Vec<Task>,
    /// Cursor of the next page, if there may be one.
    pub next: Option<TaskId>,
}

/// The task queue; clones share state.
#[derive(Clone)]
pub struct Tasks {
    inner: Arc<SharedTasks>,
}

struct SharedTasks {
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
            index: RETAINED,
            newest: settings.ended_tasks_of_owner,
            bytes: settings.bytes_of_owner,
        };
        Ok(Self {
            inner: Arc::new(SharedTasks {
                ledger: Ledger::open(store, clock, keep).await?,
                settings,
                holds: Holds::default(),
            }),
        })
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> TaskSettings {
        self.inner.settings
    }

    /// Returns a counter that changes when a task has changed.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.inner.ledger.watch()
    }

    /// Queues a task. It is durable when this returns.
    pub async fn submit(&self, owner: &str, task: NewTask) -> Result<Task, JobError> {
        let mut tasks = self.submit_all(owner, vec![task]).await?;
        tasks
            .pop()
            .ok_or_else(|| JobError::Storage("a task was queued and is not there".to_owned()))
    }

    /// Queues at most a thousand tasks with prompts of at most 1 MiB together, all or none, in one commit.
    pub async fn submit_all(
        &self,
        owner: &str,
        tasks: Vec<NewTask>,
    ) -> Result<Vec<Task>, JobError> {
        // IDs of automation runs are predictable, so clients must not use them.
        let is_of_run = |task: &NewTask| task.id.is_some_and(is_run_id);
        if tasks.iter().any(is_of_run) {
            let reason = "is reserved for runs of automations; leave it out";
            return Err(JobError::invalid("id", reason));
        }
        self.queue_all(owner, tasks).await
    }

    /// Queues tasks, including those of automation runs.
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
                let row = ledger.store.row(OpenTasks::REQUEST_ROWS, request).await?;
                task.id = row.map(|row: TaskRequestRow| row.task_id).or(task.id);
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
        for (object, open, limit) in [
            (of_owner, queue.open_of(owner), settings.open_tasks_of_owner),
            ("open tasks", queue.open(), settings.open_tasks),
        ] {
            if open + changes.len() > limit {
                return Err(JobError::TooMany { object, limit });
            }
        }
        let added = changes.iter().map(|change| change.after.spec.bytes());
        let bytes = queue.bytes_of(owner) + added.sum::<u64>();
        let limit = settings.bytes_of_owner;
        if !changes.is_empty() && bytes > limit {
            return Err(JobError::TooManyBytes {
                object: of_owner,
                limit,
            });
        }
        if !changes.is_empty() {
            writer.write(now, changes).await?;
            drop(writer);
            ledger.wake_and_notify();
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

    /// Lists all tasks or those of one owner, the newest first. A page may have fewer tasks than `limit` even if `next` is set: when
    /// tasks are large, or few belong to the owner.
    pub async fn list(
        &self,
        owner: Option<&str>,
        before: Option<TaskId>,
        limit: usize,
    ) -> Result<TaskPage, JobError> {
        let limit = limit.clamp(1, MAX_PAGE);
        let mut page = TaskPage::default();
        let mut before = before.map(|id| id.to_string());
        let (mut scanned_rows, mut scanned_bytes, mut bytes) = (0, 0, 0);
        let mut count = PAGE;
        loop {
            let count_now = match owner {
                Some(_) => count,
                None => count.min(limit - page.tasks.len()),
            };
            let rows = self.rows(before.as_deref(), count_now).await?;
            scanned_rows += rows.tasks.len();
            scanned_bytes += rows.bytes;
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
            if scanned_rows >= MAX_SCANNED_ROWS || scanned_bytes >= MAX_SCANNED_BYTES {
                page.next = next.parse().ok();
                return Ok(page);
            }
            before = Some(next);
            count = rows_after(rows.bytes, count_now);
        }
    }

    /// Reads rows of both kinds in one order.
    async fn rows(&self, before: Option<&str>, count: usize) -> Result<TaskRows, JobError> {
        let records = &self.inner.ledger.store.records;
        // Open tasks first: a task that ends in between is found twice, and none is missed.
        let open = records.page(OPEN, before, count).await?;
        let ended = records.page(ENDED, before, count).await?;
        let with_kind = |kind: &'static str| move |record: HostRecord| (kind, record);
        let mut found: Vec<_> = (ended.into_iter().map(with_kind(ENDED)))
            .chain(open.into_iter().map(with_kind(OPEN)))
            .collect();
        let bytes = found.iter().map(|(_, record)| record.body.len()).sum();
        found.sort_by(|(_, a), (_, b)| b.name.cmp(&a.name));
        found.dedup_by(|(_, later), (_, earlier)| later.name == earlier.name);
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
        Ok(TaskRows {
            tasks: tasks.collect(),
            bytes,
            next,
        })
    }

    /// Returns why a task that has not ended does not run now.
    #[must_use]
    pub fn hold_of(&self, task: &Task) -> Option<ActiveHold> {
        match &task.state {
            TaskState::Queued { .. } => task.queued_hold().cloned(),
            TaskState::Running => self.inner.holds.get(task.id),
            TaskState::Ended(_) => None,
        }
    }

    /// Retries all held tasks immediately, for example after a change of the configuration.
    pub async fn retry_held(&self) -> Result<(), JobError> {
        self.inner.ledger.lock().await?.open.queue.release_held();
        self.inner.holds.retry_all();
        self.inner.ledger.wake();
        Ok(())
    }

    /// Returns the running attempts of cancelled tasks. Their turns must not continue.
    pub async fn cancelled_attempts(&self) -> Result<Vec<Assignment>, JobError> {
        let writer = self.inner.ledger.lock().await?;
        let running = writer.open.queue.running().iter();
        let cancelled = running.filter(|(_, running)| running.is_canceled);
        let mut attempts = Vec::new();
        for (id, _) in cancelled {
            let task = skip_corrupt(self.get(*id).await, "a cancelled task cannot be read")?;
            attempts.extend(task.and_then(|task| task.assignment()));
        }
        Ok(attempts)
    }

    /// Returns the numbers of tasks by status.
    pub async fn counts(&self) -> Result<TaskCounts, JobError> {
        Ok(self.inner.ledger.read().await?.open.counts())
    }

    /// Cancels a task. A queued task ends immediately; a running one is stopped and ends with its turn. An ended task is returned unchanged.
    pub async fn cancel(&self, id: TaskId) -> Result<Task, JobError> {
        let now = self.inner.ledger.now();
        let mut writer = self.inner.ledger.lock().await?;
        let task = self.get(id).await?;
        let events = task.decide(TaskCommand::Cancel, now).unwrap_or_default();
        if events.is_empty() {
            return Ok(task);
        }
        let change = Change::<OpenTasks>::apply(task, events, now);
        let after = change.after.clone();
        writer.write(now, vec![change]).await?;
        drop(writer);
        self.inner.ledger.wake_and_notify();
        Ok(after)
    }

    /// Retries a failed or cancelled task of this owner: queues a new task that refers to it. The old task is unchanged.
    pub async fn retry(&self, owner: &str, id: TaskId) -> Result<Task, JobError> {
        let task = self.get(id).await?;
        check_owner(&task, owner)?;
        if !matches!(task.status(), TaskStatus::Failed | TaskStatus::Canceled) {
            let reason = "is not failed or canceled, so it cannot be retried";
            return Err(JobError::conflict("task", id, reason));
        }
        let retry = NewTask {
            retry_of: Some(id),
            ..NewTask::new(task.spec)
        };
        self.submit(owner, retry).await
    }

    /// Removes the keys of requests older than `age`; returns their number.
    pub async fn forget_requests(&self, age: Duration) -> Result<usize, JobError> {
        self.inner.ledger.forget_requests(age).await
    }

    /// Removes ended tasks older than `age`; returns their number.
    pub async fn forget(&self, age: Duration) -> Result<usize, JobError> {
        self.inner.ledger.forget(age).await
    }
}

/// A page of tasks in the order of the store.
struct TaskRows {
    /// Tasks with the sizes of their rows in bytes.
    tasks: Vec<(Task, usize)>,
    /// Total bytes read, including unreadable rows.
    bytes: usize,
    /// Last row name, if there may be more rows.
    next: Option<String>,
}

/// Checks the limits of one request.
fn check_batch(tasks: &[NewTask]) -> Result<(), JobError> {
    if tasks.len() > MAX_BATCH {
        let reason = format!(
            "has {} entries, and {MAX_BATCH} can be queued at once",
            tasks.len()
        );
        return Err(JobError::invalid("tasks", reason));
    }
    tasks.iter().try_for_each(|task| task.spec.check())?;
    let bytes: usize = tasks.iter().map(|task| task.spec.prompt.len()).sum();
    if bytes > MAX_BATCH_BYTES {
        let reason =
            format!("has prompts of {bytes} bytes, and {MAX_BATCH_BYTES} can be queued at once");
        return Err(JobError::invalid("tasks", reason));
    }
    Ok(())
}

fn check_owner(task: &Task, owner: &str) -> Result<(), JobError> {
    if task.owner == owner {
        Ok(())
    } else {
        let reason = "belongs to another owner";
        Err(JobError::conflict("task", task.id, reason))
    }
}
