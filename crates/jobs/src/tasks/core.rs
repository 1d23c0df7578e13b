//! The open tasks in memory, and the rows of all tasks.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::queue::Queue;
use super::task::{Task, TaskEvent, TaskId};
use super::{ENDED, OPEN, TaskCounts};
use crate::attempt::EndStatus;
use crate::error::JobError;
use crate::ledger::{Change, Commit, JobKind};
use crate::rows::JobStore;

/// The index of ended tasks by owner.
pub(super) const RETAINED: &str = "work.task.kept";
/// Rows of owners with open tasks.
const OWNER: &str = "work.task.owner";
/// The row with the totals.
const STATE: &str = "work.state";

/// Counters of tasks since the first.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Totals {
    /// Queue position of the next task.
    next_number: u64,
    completed: u64,
    failed: u64,
    canceled: u64,
}

/// The row of an owner.
#[derive(Debug, Serialize, Deserialize)]
struct OwnerRow {
    owner: String,
    served: u64,
}

/// The row of a request that queued a task.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TaskRequestRow {
    pub(super) task_id: TaskId,
}

#[derive(Default)]
pub(crate) struct OpenTasks {
    pub(super) queue: Queue,
    totals: Totals,
}

impl JobKind for OpenTasks {
    type Id = TaskId;
    type State = Task;
    type Event = TaskEvent;

    const STREAM: &'static str = "work:tasks";
    const RECORD_PREFIX: &'static str = "task";
    const ID_FIELD: &'static str = "task_id";
    const ENDED_ROWS: &'static [&'static str] = &super::EXPENDABLE;
    const REQUEST_ROWS: &'static str = "work.task.request";

    fn id(task: &Task) -> TaskId {
        task.id
    }

    fn begin(id: TaskId, at: DateTime<Utc>, event: &TaskEvent) -> Option<Task> {
        Task::begin(id, at, event)
    }

    fn evolve(task: &mut Task, at: DateTime<Utc>, event: &TaskEvent) {
        task.evolve(at, event);
    }

    async fn load(&mut self, store: &JobStore) -> Result<(), JobError> {
        self.totals = store.row(STATE, "tasks").await?.unwrap_or_default();
        let mut queue = Queue::default();
        store.each(OPEN, |task: Task| queue.insert(&task)).await?;
        let mut rows = Vec::new();
        store.each(OWNER, |row: OwnerRow| rows.push(row)).await?;
        queue.restore_served(rows.into_iter().map(|row| (row.owner, row.served)));
        // The causes of holds may be gone since the restart.
        queue.release_held();
        self.queue = queue;
        Ok(())
    }

    fn rows(change: &Change<Self>, commit: &mut Commit) -> Result<(), JobError> {
        let task = &change.after;
        let name = task.id.to_string();
        if let Some(request) = &change.request {
            let row = TaskRequestRow { task_id: task.id };
            commit.put(Self::REQUEST_ROWS, request, &row)?;
        }
        if task.end().is_some() {
            commit.remove(OPEN, &name);
            commit.put_ended(&task.owner, ENDED, name, task)
        } else {
            commit.put(OPEN, name, task)
        }
    }

    fn apply(&mut self, change: &Change<Self>, _: DateTime<Utc>) {
        self.queue.replace(change.before.as_ref(), &change.after);
        for event in &change.events {
            match event {
                TaskEvent::Queued { .. } => self.totals.next_number += 1,
                TaskEvent::Started { .. } => self.queue.serve(&change.after.owner),
                TaskEvent::Ended { status, .. } => *self.totals.ended(*status) += 1,
                TaskEvent::Requeued { .. }
                | TaskEvent::HeldBack { .. }
                | TaskEvent::CancelRequested => {}
            }
        }
    }

    fn shared_rows(&self, changes: &[Change<Self>], commit: &mut Commit) -> Result<(), JobError> {
        commit.put(STATE, "tasks", &self.totals)?;
        let mut owners: Vec<&str> = changes.iter().map(|change| &*change.after.owner).collect();
        owners.sort_unstable();
        owners.dedup();
        for owner in owners {
            match self.queue.served(owner) {
                Some(served) => {
                    let row = OwnerRow {
                        owner: owner.to_owned(),
                        served,
                    };
                    commit.put(OWNER, owner, &row)?;
                }
                None => commit.remove(OWNER, owner),
            }
        }
        Ok(())
    }
}

impl OpenTasks {
    /// Returns the queue position of the `nth` task of the next commit.
    pub(super) const fn number(&self, nth: usize) -> u64 {
        self.totals.next_number + nth as u64
    }

    pub(super) fn counts(&self) -> TaskCounts {
        TaskCounts {
            queued: self.queue.queued(),
            running: self.queue.running().len(),
            completed: self.totals.completed,
            failed: self.totals.failed,
            canceled: self.totals.canceled,
        }
    }
}

impl Totals {
    const fn ended(&mut self, status: EndStatus) -> &mut u64 {
        match status {
            EndStatus::Completed => &mut self.completed,
            EndStatus::Failed => &mut self.failed,
            EndStatus::Canceled => &mut self.canceled,
        }
    }
}
