//! The one writer of tasks: what is open, and the right to change it.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use windlass_core::events::Event;

use super::queue::Queue;
use super::task::{EndStatus, Task, TaskCommand, TaskEvent, TaskId};
use super::{ENDED, NewTask, OPEN, OWNER, REQUEST, STATE, TaskCounts};
use crate::error::WorkError;
use crate::kept::{Added, Kept};
use crate::ledger::{Entry, Ledger, WorkStore, Writer, put, read_entry, take_out};

/// The stream of tasks.
pub(super) const STREAM: &str = "work:tasks";

/// What is counted of tasks.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Totals {
    /// The place in the queue that the next task gets.
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
pub(super) struct RequestRow {
    pub(super) task_id: TaskId,
}

/// The payload of a record.
#[derive(Debug, Serialize, Deserialize)]
struct TaskEntry {
    task_id: TaskId,
    #[serde(flatten)]
    event: TaskEvent,
}

/// A task before and after some events.
pub(super) struct Change {
    before: Option<Task>,
    events: Vec<TaskEvent>,
    after: Task,
    /// The request that it came by.
    request: Option<String>,
}

impl Change {
    /// Applies events to a task.
    pub(super) fn of(task: Task, events: Vec<TaskEvent>, now: DateTime<Utc>) -> Self {
        let mut after = task.clone();
        events.iter().for_each(|event| after.evolve(now, event));
        Self {
            before: Some(task),
            events,
            after,
            request: None,
        }
    }

    pub(super) const fn id(&self) -> TaskId {
        self.after.id
    }

    pub(super) const fn after(&self) -> &Task {
        &self.after
    }
}

pub(super) struct Core {
    ledger: Ledger,
    pub(super) queue: Queue,
    totals: Totals,
    kept: Kept,
}

impl Writer for Core {
    fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// Reads what is open. Costs as much as there is of it, however much has ended.
    async fn load(&mut self, store: &WorkStore) -> Result<(), WorkError> {
        self.totals = store.row(STATE, "tasks").await?.unwrap_or_default();
        let mut queue = Queue::default();
        store.each(OPEN, |task: Task| queue.insert(&task)).await?;
        let mut rows = Vec::new();
        store.each(OWNER, |row: OwnerRow| rows.push(row)).await?;
        queue.set_all_served(rows.into_iter().map(|row| (row.owner, row.served)));
        // What was missing may be there since the restart.
        queue.release_held();
        self.queue = queue;
        Ok(())
    }
}

impl Core {
    pub(super) async fn open(store: &WorkStore, kept: Kept) -> Result<Self, WorkError> {
        let mut core = Self {
            ledger: Ledger::open(store, STREAM).await?,
            queue: Queue::default(),
            totals: Totals::default(),
            kept,
        };
        core.load(store).await?;
        Ok(core)
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

    /// Makes the first record of a task, the `nth` of its commit.
    pub(super) fn queue_task(
        &self,
        owner: &str,
        id: TaskId,
        task: NewTask,
        nth: usize,
        now: DateTime<Utc>,
    ) -> Result<Change, WorkError> {
        let event = TaskEvent::Queued {
            owner: owner.to_owned(),
            number: self.totals.next_number + nth as u64,
            spec: Box::new(task.spec),
            retry_of: task.retry_of,
        };
        let after = Task::begin(id, now, &event)
            .ok_or_else(|| WorkError::Storage("a task does not begin".to_owned()))?;
        Ok(Change {
            before: None,
            events: vec![event],
            after,
            request: task.request,
        })
    }

    /// Decides a command about a task; `None` where it does not fit any more.
    pub(super) fn decide(task: Task, command: TaskCommand, now: DateTime<Utc>) -> Option<Change> {
        match task.decide(command, now) {
            Ok(events) if events.is_empty() => None,
            Ok(events) => Some(Change::of(task, events, now)),
            Err(refused) => {
                tracing::debug!(task = %task.id, %refused, "a command came too late");
                None
            }
        }
    }

    /// Makes changes durable, all or none. What is in memory changes first and is read again if the write fails, because
    /// nobody sees it in between.
    pub(super) async fn write(
        &mut self,
        now: DateTime<Utc>,
        changes: Vec<Change>,
    ) -> Result<(), WorkError> {
        let mut entries = Vec::new();
        let mut puts = Vec::new();
        let mut ended = Vec::new();
        let mut totals = self.totals;
        for change in &changes {
            for event in &change.events {
                let entry = TaskEntry {
                    task_id: change.id(),
                    event: event.clone(),
                };
                entries.push(Entry::new(event.name(), &entry)?);
                match event {
                    TaskEvent::Queued { .. } => totals.next_number += 1,
                    TaskEvent::Ended { status, .. } => *totals.ended(*status) += 1,
                    _ => {}
                }
            }
            let name = change.id().to_string();
            if let Some(request) = &change.request {
                let row = RequestRow {
                    task_id: change.id(),
                };
                puts.push(put(REQUEST, request.clone(), &row)?);
            }
            if change.after.end().is_some() {
                puts.push(take_out(OPEN, name.clone()));
                let row = put(ENDED, name, &change.after)?;
                ended.push(Added::new(&change.after.owner, &row));
                puts.push(row);
            } else {
                puts.push(put(OPEN, name, &change.after)?);
            }
        }
        puts.push(put(STATE, "tasks".to_owned(), &totals)?);
        let keeping = self.kept.add(self.ledger.store(), ended).await?;
        puts.extend(keeping.puts);
        puts.extend(keeping.gone.into_iter().map(|(_, id)| take_out(ENDED, id)));
        self.apply(&changes);
        let mut owners: Vec<&str> = changes.iter().map(|change| &*change.after.owner).collect();
        owners.sort_unstable();
        owners.dedup();
        for owner in owners {
            puts.push(match self.queue.served(owner) {
                Some(served) => {
                    let row = OwnerRow {
                        owner: owner.to_owned(),
                        served,
                    };
                    put(OWNER, owner.to_owned(), &row)?
                }
                None => take_out(OWNER, owner.to_owned()),
            });
        }
        self.ledger.append(now, entries, puts).await?;
        self.totals = totals;
        Ok(())
    }

    fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            self.queue.replace(change.before.as_ref(), &change.after);
            let is_start = |event: &TaskEvent| matches!(event, TaskEvent::Started { .. });
            if change.events.iter().any(is_start) {
                self.queue.serve(&change.after.owner);
            }
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

/// Folds records of the stream of tasks: what the journal says by itself. Rows say the same, as long as no record was pruned.
pub fn fold_tasks(events: &[Arc<Event>]) -> Result<BTreeMap<TaskId, Task>, WorkError> {
    let mut tasks: BTreeMap<TaskId, Task> = BTreeMap::new();
    for event in events {
        let entry: TaskEntry = read_entry(event)?;
        match tasks.get_mut(&entry.task_id) {
            Some(task) => task.evolve(event.ts, &entry.event),
            None => {
                let begun = Task::begin(entry.task_id, event.ts, &entry.event);
                let task = begun.ok_or_else(|| WorkError::not_found("task", entry.task_id))?;
                tasks.insert(entry.task_id, task);
            }
        }
    }
    Ok(tasks)
}
