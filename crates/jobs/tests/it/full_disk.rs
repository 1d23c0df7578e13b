//! A store on a full disk still answers reads.

use windlass_jobs::fleet::{FleetTaskSpec, WorkerSpec};
use windlass_jobs::{
    Fleet, FleetPlan, FleetSettings, JobError, JobSpec, JobStore, TaskSettings, Tasks,
};
use windlass_store::MemoryJournal;
use windlass_store::conformance::{HookedJournal, JournalFaults};

use crate::support::{TestClock, task};

#[tokio::test]
async fn reads_are_answered_while_the_disk_is_full() {
    let journal = MemoryJournal::new();
    let records = journal.host_records();
    let disk = HookedJournal::<JournalFaults>::new(journal);
    let store = JobStore {
        journal: disk.clone(),
        records,
    };
    let tasks = Tasks::open(store.clone(), TestClock::new(), TaskSettings::default());
    let tasks = tasks.await.unwrap();
    let fleet = Fleet::open(store, TestClock::new(), FleetSettings::default());
    let fleet = fleet.await.unwrap();
    let plan = FleetPlan {
        name: "port".to_owned(),
        tasks: vec![FleetTaskSpec::new("t", JobSpec::new("t"))],
        workers: vec![WorkerSpec {
            worker_id: "w".to_owned(),
            role: "builder".to_owned(),
            backend: None,
        }],
        ..FleetPlan::default()
    };
    let queued = tasks.submit("a", task("first")).await.unwrap();
    let run = fleet.create("a", plan.clone(), None).await.unwrap();
    disk.set_full(true);
    // The second attempt must claim the stream again, which fails.
    for _ in 0..2 {
        let refused = tasks.submit("a", task("second")).await;
        assert!(matches!(refused, Err(JobError::Storage(_))), "{refused:?}");
        let refused = fleet.create("a", plan.clone(), None).await;
        assert!(matches!(refused, Err(JobError::Storage(_))), "{refused:?}");
    }
    assert_eq!(tasks.counts().await.unwrap().queued, 1);
    assert_eq!(tasks.get(queued.id).await.unwrap().id, queued.id);
    assert_eq!(tasks.list(None, None, 9).await.unwrap().tasks.len(), 1);
    assert_eq!(fleet.get(run.id).await.unwrap().id, run.id);
    assert_eq!(fleet.count(None).await.unwrap(), 1);
    assert_eq!(fleet.list(None, None, 9).await.unwrap().len(), 1);
    disk.set_full(false);
    tasks.submit("a", task("second")).await.unwrap();
    assert_eq!(tasks.counts().await.unwrap().queued, 2);
}
