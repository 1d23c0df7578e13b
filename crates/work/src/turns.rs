//! The loop that tasks and fleets share: what ended is recorded, what comes next is carried out, and then it sleeps until a bell
//! rings, a turn ends or a time comes. It can be dropped at any moment: what runs is found again by its ids.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::Notify;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::error::WorkError;
use crate::hands::{Assignment, Hands, TurnEnd, WorkerSlot};

/// How long something that did not work waits for the next try.
pub(crate) const TRY_AGAIN: TimeDelta = TimeDelta::seconds(1);
/// With so many panics in a row an attempt has failed.
const PANICS: u32 = 3;
/// How often it is asked how the turn of something stands that was called off.
const TRIES_ONCE_STOPPED: u32 = 30;

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

/// How long something without room waits for the second try; each later one waits twice as long, up to [`LONGEST_WAIT_FOR_ROOM`].
const FIRST_WAIT_FOR_ROOM: TimeDelta = TimeDelta::seconds(1);
/// How long something without room waits at most. Somebody may make room at any time, and nobody says so.
const LONGEST_WAIT_FOR_ROOM: TimeDelta = TimeDelta::seconds(30);

/// Returns how long something waits that found no room so many times.
pub(crate) fn wait_for_room(tries: u32) -> TimeDelta {
    let factor = 2_i32.saturating_pow(tries.saturating_sub(1).min(10));
    (FIRST_WAIT_FOR_ROOM * factor).min(LONGEST_WAIT_FOR_ROOM)
}

/// Work that is carried out in turns.
pub(crate) trait Dispatch: Sync {
    /// What tells pieces of it apart that run at the same time.
    type Key: Copy + Eq + Hash + Debug + Send + Sync;
    /// What the log calls it.
    const NAME: &'static str;

    fn clock(&self) -> &dyn Clock;

    /// Rings when there may be something to start or to stop.
    fn bell(&self) -> &Notify;

    /// Records what has ended, starts what comes next and stops what was called off. Says when to look again.
    fn step(
        &self,
        turns: &mut Turns<Self::Key>,
        now: DateTime<Utc>,
    ) -> impl Future<Output = Result<Option<DateTime<Utc>>, WorkError>> + Send;
}

/// Carries work out, for ever; ends only when another process has taken over.
pub(crate) async fn run<D: Dispatch>(work: &D, hands: Arc<dyn Hands>) -> WorkError {
    let mut turns = Turns {
        hands,
        set: JoinSet::new(),
        keys: HashMap::new(),
        carried: HashMap::new(),
        held_up: HashMap::new(),
        ends: Vec::new(),
        left: Arc::default(),
    };
    loop {
        let now = work.clock().now();
        let due = match work.step(&mut turns, now).await {
            Ok(due) => due,
            Err(WorkError::Replaced) => return WorkError::Replaced,
            Err(error) => {
                tracing::warn!(work = D::NAME, %error, "work is held up, and will be tried again");
                Some(now + TRY_AGAIN)
            }
        };
        let due = due.into_iter().chain(turns.next_try(now)).min();
        let time = async {
            match due {
                Some(due) => work.clock().wait_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(ended) = turns.set.join_next_with_id() => turns.note(ended, work.clock().now()),
            () = work.bell().notified() => {}
            () = turns.left.notified() => {}
            () = time => {}
        }
    }
}

/// The turns that are under way.
pub(crate) struct Turns<K> {
    hands: Arc<dyn Hands>,
    set: JoinSet<TurnEnd>,
    /// Which turn of the set belongs to which attempt.
    keys: HashMap<Id, (K, u32)>,
    carried: HashMap<K, Carried>,
    held_up: HashMap<K, HeldUp>,
    /// Ends that are not recorded yet: of what, of which attempt, and how.
    pub(crate) ends: Vec<(K, u32, TurnEnd)>,
    /// Rings when a turn leaves its worker to others.
    left: Arc<Notify>,
}

/// A turn that is under way.
struct Carried {
    stop: CancellationToken,
    slot: WorkerSlot,
}

/// Something that could not be carried, and is carried again later.
struct HeldUp {
    until: DateTime<Utc>,
    /// How many panics there were in a row.
    panics: u32,
    /// How many tries there were since it was called off.
    tries_once_stopped: u32,
}

impl<K: Copy + Eq + Hash + Debug> Turns<K> {
    /// Tells whether something that runs waits to be carried: an earlier process began it, or it could not be carried before.
    pub(crate) fn is_waiting(&self, key: K, now: DateTime<Utc>) -> bool {
        let is_held_up = self.held_up.get(&key).is_some_and(|held| held.until > now);
        !self.carried.contains_key(&key) && !is_held_up
    }

    /// Carries an attempt out beside the loop.
    pub(crate) fn carry(&mut self, key: K, work: Assignment) {
        let carried = Carried {
            stop: CancellationToken::new(),
            slot: WorkerSlot::new(Arc::clone(&self.left)),
        };
        let (stop, slot) = (carried.stop.clone(), carried.slot.clone());
        self.carried.insert(key, carried);
        let hands = Arc::clone(&self.hands);
        let attempt = work.attempt;
        let turn = async move { hands.carry(work, stop, slot).await };
        let turn = self.set.spawn(turn);
        self.keys.insert(turn.id(), (key, attempt));
    }

    /// Passes on that something was called off.
    pub(crate) fn stop(&self, key: K) {
        if let Some(carried) = self.carried.get(&key) {
            carried.stop.cancel();
        }
    }

    /// Returns the turns that wait for somebody and leave their workers to others meanwhile.
    pub(crate) fn parked(&self) -> HashSet<K> {
        let carried = self.carried.iter();
        let parked = carried.filter(|(_, carried)| carried.slot.is_parked());
        parked.map(|(key, _)| *key).collect()
    }

    /// Leaves something alone for a while.
    pub(crate) fn hold_up(&mut self, key: K, now: DateTime<Utc>) {
        let held = HeldUp {
            until: now + TRY_AGAIN,
            panics: 0,
            tries_once_stopped: 0,
        };
        self.held_up.insert(key, held);
    }

    fn next_try(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let times = self.held_up.values().map(|held| held.until);
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
        let carried = self.carried.remove(&key);
        let is_stopped = carried.is_some_and(|carried| carried.stop.is_cancelled());
        let held = self.held_up.remove(&key);
        let (panics, tries) = held.map_or((0, 0), |held| (held.panics, held.tries_once_stopped));
        let tries_once_stopped = tries + u32::from(is_stopped);
        let (panics, reason) = match end {
            Ok(TurnEnd::NotNow { reason }) => (0, reason),
            Ok(end) => return self.ends.push((key, attempt, end)),
            Err(error) => (panics + 1, format!("carrying it out failed: {error}")),
        };
        if panics >= PANICS {
            tracing::error!(?key, reason, "an attempt cannot be carried out");
            let may_retry = false;
            let failed = TurnEnd::Failed {
                error: reason,
                may_retry,
            };
            return self.ends.push((key, attempt, failed));
        }
        if tries_once_stopped >= TRIES_ONCE_STOPPED {
            tracing::error!(
                ?key,
                reason,
                "nobody knows how a turn ended that was stopped"
            );
            let reason =
                format!("it was called off, and how its turn ended is not known: {reason}");
            let interrupted = TurnEnd::Interrupted { reason };
            return self.ends.push((key, attempt, interrupted));
        }
        tracing::warn!(?key, reason, "an attempt is carried again in a while");
        let held = HeldUp {
            until: now + TRY_AGAIN,
            panics,
            tries_once_stopped,
        };
        self.held_up.insert(key, held);
    }
}
