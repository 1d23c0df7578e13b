//! Leases: each is recorded and then carried out; what has ended is recorded, and a worker is free again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio::sync::Notify;

use super::Fleet;
use super::core::Core;
use super::run::{FleetCommand, FleetRun, FleetRunId};
use crate::clock::Clock;
use crate::error::WorkError;
use crate::hands::Hands;
use crate::turns::{self, Dispatch, Holds, PARKED_OF_OWNER, Turns};

/// The run, the worker and the task of a lease.
pub(super) type LeaseKey = (FleetRunId, usize, usize);

/// How many leases an owner has.
#[derive(Clone, Copy, Default)]
struct Leases {
    at_work: usize,
    /// Those that only wait for somebody.
    parked: usize,
}

impl Dispatch for Fleet {
    type Key = LeaseKey;
    const NAME: &'static str = "fleet";

    fn clock(&self) -> &dyn Clock {
        &*self.inner.clock
    }

    fn bell(&self) -> &Notify {
        &self.inner.bell
    }

    fn holds(&self) -> &Holds<LeaseKey> {
        &self.inner.holds
    }

    async fn step(
        &self,
        turns: &mut Turns<Self::Key>,
        now: DateTime<Utc>,
    ) -> Result<Option<DateTime<Utc>>, WorkError> {
        let mut core = self.core().await?;
        // One after the other: what ends the last task of a run depends on those before.
        while let Some(((id, worker, task), attempt, end)) = turns.ends.first().cloned() {
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
            turns.ends.remove(0);
        }
        core.runs.values_mut().for_each(|run| run.ripen(now));
        self.lease(&mut core, &turns.parked(), now).await?;
        for run in core.runs.values() {
            for (worker, task, attempt) in run.leases() {
                let key = (run.id, worker, task);
                let is_told = run.workers.get(worker).is_some_and(|it| it.told.is_some());
                if is_told {
                    turns.hurry(key, now);
                }
                if turns.is_waiting(key, now)
                    && let Some(work) = run.assignment((worker, task, attempt))
                {
                    turns.carry(key, work);
                }
                if is_told {
                    turns.stop(key);
                }
            }
        }
        Ok(core.runs.values().filter_map(FleetRun::next_due).min())
    }
}

impl Fleet {
    /// Carries runs out, for ever; ends only when another process has taken over. Whoever stops the daemon drops it.
    pub async fn run(&self, hands: Arc<dyn Hands>) -> WorkError {
        turns::run(self, hands).await
    }

    /// Gives tasks to free workers: one at a time to the owner with the fewest at work, and of his runs to the oldest. What only waits
    /// for somebody takes none of the workers of all runs; its own worker still has it.
    async fn lease(
        &self,
        core: &mut Core,
        parked: &HashSet<LeaseKey>,
        now: DateTime<Utc>,
    ) -> Result<(), WorkError> {
        loop {
            let mut owners: HashMap<&str, Leases> = HashMap::new();
            for run in core.runs.values() {
                let leases = owners.entry(&run.owner).or_default();
                for (worker, task, _) in run.leases() {
                    match parked.contains(&(run.id, worker, task)) {
                        true => leases.parked += 1,
                        false => leases.at_work += 1,
                    }
                }
            }
            let at_work: usize = owners.values().map(|leases| leases.at_work).sum();
            if at_work >= self.inner.settings.workers {
                return Ok(());
            }
            let of = |run: &FleetRun| owners.get(run.owner.as_str()).copied().unwrap_or_default();
            let one = |run: &FleetRun| {
                if of(run).parked >= PARKED_OF_OWNER {
                    return None;
                }
                let events = run.decide(FleetCommand::Lease { limit: 1 }).ok()?;
                (!events.is_empty()).then_some((of(run).at_work, run.id, events))
            };
            let could = core.runs.values().filter_map(one);
            let Some((_, id, events)) = could.min_by_key(|(at_work, id, _)| (*at_work, *id)) else {
                return Ok(());
            };
            core.write(now, vec![(id, events)]).await?;
            self.inner.changes.send_modify(|count| *count += 1);
        }
    }
}
