//! A clock that is moved, a store that is killed, and threads that outlive both.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use windlass_core::items::UnapprovedCalls;
use windlass_core::typed_id::TurnId;
use windlass_core::{Clock, ManualClock, Sleep};
use windlass_jobs::{
    Assignment, EndedTurn, HeldTurn, Hold, HoldCause, JobSpec, JobStore, NewTask, TurnEnd,
    TurnOutcome, TurnRunner, WorkerSlot,
};
use windlass_store::{
    HostRecord, HostRecords, MemoryJournal, SqliteError, SqliteOptions, SqliteStore,
};

/// A manual clock that can also jump to whichever time is waited for.
pub(crate) struct Moved {
    manual: ManualClock,
    jumps: bool,
}

impl Moved {
    pub(crate) fn at(now: DateTime<Utc>) -> Arc<Self> {
        let manual = ManualClock::at(now);
        let jumps = false;
        Arc::new(Self { manual, jumps })
    }

    /// Makes a clock on which nothing waits.
    pub(crate) fn jumping() -> Arc<Self> {
        let manual = ManualClock::at(time("2026-03-01T00:00:00Z"));
        let jumps = true;
        Arc::new(Self { manual, jumps })
    }

    pub(crate) fn new() -> Arc<Self> {
        Self::at(time("2026-03-01T00:00:00Z"))
    }

    pub(crate) fn by(&self, seconds: i64) {
        self.to(self.now() + TimeDelta::seconds(seconds));
    }

    pub(crate) fn to(&self, time: DateTime<Utc>) {
        self.manual.set(time);
    }
}

impl Clock for Moved {
    fn now(&self) -> DateTime<Utc> {
        self.manual.now()
    }

    fn elapsed(&self) -> Duration {
        self.manual.elapsed()
    }

    fn uuid(&self) -> Uuid {
        self.manual.uuid()
    }

    fn sleep(&self, span: Duration) -> Sleep {
        self.manual.sleep(span)
    }

    fn sleep_until(&self, at: DateTime<Utc>) -> Sleep {
        if self.jumps {
            self.to(at.max(self.now()));
        }
        self.manual.sleep_until(at)
    }
}

