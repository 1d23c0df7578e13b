//! The dispatch loop of tasks and fleets. It records ended attempts, starts the next ones, and then sleeps until it is woken, a
//! turn ends or a time is due. It can be dropped at any time: running turns are found again by their IDs.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::Notify;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use windlass_core::lock::lock;

use crate::error::{JobError, truncate_to};
use crate::ledger::{JobKind, Ledger};
use crate::turn_runner::{
    ActiveHold, Assignment, HeldTurn, Hold, HoldCause, HoldCell, TurnEnd, TurnRunner, WorkerSlot,
};

/// Maximum length of a hold's reason in bytes; longer ones are truncated.
const REASON_BYTES: usize = 1024;

/// Maximum number of one owner's parked turns, at which no further job of the owner starts. If all of them resume at once, the number of
/// working turns exceeds the number of workers by this many.
pub(crate) const PARKED_OF_OWNER: usize = 16;

/// Delay of the second attempt. Each later delay is four times as long, up to [`LONGEST_WAIT`].
const FIRST_WAIT: TimeDelta = TimeDelta::seconds(1);
/// Maximum delay of an attempt.
const LONGEST_WAIT: TimeDelta = TimeDelta::minutes(5);

/// Returns the delay after this attempt.
pub(crate) fn retry_delay(attempt: u32) -> TimeDelta {
    let factor = 4_i32.saturating_pow(attempt.saturating_sub(1).min(10));
    (FIRST_WAIT * factor).min(LONGEST_WAIT)
}

/// Delay before a held attempt is retried. Each later delay is twice as long.
const FIRST_RETRY: TimeDelta = TimeDelta::seconds(1);
/// Maximum delay of a held attempt.
const LONGEST_RETRY: TimeDelta = TimeDelta::minutes(5);
/// Maximum delay of an attempt that waits for a free thread: any client may free one at any time.
const LONGEST_RETRY_FOR_ROOM: TimeDelta = TimeDelta::seconds(30);

/// Returns when a held attempt is retried after this number of tries.
pub(crate) fn hold_retry_at(hold: &Hold, tries: u32, now: DateTime<Utc>) -> DateTime<Utc> {
    let longest = match hold.cause {
        HoldCause::NoRoom => LONGEST_RETRY_FOR_ROOM,
        _ => LONGEST_RETRY,
    };
    let factor = 2_i32.saturating_pow(tries.saturating_sub(1).min(10));
    let retry = now + (FIRST_RETRY * factor).min(longest);
    match (hold.cause, hold.until) {
        // A retry before the budget renews may cost a turn that fails immediately.
        (HoldCause::Budget, Some(until)) => until.max(now + FIRST_RETRY),
        (_, until) => until.map_or(retry, |until| retry.min(until.max(now + FIRST_RETRY))),
    }
}

/// Jobs whose attempts are turns.
pub(crate) trait Dispatch: Sync {
    /// Identifies a running attempt.
    type Key: Copy + Eq + Hash + Debug + Send + Sync;
    /// The kind of job.
    type Jobs: JobKind;

    fn ledger(&self) -> &Ledger<Self::Jobs>;

    /// Holds of attempts that retain their leases.
    fn holds(&self) -> &Holds<Self::Key>;

    /// Records ended attempts, starts the next ones and stops cancelled ones. Returns when the next step is due.
    fn step(
        &self,
        turns: &mut Turns<Self::Key>,
        now: DateTime<Utc>,
    ) -> impl Future<Output = Result<Option<DateTime<Utc>>, JobError>> + Send;
}

/// Runs jobs until another process claims the stream.
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
        released: Arc::default(),
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
            () = turns.released.notified() => {}
            () = ledger.sleep(due) => {}
        }
    }
}

/// The running turns.
pub(crate) struct Turns<K> {
    runner: Arc<dyn TurnRunner>,
    set: JoinSet<TurnEnd>,
    /// The attempt of each task in the set.
    keys: HashMap<Id, (K, u32)>,
    running: HashMap<K, RunningAttempt>,
    held: HashMap<K, HeldAttempt>,
    holds: Holds<K>,
    /// Ends that are not recorded yet, with key and attempt number.
    pub(crate) ends: Vec<(K, u32, TurnEnd)>,
    /// Notified when a turn releases its worker.
    released: Arc<Notify>,
}

