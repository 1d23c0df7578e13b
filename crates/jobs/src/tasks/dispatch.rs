//! Dispatch of tasks: a start is recorded before the task runs, and its end is recorded before the worker gets another task.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::core::OpenTasks;
use super::task::{Task, TaskCommand, TaskId};
use super::{OPEN, Tasks};
use crate::dispatch::{self, Dispatch, Holds, Turns};
use crate::error::{JobError, skip_corrupt};
use crate::ledger::{Change, Ledger, LedgerWriter};
use crate::turn_runner::{HeldTurn, Hold, HoldCause, TurnEnd, TurnRunner};

impl Dispatch for Tasks {
    type Key = TaskId;
    type Jobs = OpenTasks;

    fn ledger(&self) -> &Ledger<OpenTasks> {
        &self.inner.ledger
    }

    fn holds(&self) -> &Holds<TaskId> {
        &self.inner.holds
    }

    async fn step(
        &self,
        turns: &mut Turns<TaskId>,
        now: DateTime<Utc>,
    ) -> Result<Option<DateTime<Utc>>, JobError> {
        let ledger = &self.inner.ledger;
        let mut writer = ledger.lock().await?;
        let changes = self.finished(&turns.ends, now).await?;
        if !changes.is_empty() {
            writer.write(now, changes).await?;
            ledger.notify_changed();
        }
        turns.ends.clear();
        let at_work = writer.open.queue.set_parked(&turns.parked());
        for task in self.start(&mut writer, at_work, now).await? {
            if let Some(work) = task.assignment() {
                turns.run(task.id, work);
            }
        }
        for (id, running) in writer.open.queue.running() {
            if running.is_canceled {
                turns.retry_now(*id, now);
            }
            if turns.needs_start(*id, now) {
                match ledger.store.row::<Task>(OPEN, &id.to_string()).await {
                    Ok(task) => {
                        if let Some(work) = task.and_then(|task| task.assignment()) {
                            turns.run(*id, work);
                        }
                    }
                    Err(error) => {
                        let hold = Hold {
                            cause: HoldCause::Store,
                            reason: format!("the task cannot be read: {error}"),
                            until: None,
                            turn: HeldTurn::MayBeOpen,
                        };
                        turns.hold(*id, hold, now);
                    }
                }
            }
            if running.is_canceled {
                turns.stop(*id);
            }
        }
        Ok(writer.open.queue.next_due(now))
    }
}

impl Tasks {
    /// Runs tasks until another process claims the stream. The daemon drops the future to shut down.
    pub async fn run(&self, runner: Arc<dyn TurnRunner>) -> JobError {
        dispatch::run(self, runner).await
    }

    async fn finished(
        &self,
        ends: &[(TaskId, u32, TurnEnd)],
        now: DateTime<Utc>,
    ) -> Result<Vec<Change<OpenTasks>>, JobError> {
        let mut changes: Vec<Change<OpenTasks>> = Vec::new();
        for (id, attempt, end) in ends {
            let task = self.find(*id).await;
            let task = skip_corrupt(task, "the end of a task cannot be recorded")?;
            let Some(task) = task.flatten() else {
                continue;
            };
            let finish = TaskCommand::Finish {
                attempt: *attempt,
                end: end.clone(),
            };
            changes.extend(decide(task, finish, now));
        }
        Ok(changes)
    }

    /// Records the start of the next tasks, in one commit.
    async fn start(
        &self,
        writer: &mut LedgerWriter<OpenTasks>,
        at_work: usize,
        now: DateTime<Utc>,
    ) -> Result<Vec<Task>, JobError> {
        writer.open.queue.release_due(now);
        let free = self.inner.settings.workers.saturating_sub(at_work);
        let mut changes: Vec<Change<OpenTasks>> = Vec::new();
        for id in writer.open.queue.next(free, now) {
            match self.get(id).await {
                Ok(task) => changes.extend(decide(task, TaskCommand::Start, now)),
                Err(error @ (JobError::Corrupt { .. } | JobError::NotFound { .. })) => {
                    tracing::error!(%error, "a task cannot be started and is skipped");
                    writer.open.queue.skip_unreadable(id);
                    // Another task can start instead.
                    self.inner.ledger.wake();
                }
                Err(error) => return Err(error),
            }
        }
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let started = writer.write(now, changes).await?;
        self.inner.ledger.notify_changed();
        Ok(started)
    }
}

/// Decides a command about a task; `None` if it no longer applies.
fn decide(task: Task, command: TaskCommand, now: DateTime<Utc>) -> Option<Change<OpenTasks>> {
    match task.decide(command, now) {
        Ok(events) if events.is_empty() => None,
        Ok(events) => Some(Change::apply(task, events, now)),
        Err(refused) => {
            tracing::debug!(task = %task.id, %refused, "a command came too late");
            None
        }
    }
}
