//! Leases: each is recorded, then its attempt runs; what has ended is recorded, and a worker is free again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::Fleet;
use super::core::OpenRuns;
use super::run::{FleetCommand, FleetRun, FleetRunId};
use crate::dispatch::{self, Dispatch, Holds, PARKED_OF_OWNER, Turns};
use crate::error::JobError;
use crate::ledger::{Change, Ledger, Writer};
use crate::turn_runner::TurnRunner;

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
    type Jobs = OpenRuns;

    fn ledger(&self) -> &Ledger<OpenRuns> {
        &self.inner.ledger
    }

    fn holds(&self) -> &Holds<LeaseKey> {
        &self.inner.holds
    }

    async fn step(
        &self,
        turns: &mut Turns<Self::Key>,
        now: DateTime<Utc>,
    ) -> Result<Option<DateTime<Utc>>, JobError> {
        let ledger = &self.inner.ledger;
        let mut writer = ledger.lock().await?;
        // One after the other: what ends the last task of a run depends on those before.
        while let Some(((id, worker, task), attempt, end)) = turns.ends.first().cloned() {
            let finish = FleetCommand::Finish {
                worker,
                task,
                attempt,
                end,
            };
            if let Some(run) = writer.open.runs.get(&id)
                && let Ok(events) = run.decide(finish)
            {
                let change = Change::of(run.clone(), events, now);
                writer.write(now, vec![change]).await?;
                ledger.notify_changed();
            }
            turns.ends.remove(0);
        }
        let runs = &mut writer.open.runs;
        runs.values_mut().for_each(|run| run.ripen(now));
        self.lease(&mut writer, &turns.parked(), now).await?;
        let runs = &writer.open.runs;
        for run in runs.values() {
            for (worker, task, attempt) in run.leases() {
                let key = (run.id, worker, task);
                let is_commanded = run
                    .workers
                    .get(worker)
                    .is_some_and(|it| it.command.is_some());
                if is_commanded {
                    turns.hurry(key, now);
                }
                if turns.is_waiting(key, now)
                    && let Some(work) = run.assignment((worker, task, attempt))
                {
                    turns.run(key, work);
                }
                if is_commanded {
                    turns.stop(key);
                }
            }
        }
        Ok(runs.values().filter_map(FleetRun::next_due).min())
    }
}

impl Fleet {
    /// Carries runs out, for ever; ends only when another process has taken over. Whoever stops the daemon drops it.
    pub async fn run(&self, runner: Arc<dyn TurnRunner>) -> JobError {
        dispatch::run(self, runner).await
    }

    /// Gives tasks to free workers: one at a time to the owner with the fewest at work, and of his runs to the oldest. What only waits
    /// for somebody takes none of the workers of all runs; its own worker still has it.
    async fn lease(
        &self,
        writer: &mut Writer<OpenRuns>,
        parked: &HashSet<LeaseKey>,
        now: DateTime<Utc>,
    ) -> Result<(), JobError> {
        loop {
            let mut owners: HashMap<&str, Leases> = HashMap::new();
            for run in writer.open.runs.values() {
                let leases = owners.entry(&run.owner).or_default();
                for (worker, task, _) in run.leases() {
                    if parked.contains(&(run.id, worker, task)) {
                        leases.parked += 1
                    } else {
                        leases.at_work += 1
                    }
                }
            }
            let at_work: usize = owners.values().map(|leases| leases.at_work).sum();
            if at_work >= self.inner.settings.workers {
                return Ok(());
            }
            let of = |run: &FleetRun| owners.get(run.owner.as_str()).copied().unwrap_or_default();
            let could = writer.open.runs.values().filter_map(|run| {
                if of(run).parked >= PARKED_OF_OWNER {
                    return None;
                }
                let events = run.decide(FleetCommand::Lease { limit: 1 }).ok()?;
                (!events.is_empty()).then_some((of(run).at_work, run, events))
            });
            let next = could.min_by_key(|(at_work, run, _)| (*at_work, run.id));
            let Some((_, run, events)) = next else {
                return Ok(());
            };
            let change = Change::of(run.clone(), events, now);
            writer.write(now, vec![change]).await?;
            self.inner.ledger.notify_changed();
        }
    }
}