/// A running turn.
struct RunningAttempt {
    stop: CancellationToken,
    slot: WorkerSlot,
}

/// An attempt that retains its lease and is retried later.
struct HeldAttempt {
    until: DateTime<Utc>,
    hold: HoldCell,
    /// Whether it was retried because its job was cancelled.
    is_stop_known: bool,
}

/// The holds of attempts that retain their leases, by job. In memory only: after a restart each attempt is retried immediately.
#[derive(Debug, Clone)]
pub(crate) struct Holds<K> {
    cells: Arc<Mutex<HashMap<K, HoldCell>>>,
    /// Whether all of them are retried in the next step.
    retry: Arc<AtomicBool>,
}

impl<K> Default for Holds<K> {
    fn default() -> Self {
        Self {
            cells: Arc::default(),
            retry: Arc::default(),
        }
    }
}

impl<K: Copy + Eq + Hash> Holds<K> {
    fn cells(&self) -> MutexGuard<'_, HashMap<K, HoldCell>> {
        lock(&self.cells)
    }

    /// Returns why a job does not run now, if its attempt has or may have a turn.
    pub(crate) fn get(&self, key: K) -> Option<ActiveHold> {
        self.cells().get(&key)?.get()
    }

    /// Requests an immediate retry of all held attempts.
    pub(crate) fn retry_all(&self) {
        self.retry.store(true, Ordering::SeqCst);
    }

    fn take_retry(&self) -> bool {
        self.retry.swap(false, Ordering::SeqCst)
    }
}

impl<K: Copy + Eq + Hash + Debug> Turns<K> {
    /// Returns whether a running attempt must be started in this process: a previous process started it, or its hold has expired.
    pub(crate) fn needs_start(&self, key: K, now: DateTime<Utc>) -> bool {
        let is_held = self.held.get(&key).is_some_and(|held| held.until > now);
        !self.running.contains_key(&key) && !is_held
    }

    /// Runs an attempt concurrently with the loop.
    pub(crate) fn run(&mut self, key: K, work: Assignment) {
        let hold = self.held.get(&key).map(|held| held.hold.clone());
        let is_held = hold.is_some();
        let slot = WorkerSlot::new(Arc::clone(&self.released), hold.unwrap_or_default());
        if is_held {
            // It needs no worker until its turn is known to be open.
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

    /// Retries a held attempt immediately, because its job was cancelled.
    pub(crate) fn retry_now(&mut self, key: K, now: DateTime<Utc>) {
        if let Some(held) = self.held.get_mut(&key)
            && !std::mem::replace(&mut held.is_stop_known, true)
        {
            held.until = now;
        }
    }

    /// Signals cancellation to a running attempt.
    pub(crate) fn stop(&self, key: K) {
        if let Some(running) = self.running.get(&key) {
            running.stop.cancel();
        }
    }

    /// Returns the attempts that are parked or held and need no worker meanwhile.
    pub(crate) fn parked(&self) -> HashSet<K> {
        let running = self.running.iter();
        let parked = running.filter(|(_, running)| running.slot.is_parked());
        let held = self.held.keys();
        let held = held.filter(|key| !self.running.contains_key(key));
        parked.map(|(key, _)| *key).chain(held.copied()).collect()
    }

    /// Holds an attempt that retains its lease.
    pub(crate) fn hold(&mut self, key: K, hold: Hold, now: DateTime<Utc>) {
        tracing::warn!(?key, cause = ?hold.cause, reason = hold.reason, "an attempt is held and will be tried again");
        let before = self.held.remove(&key);
        let is_stop_known = before.as_ref().is_some_and(|held| held.is_stop_known);
        let cell = before.map(|held| held.hold).unwrap_or_default();
        // An attempt that ran meanwhile starts with short delays again.
        let tries = cell.get().map_or(0, |hold| hold.tries) + 1;
        let until = hold_retry_at(&hold, tries, now);
        cell.set(Some(ActiveHold {
            cause: hold.cause,
            reason: truncate_to(hold.reason, REASON_BYTES),
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

    /// Removes the hold of an ended attempt.
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
