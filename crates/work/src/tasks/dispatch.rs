//! Workers: what comes next is recorded as started and then carried out; what has ended is recorded, and a worker is free again.
//!
//! The loop sleeps until a bell rings, a turn ends or a time comes. It can be dropped at any moment: what runs is found again by
//! its ids.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::core::{Change, Core};
use super::task::{Task, TaskCommand, TaskId};
use super::{OPEN, Tasks};
use crate::error::WorkError;
use crate::hands::{Assignment, Hands, TurnEnd};

/// How long something that did not work waits for the next try.
const TRY_AGAIN: TimeDelta = TimeDelta::seconds(1);

/// What the workers are doing.
struct Workers {
    hands: Arc<dyn Hands>,
    turns: JoinSet<TurnEnd>,
    /// Which turn of the set belongs to which attempt.
    attempts: HashMap<Id, (TaskId, u32)>,
    carried: HashMap<TaskId, CancellationToken>,
    /// Ends that are not recorded yet.
    ends: Vec<(TaskId, u32, TurnEnd)>,
    /// When something is tried again that did not work.
    again: Option<DateTime<Utc>>,
}

impl Tasks {
    /// Carries tasks out, for ever; ends only when another process has taken over. Whoever stops the daemon drops it.
    pub async fn run(&self, hands: Arc<dyn Hands>) -> WorkError {
        let mut workers = Workers {
            hands,
            turns: JoinSet::new(),
            attempts: HashMap::new(),
            carried: HashMap::new(),
            ends: Vec::new(),
            again: None,
        };
        loop {
            let due = match self.step(&mut workers).await {
                Ok(due) => due,
                Err(WorkError::Replaced) => return WorkError::Replaced,
                Err(error) => {
                    tracing::warn!(%error, "tasks are held up, and will be tried again");
                    Some(self.now() + TRY_AGAIN)
                }
            };
            let due = due.into_iter().chain(workers.again).min();
            let time = async {
                match due {
                    Some(due) => self.inner.clock.wait_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(ended) = workers.turns.join_next_with_id() => workers.note(ended, self.now()),
                () = self.inner.bell.notified() => {}
                () = time => {}
            }
        }
    }

    /// Records what has ended, starts what comes next and stops what was called off. Says when to look again.
    async fn step(&self, workers: &mut Workers) -> Result<Option<DateTime<Utc>>, WorkError> {
        let now = self.now();
        let mut core = self.core().await?;
        let changes = self.finished(&workers.ends, now).await?;
        if !changes.is_empty() {
            core.write(now, changes).await?;
            self.inner.changes.send_modify(|count| *count += 1);
        }
        workers.ends.clear();
        let started = self.start(&mut core, now).await?;
        started.into_iter().for_each(|task| workers.carry(&task));
        if workers.again.is_some_and(|again| again <= now) {
            workers.again = None;
        }
        if workers.again.is_none() {
            // Those that an earlier process began, and those that could not be carried before.
            for id in core.queue.running().keys() {
                if !workers.carried.contains_key(id) {
                    match self.inner.store.row::<Task>(OPEN, &id.to_string()).await {
                        Ok(task) => task.iter().for_each(|task| workers.carry(task)),
                        Err(error) => {
                            tracing::error!(%error, "a task that runs cannot be read");
                            workers.again = Some(now + TRY_AGAIN);
                        }
                    }
                }
            }
        }
        for (id, running) in core.queue.running() {
            if let Some(stop) = workers.carried.get(id).filter(|_| running.is_canceled) {
                stop.cancel();
            }
        }
        Ok(core.queue.next_due())
    }

    async fn finished(
        &self,
        ends: &[(TaskId, u32, TurnEnd)],
        now: DateTime<Utc>,
    ) -> Result<Vec<Change>, WorkError> {
        let mut changes: Vec<Change> = Vec::new();
        for (id, attempt, end) in ends {
            let Some(task) = self.find(*id).await? else {
                continue;
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
    async fn start(&self, core: &mut Core, now: DateTime<Utc>) -> Result<Vec<Task>, WorkError> {
        core.queue.ripen(now);
        let workers = self.inner.settings.workers;
        let free = workers.saturating_sub(core.queue.running().len());
        let mut changes: Vec<Change> = Vec::new();
        for id in core.queue.next(free) {
            let task = self.get(id).await?;
            changes.extend(Core::decide(task, TaskCommand::Start, now));
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

impl Workers {
    fn carry(&mut self, task: &Task) {
        let Some(work) = task.assignment() else {
            return;
        };
        let stop = CancellationToken::new();
        self.carried.insert(task.id, stop.clone());
        let hands = Arc::clone(&self.hands);
        let attempt = work.attempt;
        let turn = self.turns.spawn(carry(hands, work, stop));
        self.attempts.insert(turn.id(), (task.id, attempt));
    }

    fn note(&mut self, ended: Result<(Id, TurnEnd), JoinError>, now: DateTime<Utc>) {
        let (id, end) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                let reason = format!("carrying it failed: {error}");
                (error.id(), TurnEnd::NotNow { reason })
            }
        };
        let Some((task, attempt)) = self.attempts.remove(&id) else {
            return;
        };
        self.carried.remove(&task);
        match end {
            TurnEnd::NotNow { reason } => {
                tracing::warn!(%task, reason, "a task is carried again in a while");
                self.again = Some(now + TRY_AGAIN);
            }
            end => self.ends.push((task, attempt, end)),
        }
    }
}

async fn carry(hands: Arc<dyn Hands>, work: Assignment, stop: CancellationToken) -> TurnEnd {
    hands.carry(work, stop).await
}
