//! Dispatch of fleet runs: a lease is recorded before its attempt runs, and its end before the worker gets another task.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::Fleet;
use super::core::OpenFleetRuns;
use super::run::{FleetCommand, FleetRun, FleetRunId};
use crate::dispatch::{self, Dispatch, Holds, PARKED_OF_OWNER, Turns};
use crate::error::JobError;
use crate::ledger::{Change, Ledger, LedgerWriter};
use crate::turn_runner::TurnRunner;

/// The run, the worker and the task of a lease.
pub(super) type LeaseKey = (FleetRunId, usize, usize);

/// Number of leases of an owner.
#[derive(Clone, Copy, Default)]
struct Leases {
    at_work: usize,
    /// Leases of parked turns.
    parked: usize,
}

impl Dispatch for Fleet {
    type Key = LeaseKey;
    type Jobs = OpenFleetRuns;

    fn ledger(&self) -> &Ledger<OpenFleetRuns> {
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
        // One by one: whether an end completes the run depends on the previous ones.
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
                let change = Change::apply(run.clone(), events, now);
                writer.write(now, vec![change]).await?;
                ledger.notify_changed();
            }
            turns.ends.remove(0);
        }
        let runs = &mut writer.open.runs;
        runs.values_mut().for_each(|run| run.release_due(now));
        self.lease(&mut writer, &turns.parked(), now).await?;
        let runs = &writer.open.runs;
        for run in runs.values() {
            for (worker, task, attempt) in run.leases() {
                let key = (run.id, worker, task);
                let has_command = run
                    .workers
                    .get(worker)
                    .is_some_and(|worker| worker.command.is_some());
                if has_command {
                    turns.retry_now(key, now);
                }
                if turns.needs_start(key, now)
                    && let Some(work) = run.assignment((worker, task, attempt))
                {
                    turns.run(key, work);
                }
                if has_command {
                    turns.stop(key);
                }
            }
        }
        Ok(runs.values().filter_map(FleetRun::next_due).min())
    }
}

impl Fleet {
    /// Runs fleet runs until another process claims the stream. The daemon drops the future to shut down.
    pub async fn run(&self, runner: Arc<dyn TurnRunner>) -> JobError {
        dispatch::run(self, runner).await
    }

    /// Leases tasks to idle workers, one at a time: to the owner with the fewest working turns, and there to the oldest run. A parked turn
    /// does not count against the limit of all workers, but its own worker stays busy.
    async fn lease(
        &self,
        writer: &mut LedgerWriter<OpenFleetRuns>,
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
            let leases_of =
                |run: &FleetRun| owners.get(run.owner.as_str()).copied().unwrap_or_default();
            let candidates = writer.open.runs.values().filter_map(|run| {
                if leases_of(run).parked >= PARKED_OF_OWNER {
                    return None;
                }
                let events = run.decide(FleetCommand::Lease { limit: 1 }).ok()?;
                (!events.is_empty()).then_some((leases_of(run).at_work, run, events))
            });
            let next = candidates.min_by_key(|(at_work, run, _)| (*at_work, run.id));
            let Some((_, run, events)) = next else {
                return Ok(());
            };
            let change = Change::apply(run.clone(), events, now);
            writer.write(now, vec![change]).await?;
            self.inner.ledger.notify_changed();
        }
    }
}
