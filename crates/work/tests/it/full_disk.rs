//! A store to which nothing can be written any more: what is known is still told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::events::Event;
use windlass_store::{
    Batch, Claim, FeedPage, Journal, JournalError, MemoryJournal, Page, StreamKey, StreamStatus,
};
use windlass_work::fleet::{FleetTaskSpec, WorkerSpec};
use windlass_work::{
    Fleet, FleetPlan, FleetSettings, TaskSettings, Tasks, WorkError, WorkSpec, WorkStore,
};

use crate::support::{Moved, task};

/// A journal on a disk that may be full.
struct Disk {
    journal: MemoryJournal,
    is_full: AtomicBool,
}

impl Disk {
    fn check(&self) -> Result<(), JournalError> {
        match self.is_full.load(Ordering::SeqCst) {
            true => Err(JournalError::Unavailable("the disk is full".to_owned())),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Journal for Disk {
    async fn claim(&self, stream: &StreamKey) -> Result<Claim, JournalError> {
        self.check()?;
        self.journal.claim(stream).await
    }
    async fn append(&self, claim: &Claim, batch: Batch) -> Result<(), JournalError> {
        self.check()?;
        self.journal.append(claim, batch).await
    }
    async fn read(
        &self,
        stream: &StreamKey,
        after: u64,
        limit: usize,
    ) -> Result<Page, JournalError> {
        self.journal.read(stream, after, limit).await
    }
    async fn read_after(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<FeedPage, JournalError> {
        self.journal.read_after(cursor, limit).await
    }
    fn watch_all(&self) -> watch::Receiver<u64> {
        self.journal.watch_all()
    }
    async fn watch(&self, stream: &StreamKey) -> Result<watch::Receiver<u64>, JournalError> {
        self.journal.watch(stream).await
    }
    async fn open(
        &self,
        after: Option<&StreamKey>,
        limit: usize,
    ) -> Result<Vec<StreamKey>, JournalError> {
        self.journal.open(after, limit).await
    }
    async fn standing(&self, stream: &StreamKey) -> Result<StreamStatus, JournalError> {
        self.journal.standing(stream).await
    }
    async fn fork(
        &self,
        parent: &StreamKey,
        at_seq: u64,
        child: &StreamKey,
        forked: Event,
    ) -> Result<u64, JournalError> {
        self.journal.fork(parent, at_seq, child, forked).await
    }
    async fn remove(&self, stream: &StreamKey) -> Result<bool, JournalError> {
        self.journal.remove(stream).await
    }
}

#[tokio::test]
async fn what_is_known_is_told_while_nothing_can_be_written() {
    let journal = MemoryJournal::new();
    let records = journal.host_records();
    let disk = Arc::new(Disk {
        journal,
        is_full: AtomicBool::new(false),
    });
    let store = WorkStore {
        journal: disk.clone(),
        records,
    };
    let tasks = Tasks::open(store.clone(), Moved::new(), TaskSettings::default());
    let tasks = tasks.await.unwrap();
    let fleet = Fleet::open(store, Moved::new(), FleetSettings::default());
    let fleet = fleet.await.unwrap();
    let plan = FleetPlan {
        name: "port".to_owned(),
        tasks: vec![FleetTaskSpec::new("t", WorkSpec::new("t"))],
        workers: vec![WorkerSpec {
            worker_id: "w".to_owned(),
            role: "builder".to_owned(),
            backend: None,
        }],
        ..FleetPlan::default()
    };
    let queued = tasks.submit("a", task("first")).await.unwrap();
    let run = fleet.create("a", plan.clone(), None).await.unwrap();
    disk.is_full.store(true, Ordering::SeqCst);
    // The second one has to claim the stream again, and cannot.
    for _ in 0..2 {
        let refused = tasks.submit("a", task("second")).await;
        assert!(matches!(refused, Err(WorkError::Storage(_))), "{refused:?}");
        let refused = fleet.create("a", plan.clone(), None).await;
        assert!(matches!(refused, Err(WorkError::Storage(_))), "{refused:?}");
    }
    assert_eq!(tasks.counts().await.unwrap().queued, 1);
    assert_eq!(tasks.get(queued.id).await.unwrap().id, queued.id);
    assert_eq!(tasks.list(None, None, 9).await.unwrap().tasks.len(), 1);
    assert_eq!(fleet.get(run.id).await.unwrap().id, run.id);
    assert_eq!(fleet.count(None).await.unwrap(), 1);
    assert_eq!(fleet.list(None, None, 9).await.unwrap().len(), 1);
    disk.is_full.store(false, Ordering::SeqCst);
    tasks.submit("a", task("second")).await.unwrap();
    assert_eq!(tasks.counts().await.unwrap().queued, 2);
}
