//! The loop that tasks and fleets share: what ended is recorded, the next attempts start, and then it sleeps until a bell
//! rings, a turn ends or a time comes. It can be dropped at any moment: what runs is found again by its ids.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::Notify;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::error::{JobError, cut_to};
use crate::ledger::{Ledger, Machine};
use crate::turn_runner::{
    ActiveHold, Assignment, HeldTurn, Hold, HoldCause, HoldCell, TurnEnd, TurnRunner, WorkerSlot,
};

/// The longest reason of a hold; more is cut.
const REASON_BYTES: usize = 1024;

/// How many turns of one owner may wait for somebody without a worker; with so many nothing further of his is begun. When all of them go
/// on at once, so many more than there are workers are at work.
pub(crate) const PARKED_OF_OWNER: usize = 16;

/// How long the second attempt waits; each later one waits four times as long, up to [`LONGEST_WAIT`].
const FIRST_WAIT: TimeDelta = TimeDelta::seconds(1);
/// How long an attempt waits at most.
const LONGEST_WAIT: TimeDelta = TimeDelta::minutes(5);

/// Returns how long the attempt after this one waits.
pub(crate) fn wait_after(attempt: u32) -> TimeDelta {
    let factor = 4_i32.saturating_pow(attempt.saturating_sub(1).min(10));
    (FIRST_WAIT * factor).min(LONGEST_WAIT)
}

/// How long a held attempt waits for the second try; each later one waits twice as long.
const FIRST_RETRY: TimeDelta = TimeDelta::seconds(1);
/// How long a held attempt waits at most.
const LONGEST_RETRY: TimeDelta = TimeDelta::minutes(5);
/// How long an attempt without room waits at most: any client may make room at any time.
const LONGEST_RETRY_FOR_ROOM: TimeDelta = TimeDelta::seconds(30);

/// Returns when a held attempt is tried again after so many tries.
pub(crate) fn retry_of_hold(hold: &Hold, tries: u32, now: DateTime<Utc>) -> DateTime<Utc> {
    let longest = match hold.cause {
        HoldCause::NoRoom => LONGEST_RETRY_FOR_ROOM,
        _ => LONGEST_RETRY,
    };
    let factor = 2_i32.saturating_pow(tries.saturating_sub(1).min(10));
    let retry = now + (FIRST_RETRY * factor).min(longest);
    match (hold.cause, hold.until) {
        // Each try may cost a turn that fails at once.
        (HoldCause::Budget, Some(until)) => until.max(now + FIRST_RETRY),
        (_, until) => until.map_or(retry, |until| retry.min(until.max(now + FIRST_RETRY))),
    }
}

/// Jobs whose attempts are turns.
pub(crate) trait Dispatch: Sync {
    /// What tells pieces of it apart that run at the same time.
    type Key: Copy + Eq + Hash + Debug + Send + Sync;
    /// The kind of its jobs.
    type Jobs: Machine;

    fn ledger(&self) -> &Ledger<Self::Jobs>;

    /// The holds of attempts that keep their leases.
    fn holds(&self) -> &Holds<Self::Key>;

    /// Records what has ended, starts what comes next and stops what was called off. Says when to look again.
    fn step(
        &self,
        turns: &mut Turns<Self::Key>,
        now: DateTime<Utc>,
    ) -> impl Future<Output = Result<Option<DateTime<Utc>>, JobError>> + Send;
}

/// Carries work out, for ever; ends only when another process has taken over.
pub(crate) async fn run<D: Dispatch>(work: &D, runner: Arc<dyn TurnRunner>) -> JobError {
    let ledger = work.ledger();
    let mut turns = Turns {
        runner,
        set: JoinSet::new(),
        keys: HashMap::new(),
        running: HashMap::new(),
        held: HashMap::new(),
        holds: work.holds().clone(),
        ends: Vec::new(),
        left: Arc::default(),
    };
    loop {
        let now = ledger.now();
        if turns.holds.take_retry() {
            turns.held.values_mut().for_each(|held| held.until = now);
        }
        let due = match ledger.due_after(work.step(&mut turns, now).await) {
            Ok(due) => due,
            Err(replaced) => return replaced,
        };
        let due = due.into_iter().chain(turns.next_try(now)).min();
        tokio::select! {
            Some(ended) = turns.set.join_next_with_id() => turns.note(ended, ledger.now()),
            () = turns.left.notified() => {}
            () = ledger.sleep(due) => {}
        }
    }
}

/// The turns that are under way.
pub(crate) struct Turns<K> {
    runner: Arc<dyn TurnRunner>,
    set: JoinSet<TurnEnd>,
    /// Which turn of the set belongs to which attempt.
    keys: HashMap<Id, (K, u32)>,
    running: HashMap<K, RunningAttempt>,
    held: HashMap<K, HeldAttempt>,
    holds: Holds<K>,
    /// Ends that are not recorded yet: of what, of which attempt, and how.
    pub(crate) ends: Vec<(K, u32, TurnEnd)>,
    /// Rings when a turn leaves its worker to others.
    left: Arc<Notify>,
}

/// A turn that is under way.
struct RunningAttempt {
    stop: CancellationToken,
    slot: WorkerSlot,
}

/// An attempt that keeps its lease and is tried again later.
struct HeldAttempt {
    until: DateTime<Utc>,
    hold: HoldCell,
    /// Whether it was tried again because its job was cancelled.
    is_stop_known: bool,
}

/// The holds of attempts that keep their leases, by job. In memory only: after a restart each attempt is tried at once.
#[derive(Debug)]
pub(crate) struct Holds<K>(Arc<HoldTable<K>>);

