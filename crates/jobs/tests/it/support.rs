//! A manual clock, stores that survive kills, and threads that outlive both.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use windlass_core::events::{Event, EventData};
use windlass_core::items::UnapprovedCalls;
use windlass_core::typed_id::TurnId;
use windlass_core::{Clock, ManualClock, Sleep};
use windlass_jobs::tasks::TaskEvent;
use windlass_jobs::{
    Assignment, EndedTurn, HeldTurn, Hold, HoldCause, JobSpec, JobStore, NewTask, Task, TaskId,
    TurnEnd, TurnOutcome, TurnRunner, WorkerSlot,
};
use windlass_store::{
    HostRecord, HostRecords, MemoryJournal, SqliteError, SqliteOptions, SqliteStore,
};

/// A manual clock that can also jump to the time of each sleep.
pub(crate) struct TestClock {
    manual: ManualClock,
    jumps: bool,
}

impl TestClock {
    pub(crate) fn at(now: DateTime<Utc>) -> Arc<Self> {
        let manual = ManualClock::at(now);
        let jumps = false;
        Arc::new(Self { manual, jumps })
    }

    /// Creates a clock on which every sleep ends immediately.
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

impl Clock for TestClock {
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
            // A read of the killed store is still running.
            Err(SqliteError::Locked { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Folds the records of the task stream into tasks, independently of the rows.
pub(crate) fn fold_tasks(events: &[Arc<Event>]) -> BTreeMap<TaskId, Task> {
    let mut tasks: BTreeMap<TaskId, Task> = BTreeMap::new();
    for event in events {
        let EventData::Custom(custom) = &event.data else {
            panic!("unexpected record in a job stream");
        };
        let id: TaskId = custom.payload["task_id"].as_str().unwrap().parse().unwrap();
        let change: TaskEvent = serde_json::from_value(custom.payload.clone()).unwrap();
        match tasks.get_mut(&id) {
            Some(task) => task.evolve(event.ts, &change),
            None => drop(tasks.insert(id, Task::begin(id, event.ts, &change).unwrap())),
        }
    }
    tasks
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

/// An attempt that cannot run now and whose turn may be open.
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
    turns: Mutex<HashMap<TurnId, TestTurn>>,
    changed: watch::Sender<u64>,
}

#[derive(Clone, Default)]
pub(crate) struct TestTurn {
    /// Number of starts; more than one is an error.
    pub(crate) starts: u32,
    pub(crate) work: Option<Assignment>,
    pub(crate) is_stopped: bool,
    /// Whether it is parked.
    pub(crate) is_parked: bool,
    pub(crate) end: Option<TurnEnd>,
}

impl Threads {
    fn change<T>(&self, turn: TurnId, change: impl FnOnce(&mut TestTurn) -> T) -> T {
        let changed = change(self.turns.lock().unwrap().entry(turn).or_default());
        self.changed.send_modify(|count| *count += 1);
        changed
    }

    pub(crate) fn all(&self) -> Vec<TestTurn> {
        self.turns.lock().unwrap().values().cloned().collect()
    }

    /// Waits until `found` returns a value.
    pub(crate) async fn until<T>(&self, mut found: impl FnMut(&[TestTurn]) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        loop {
            if let Some(found) = found(&self.all()) {
                return found;
            }
            changed.changed().await.unwrap();
        }
    }

    /// Waits for an open turn of that prompt.
    pub(crate) async fn begun(&self, prompt: &str) -> TestTurn {
        self.until(|turns| {
            let is_it = |turn: &&TestTurn| {
                turn.end.is_none() && turn.work.as_ref().is_some_and(|w| w.spec.prompt == prompt)
            };
            turns.iter().find(is_it).cloned()
        })
        .await
    }

    /// Parks or resumes the open turn of that prompt.
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

    /// Ends a turn, unless it has ended.
    pub(crate) fn end_turn_once(&self, turn: TurnId, end: TurnEnd) {
        self.change(turn, |turn| {
            turn.end.get_or_insert(end);
        });
    }

    /// Ends a turn, replacing an earlier end.
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
                turn.starts += 1;
                turn.work = Some(work);
            }
        });
        let ended = self.until(|_| {
            if self.is_parked(id) {
                slot.park()
            } else {
                slot.unpark()
            }
            self.end_of(id)
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

    fn end_of(&self, id: TurnId) -> Option<TurnEnd> {
        self.turns.lock().unwrap().get(&id)?.end.clone()
    }
}

/// A store of rows that counts reads.
pub(crate) struct CountedRecords {
    records: Arc<dyn HostRecords>,
    reads: AtomicUsize,
}

impl CountedRecords {
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

type StoreResult<T> = windlass_core::error::Result<T>;

#[async_trait]
impl HostRecords for CountedRecords {
    async fn get(&self, kind: &'static str, name: &str) -> StoreResult<Option<HostRecord>> {
        self.count().get(kind, name).await
    }

    async fn list(&self, kind: &'static str) -> StoreResult<Vec<HostRecord>> {
        self.count().list(kind).await
    }

    async fn page(
        &self,
        kind: &'static str,
        before: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<HostRecord>> {
        self.count().page(kind, before, limit).await
    }

    async fn put_all(
        &self,
        records: Vec<(&'static str, HostRecord)>,
        at: DateTime<Utc>,
    ) -> StoreResult<()> {
        self.records.put_all(records, at).await
    }

    async fn add(
        &self,
        kind: &'static str,
        record: HostRecord,
        at: DateTime<Utc>,
    ) -> StoreResult<bool> {
        self.records.add(kind, record, at).await
    }

    async fn remove(&self, kind: &'static str, name: &str) -> StoreResult<bool> {
        self.records.remove(kind, name).await
    }

    async fn trim(
        &self,
        kind: &'static str,
        before: DateTime<Utc>,
        newest: usize,
    ) -> StoreResult<usize> {
        self.records.trim(kind, before, newest).await
    }
}

/// Turn runners that never finish an attempt.
pub(crate) enum StuckRunner {
    Panics,
    Holds,
}

#[async_trait]
impl TurnRunner for StuckRunner {
    async fn run_attempt(&self, _: Assignment, _: CancellationToken, _: WorkerSlot) -> TurnEnd {
        match self {
            Self::Panics => panic!("ouch"),
            Self::Holds => held("never"),
        }
    }
}

/// Deterministic pseudo-random numbers.
pub(crate) struct TestRandom(pub(crate) u64);

impl TestRandom {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Stops a concurrent task at any await, as a kill would.
pub(crate) async fn kill<T>(running: tokio::task::JoinHandle<T>) {
    running.abort();
    let _ = running.await;
}

/// Threads with a limit that can be reached.
#[derive(Default)]
pub(crate) struct LimitedThreads {
    pub(crate) threads: Threads,
    pub(crate) has_free_thread: std::sync::atomic::AtomicBool,
    /// Number of attempts.
    pub(crate) tries: AtomicUsize,
}

#[async_trait]
impl TurnRunner for LimitedThreads {
    async fn run_attempt(
        &self,
        work: Assignment,
        stop: CancellationToken,
        slot: WorkerSlot,
    ) -> TurnEnd {
        self.tries.fetch_add(1, Ordering::SeqCst);
        if self.has_free_thread.load(Ordering::SeqCst) {
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
