//! Leases: each is recorded and then carried out; what has ended is recorded, and a worker is free again.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::Fleet;
use super::core::Core;
use super::run::{FleetCommand, FleetRunId};
use crate::error::WorkError;
use crate::hands::{Hands, TurnEnd};

/// How long something that did not work waits for the next try.
const TRY_AGAIN: TimeDelta = TimeDelta::seconds(1);

/// A lease: the run, the worker, the task and the attempt.
type Lease = (FleetRunId, usize, usize, u32);

struct Leases {
    hands: Arc<dyn Hands>,
    turns: JoinSet<TurnEnd>,
    by_turn: HashMap<Id, Lease>,
    carried: HashMap<Lease, CancellationToken>,
    ends: Vec<(Lease, TurnEnd)>,
    again: Option<DateTime<Utc>>,
}

impl Fleet {
    /// Carries runs out, for ever; ends only when another process has taken over. Whoever stops the daemon drops it.
    pub async fn run(&self, hands: Arc<dyn Hands>) -> WorkError {
        let mut leases = Leases {
            hands,
            turns: JoinSet::new(),
            by_turn: HashMap::new(),
            carried: HashMap::new(),
            ends: Vec::new(),
            again: None,
        };
        loop {
            match self.step(&mut leases).await {
                Ok(()) => {}
                Err(WorkError::Replaced) => return WorkError::Replaced,
                Err(error) => {
                    tracing::warn!(%error, "the fleet is held up, and will be tried again");
                    leases.again = Some(self.now() + TRY_AGAIN);
                }
            }
            let time = async {
                match leases.again {
                    Some(again) => self.inner.clock.wait_until(again).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(ended) = leases.turns.join_next_with_id() => leases.note(ended, self.now()),
                () = self.inner.bell.notified() => {}
                () = time => {}
            }
        }
    }

    async fn step(&self, leases: &mut Leases) -> Result<(), WorkError> {
        let now = self.now();
        let mut core = self.core().await?;
        // One after the other: what ends the last task of a run depends on those before.
        while let Some(((id, worker, task, attempt), end)) = leases.ends.first().cloned() {
            let finish = FleetCommand::Finish {
                worker,
                task,
                attempt,
                end,
            };
            let decided = core.runs.get(&id).map(|run| run.decide(finish));
            if let Some(Ok(events)) = decided {
                core.write(now, vec![(id, events)]).await?;
                self.inner.changes.send_modify(|count| *count += 1);
            }
            leases.ends.remove(0);
        }
        self.lease(&mut core, now).await?;
        if leases.again.is_some_and(|again| again <= now) {
            leases.again = None;
        }
        for run in core.runs.values() {
            for (worker, task, attempt) in run.leases() {
                let lease = (run.id, worker, task, attempt);
                if leases.again.is_none() && !leases.carried.contains_key(&lease) {
                    leases.carry(lease, run.assignment((worker, task, attempt)));
                }
                let is_told = run.workers.get(worker).is_some_and(|it| it.told.is_some());
                if let Some(stop) = leases.carried.get(&lease).filter(|_| is_told) {
                    stop.cancel();
                }
            }
        }
        Ok(())
    }

    /// Gives tasks to free workers: one at a time to the owner with the fewest, and of his runs to the oldest.
    async fn lease(&self, core: &mut Core, now: DateTime<Utc>) -> Result<(), WorkError> {
        loop {
            let mut running: HashMap<&str, usize> = HashMap::new();
            for run in core.runs.values() {
                *running.entry(&run.owner).or_default() += run.leases().count();
            }
            if running.values().sum::<usize>() >= self.inner.settings.workers {
                return Ok(());
            }
            let one = |id: &FleetRunId| {
                let run = core.runs.get(id)?;
                let events = run.decide(FleetCommand::Lease { limit: 1 }).ok()?;
                (!events.is_empty()).then_some((*id, events))
            };
            let could = core.runs.keys().filter_map(one);
            let owned = |id: &FleetRunId| {
                let owner = core.runs.get(id).map(|run| run.owner.as_str());
                owner.and_then(|owner| running.get(owner).copied())
            };
            let Some(next) = could.min_by_key(|(id, _)| (owned(id), *id)) else {
                return Ok(());
            };
            core.write(now, vec![next]).await?;
            self.inner.changes.send_modify(|count| *count += 1);
        }
    }
}

impl Leases {
    fn carry(&mut self, lease: Lease, work: Option<crate::hands::Assignment>) {
        let Some(work) = work else {
            return;
        };
        let stop = CancellationToken::new();
        self.carried.insert(lease, stop.clone());
        let hands = Arc::clone(&self.hands);
        let turn = async move { hands.carry(work, stop).await };
        let turn = self.turns.spawn(turn);
        self.by_turn.insert(turn.id(), lease);
    }

    fn note(&mut self, ended: Result<(Id, TurnEnd), JoinError>, now: DateTime<Utc>) {
        let (id, end) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                let reason = format!("carrying it failed: {error}");
                (error.id(), TurnEnd::NotNow { reason })
            }
        };
        let Some(lease) = self.by_turn.remove(&id) else {
            return;
        };
        self.carried.remove(&lease);
        match end {
            TurnEnd::NotNow { reason } => {
                tracing::warn!(run = %lease.0, reason, "a lease is carried again in a while");
                self.again = Some(now + TRY_AGAIN);
            }
            end => self.ends.push((lease, end)),
        }
    }
}