#[derive(Debug)]
struct HoldTable<K> {
    cells: Mutex<HashMap<K, HoldCell>>,
    /// Whether all of them are to be tried at once.
    retry: AtomicBool,
}

impl<K> Clone for Holds<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> Default for Holds<K> {
    fn default() -> Self {
        Self(Arc::new(HoldTable {
            cells: Mutex::default(),
            retry: AtomicBool::new(false),
        }))
    }
}

impl<K: Copy + Eq + Hash> Holds<K> {
    fn cells(&self) -> MutexGuard<'_, HashMap<K, HoldCell>> {
        self.0.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns why a job does not run now, where its attempt has a turn or may have one.
    pub(crate) fn get(&self, key: K) -> Option<ActiveHold> {
        self.cells().get(&key)?.get()
    }

    /// Asks for all held attempts to be tried at once.
    pub(crate) fn retry_all(&self) {
        self.0.retry.store(true, Ordering::SeqCst);
    }

    fn take_retry(&self) -> bool {
        self.0.retry.swap(false, Ordering::SeqCst)
    }
}

impl<K: Copy + Eq + Hash + Debug> Turns<K> {
    /// Tells whether something that runs waits for a start here: an earlier process began it, or it was held and its time has come.
    pub(crate) fn is_waiting(&self, key: K, now: DateTime<Utc>) -> bool {
        let is_held = self.held.get(&key).is_some_and(|held| held.until > now);
        !self.running.contains_key(&key) && !is_held
    }

    /// Carries an attempt out beside the loop.
    pub(crate) fn run(&mut self, key: K, work: Assignment) {
        let hold = self.held.get(&key).map(|held| held.hold.clone());
        let is_held = hold.is_some();
        let slot = WorkerSlot::new(Arc::clone(&self.left), hold.unwrap_or_default());
        if is_held {
            // Until its turn is known to be open it needs no worker.
            slot.park();
        }
        let running = RunningAttempt {
            stop: CancellationToken::new(),
            slot,
        };
        let (stop, slot) = (running.stop.clone(), running.slot.clone());
        self.running.insert(key, running);
        let runner = Arc::clone(&self.runner);
        let attempt = work.attempt;
        let turn = async move { runner.run_attempt(work, stop, slot).await };
        let turn = self.set.spawn(turn);
        self.keys.insert(turn.id(), (key, attempt));
    }

    /// Tries an attempt whose job was cancelled at once, however long it would be held.
    pub(crate) fn hurry(&mut self, key: K, now: DateTime<Utc>) {
        if let Some(held) = self.held.get_mut(&key)
            && !std::mem::replace(&mut held.is_stop_known, true)
        {
            held.until = now;
        }
    }

    /// Passes on that something was called off.
    pub(crate) fn stop(&self, key: K) {
        if let Some(running) = self.running.get(&key) {
            running.stop.cancel();
        }
    }

    /// Returns the turns that wait for somebody or are held, and leave their workers to others meanwhile.
    pub(crate) fn parked(&self) -> HashSet<K> {
        let running = self.running.iter();
        let parked = running.filter(|(_, running)| running.slot.is_parked());
        let held = self.held.keys();
        let held = held.filter(|key| !self.running.contains_key(key));
        parked.map(|(key, _)| *key).chain(held.copied()).collect()
    }

    /// Holds an attempt that keeps its lease.
    pub(crate) fn hold(&mut self, key: K, hold: Hold, now: DateTime<Utc>) {
        tracing::warn!(?key, cause = ?hold.cause, reason = hold.reason, "an attempt is held and will be tried again");
        let before = self.held.remove(&key);
        let is_stop_known = before.as_ref().is_some_and(|held| held.is_stop_known);
        let cell = before.map(|held| held.hold).unwrap_or_default();
        // An attempt that ran meanwhile starts with short waits again.
        let tries = cell.get().map_or(0, |hold| hold.tries) + 1;
        let until = retry_of_hold(&hold, tries, now);
        cell.set(Some(ActiveHold {
            cause: hold.cause,
            reason: cut_to(hold.reason, REASON_BYTES),
            at: now,
            retry_at: Some(until),
            tries,
        }));
        self.holds.cells().insert(key, cell.clone());
        let held = HeldAttempt {
            until,
            hold: cell,
            is_stop_known,
        };
        self.held.insert(key, held);
    }

    /// The attempt has come to its end.
    fn release(&mut self, key: K) {
        self.held.remove(&key);
        self.holds.cells().remove(&key);
    }

    fn next_try(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let times = self.held.values().map(|held| held.until);
        times.filter(|until| *until > now).min()
    }

    fn note(&mut self, ended: Result<(Id, TurnEnd), JoinError>, now: DateTime<Utc>) {
        let (id, end) = match ended {
            Ok((id, end)) => (id, Ok(end)),
            Err(error) => (error.id(), Err(error)),
        };
        let Some((key, attempt)) = self.keys.remove(&id) else {
            return;
        };
        self.running.remove(&key);
        let hold = match end {
            Ok(TurnEnd::Held(hold)) if hold.turn == HeldTurn::MayBeOpen => hold,
            Ok(end) => {
                self.release(key);
                return self.ends.push((key, attempt, end));
            }
            Err(error) => Hold {
                cause: HoldCause::Fault,
                reason: format!("running the attempt failed: {error}"),
                until: None,
                turn: HeldTurn::MayBeOpen,
            },
        };
        self.hold(key, hold, now);
    }
}
