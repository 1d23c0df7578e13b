//! Workers: what comes next is recorded as started and then carried out; what has ended is recorded, and a worker is free again.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio::sync::Notify;

use super::core::{Change, Core};
use super::task::{Task, TaskCommand, TaskId};
use super::{OPEN, Tasks};
use crate::clock::Clock;
use crate::error::WorkError;
use crate::hands::{Hands, HeldTurn, Hold, HoldCause, TurnEnd};
use crate::turns::{self, Dispatch, Holds, Turns};

impl Dispatch for Tasks {
    type Key = TaskId;
    const NAME: &'static str = "tasks";

    fn clock(&self) -> &dyn Clock {
        &*self.inner.clock
    }

    fn bell(&self) -> &Notify {
        &self.inner.bell
    }

    fn holds(&self) -> &Holds<TaskId> {
        &self.inner.holds
    }

    async fn step(
        &self,
        turns: &mut Turns<TaskId>,
        now: DateTime<Utc>,
    ) -> Result<Option<DateTime<Utc>>, WorkError> {
        let mut core = self.core().await?;
        let changes = self.finished(&turns.ends, now).await?;
        if !changes.is_empty() {
            core.write(now, changes).await?;
            self.inner.changes.send_modify(|count| *count += 1);
        }
        turns.ends.clear();
        let at_work = core.queue.note_parked(&turns.parked());
        for task in self.start(&mut core, at_work, now).await? {
            if let Some(work) = task.assignment() {
                turns.carry(task.id, work);
            }
        }
        for (id, running) in core.queue.running() {
            if running.is_canceled {
                turns.hurry(*id, now);
            }
            if turns.is_waiting(*id, now) {
                match self.inner.store.row::<Task>(OPEN, &id.to_string()).await {
                    Ok(task) => {
                        if let Some(work) = task.and_then(|task| task.assignment()) {
                            turns.carry(*id, work);
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
        Ok(core.queue.next_due(now))
    }
}

impl Tasks {
    /// Carries tasks out, for ever; ends only when another process has taken over. Whoever stops the daemon drops it.
    pub async fn run(&self, hands: Arc<dyn Hands>) -> WorkError {
        turns::run(self, hands).await
    }

    async fn finished(
        &self,
        ends: &[(TaskId, u32, TurnEnd)],
        now: DateTime<Utc>,
    ) -> Result<Vec<Change>, WorkError> {
        let mut changes: Vec<Change> = Vec::new();
        for (id, attempt, end) in ends {
            let task = match self.find(*id).await {
                Ok(Some(task)) => task,
                Ok(None) => continue,
                Err(error @ WorkError::Corrupt { .. }) => {
                    tracing::error!(%error, "the end of a task cannot be recorded");
                    continue;
                }
                Err(error) => return Err(error),
            };
            let finish = TaskCommand::Finish {
                attempt: *attempt,
                end: end.clone(),
            };
            changes.extend(Core::decide(task, finish, now));
        }
        Ok(changes)
    }

    /// Records what comes next as started, in one commit.
    async fn start(
        &self,
        core: &mut Core,
        at_work: usize,
        now: DateTime<Utc>,
    ) -> Result<Vec<Task>, WorkError> {
        core.queue.ripen(now);
        let free = self.inner.settings.workers.saturating_sub(at_work);
        let mut changes: Vec<Change> = Vec::new();
        for id in core.queue.next(free, now) {
            match self.get(id).await {
                Ok(task) => changes.extend(Core::decide(task, TaskCommand::Start, now)),
                Err(error @ (WorkError::Corrupt { .. } | WorkError::NotFound { .. })) => {
                    tracing::error!(%error, "a task cannot be started and is left out");
                    core.queue.leave_out(id);
                    // Another one has its place.
                    self.inner.bell.notify_one();
                }
                Err(error) => return Err(error),
            }
        }
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let started = changes.iter().map(|change| change.after().clone());
        let started = started.collect();
        core.write(now, changes).await?;
        self.inner.changes.send_modify(|count| *count += 1);
        Ok(started)
    }
}