pub(crate) fn time(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

pub(crate) fn memory() -> JobStore {
    let journal = Arc::new(MemoryJournal::new());
    JobStore {
        records: journal.host_records(),
        journal,
    }
}

pub(crate) async fn sqlite(directory: &Path) -> JobStore {
    loop {
        match SqliteStore::open(SqliteOptions::new(directory)).await {
            Ok(store) => {
                return JobStore {
                    journal: Arc::new(store.journal()),
                    records: Arc::new(store.host_records()),
                };
            }
            // A read of the one that was killed is still on its way.
            Err(SqliteError::Locked { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}

pub(crate) fn task(prompt: &str) -> NewTask {
    NewTask::new(JobSpec::new(prompt))
}

fn ended(outcome: TurnOutcome) -> TurnEnd {
    TurnEnd::Ended(EndedTurn {
        outcome,
        unapproved: UnapprovedCalls::default(),
    })
}

pub(crate) fn done(summary: &str) -> TurnEnd {
    ended(TurnOutcome::Completed {
        summary: summary.to_owned(),
    })
}

pub(crate) fn failed(error: &str) -> TurnEnd {
    ended(TurnOutcome::Failed {
        error: error.to_owned(),
        budget_renews_at: None,
    })
}

/// A turn that a budget stopped until a time.
pub(crate) fn stopped_by_budget(renews_at: DateTime<Utc>) -> TurnEnd {
    ended(TurnOutcome::Failed {
        error: "the day's budget is used up".to_owned(),
        budget_renews_at: Some(renews_at),
    })
}

pub(crate) fn interrupted(reason: &str) -> TurnEnd {
    ended(TurnOutcome::Interrupted {
        reason: reason.to_owned(),
    })
}

/// An attempt whose turn may be open and cannot run now.
pub(crate) fn held(reason: &str) -> TurnEnd {
    TurnEnd::Held(Hold {
        cause: HoldCause::Configuration,
        reason: reason.to_owned(),
        until: None,
        turn: HeldTurn::MayBeOpen,
    })
}

/// The threads of a daemon: they outlive the process, as their journal does.
#[derive(Default)]
pub(crate) struct Threads {
    turns: Mutex<HashMap<TurnId, Turn>>,
    changed: watch::Sender<u64>,
}

#[derive(Clone, Default)]
pub(crate) struct Turn {
    /// How often it was begun: once, or something is wrong.
    pub(crate) begun: u32,
    pub(crate) work: Option<Assignment>,
    pub(crate) is_stopped: bool,
    /// Whether it waits for somebody.
    pub(crate) is_parked: bool,
    pub(crate) end: Option<TurnEnd>,
}

impl Threads {
    fn change<T>(&self, turn: TurnId, change: impl FnOnce(&mut Turn) -> T) -> T {
        let changed = change(self.turns.lock().unwrap().entry(turn).or_default());
        self.changed.send_modify(|count| *count += 1);
        changed
    }

    pub(crate) fn all(&self) -> Vec<Turn> {
        self.turns.lock().unwrap().values().cloned().collect()
    }

    /// Waits until something holds.
    pub(crate) async fn until<T>(&self, mut found: impl FnMut(&[Turn]) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        loop {
            if let Some(found) = found(&self.all()) {
                return found;
            }
            changed.changed().await.unwrap();
        }
    }

    /// Waits for an open turn of that prompt.
    pub(crate) async fn begun(&self, prompt: &str) -> Turn {
        self.until(|turns| {
            let is_it = |turn: &&Turn| {
                turn.end.is_none() && turn.work.as_ref().is_some_and(|w| w.spec.prompt == prompt)
            };
            turns.iter().find(is_it).cloned()
        })
        .await
    }

    /// Lets the open turn of that prompt wait for somebody, or go on.
    pub(crate) async fn park(&self, prompt: &str, is_parked: bool) {
        let turn = self.begun(prompt).await.work.unwrap().turn_id;
        self.park_turn(turn, is_parked);
    }

    pub(crate) fn park_turn(&self, turn: TurnId, is_parked: bool) {
        self.change(turn, |turn| turn.is_parked = is_parked);
    }

    /// Ends the open turn of that prompt.
    pub(crate) async fn end(&self, prompt: &str, end: TurnEnd) {
        let turn = self.begun(prompt).await.work.unwrap().turn_id;
        self.change(turn, |turn| turn.end = Some(end));
    }

    /// Ends a turn, unless it has its end.
    pub(crate) fn end_turn_once(&self, turn: TurnId, end: TurnEnd) {
        self.change(turn, |turn| {
            turn.end.get_or_insert(end);
        });
    }

    /// Ends a turn, whatever was said of its end before.
    pub(crate) fn end_turn(&self, turn: TurnId, end: TurnEnd) {
        self.change(turn, |turn| turn.end = Some(end));
    }
}

#[async_trait]
impl TurnRunner for Threads {
    async fn run_attempt(
        &self,
        work: Assignment,
        stop: CancellationToken,
        slot: WorkerSlot,
    ) -> TurnEnd {
        let id = work.turn_id;
        self.change(id, |turn| {
            if turn.work.is_none() {
                turn.begun += 1;
                turn.work = Some(work);
            }
        });
        let ended = self.until(|_| {
            if self.is_parked(id) {
                slot.park()
            } else {
                slot.go_on()
            }
            self.change_quietly(id)
        });
        tokio::select! {
            end = ended => return end,
            () = stop.cancelled() => {}
        }
        self.change(id, |turn| {
            turn.is_stopped = true;
            turn.end.get_or_insert(interrupted("stopped")).clone()
        })
    }
}

impl Threads {
    fn is_parked(&self, id: TurnId) -> bool {
        let turns = self.turns.lock().unwrap();
        turns.get(&id).is_some_and(|turn| turn.is_parked)
    }

    fn change_quietly(&self, id: TurnId) -> Option<TurnEnd> {
        self.turns.lock().unwrap().get(&id)?.end.clone()
    }
}

/// Rows whose reads are counted.
pub(crate) struct Counted {
    records: Arc<dyn HostRecords>,
    reads: AtomicUsize,
}

impl Counted {
    pub(crate) fn new(records: Arc<dyn HostRecords>) -> Self {
        let reads = AtomicUsize::new(0);
        Self { records, reads }
    }

    pub(crate) fn reads(&self) -> usize {
        self.reads.load(Ordering::Relaxed)
    }

    fn count(&self) -> &dyn HostRecords {
        self.reads.fetch_add(1, Ordering::Relaxed);
        &*self.records
    }
}

type Stored<T> = windlass_core::error::Result<T>;

#[async_trait]
impl HostRecords for Counted {
    async fn get(&self, kind: &'static str, name: &str) -> Stored<Option<HostRecord>> {
        self.count().get(kind, name).await
    }

    async fn list(&self, kind: &'static str) -> Stored<Vec<HostRecord>> {
        self.count().list(kind).await
    }

    async fn page(
        &self,
        kind: &'static str,
        before: Option<&str>,
        limit: usize,
    ) -> Stored<Vec<HostRecord>> {
        self.count().page(kind, before, limit).await
    }

    async fn put_all(
        &self,
        records: Vec<(&'static str, HostRecord)>,
        at: DateTime<Utc>,
    ) -> Stored<()> {
        self.records.put_all(records, at).await
    }

    async fn add(&self, kind: &'static str, record: HostRecord, at: DateTime<Utc>) -> Stored<bool> {
        self.records.add(kind, record, at).await
    }

    async fn remove(&self, kind: &'static str, name: &str) -> Stored<bool> {
        self.records.remove(kind, name).await
    }

    async fn trim(
        &self,
        kind: &'static str,
        before: DateTime<Utc>,
        newest: usize,
    ) -> Stored<usize> {
        self.records.trim(kind, before, newest).await
    }
}

/// TurnRunner that never carry anything out.
pub(crate) enum Stubborn {
    Panics,
    Holds,
}

#[async_trait]
impl TurnRunner for Stubborn {
    async fn run_attempt(&self, _: Assignment, _: CancellationToken, _: WorkerSlot) -> TurnEnd {
        match self {
            Self::Panics => panic!("ouch"),
            Self::Holds => held("never"),
        }
    }
}

/// Numbers that look random and are the same every time.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Stops a future that runs beside the test, as a kill would: at whichever await it is.
pub(crate) async fn kill<T>(running: tokio::task::JoinHandle<T>) {
    running.abort();
    let _ = running.await;
}

/// Threads that there is room for, or not.
#[derive(Default)]
pub(crate) struct Rooms {
    pub(crate) threads: Threads,
    pub(crate) has_room: std::sync::atomic::AtomicBool,
    /// How often somebody asked for room.
    pub(crate) asked: AtomicUsize,
}

#[async_trait]
impl TurnRunner for Rooms {
    async fn run_attempt(
        &self,
        work: Assignment,
        stop: CancellationToken,
        slot: WorkerSlot,
    ) -> TurnEnd {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.has_room.load(Ordering::SeqCst) {
            return self.threads.run_attempt(work, stop, slot).await;
        }
        TurnEnd::Held(Hold {
            cause: HoldCause::NoRoom,
            reason: "the limit of 3 threads is reached".to_owned(),
            until: None,
            turn: HeldTurn::NotBegun,
        })
    }
}
