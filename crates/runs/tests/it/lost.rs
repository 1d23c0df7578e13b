//! Lost connections and daemons: grace period, lease, fencing, recovery.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::runs::RunStatus;
use windlass_runs::{DropReason, RecordOutcome, Role, RunCaller, RunSettings};
use windlass_store::{RunLog, SqliteOptions, SqliteStore};

use crate::support::{RunFixture, bound, with_tokens};

const GRACE: Duration = Duration::from_millis(250);
const LEASE: Duration = Duration::from_secs(10);
const MOMENT: Duration = Duration::from_millis(1);

#[tokio::test]
async fn lost_run_is_incomplete_after_the_grace_period() {
    let fixture = RunFixture::new(RunSettings::default()).await;
    let caller = RunCaller::new();
    let (open, done) = (
        fixture.start(&caller, "x").await,
        fixture.start(&caller, "x").await,
    );
    fixture.complete(&caller, &done).await.unwrap();
    fixture.runs.disconnect(&caller);
    assert_eq!(fixture.runs.next_deadline(), Some(GRACE));
    fixture.clock.advance(GRACE - MOMENT);
    assert_eq!(fixture.runs.sweep().await, 0);
    assert_eq!(fixture.status(&open).await, RunStatus::InProgress);
    fixture.clock.advance(MOMENT);
    assert_eq!(fixture.runs.sweep().await, 1);
    assert_eq!(fixture.status(&open).await, RunStatus::Incomplete);
    assert_eq!(
        fixture.status(&done).await,
        RunStatus::Completed,
        "an ended run does not change"
    );
    assert_eq!(
        (fixture.runs.open_count(), fixture.runs.next_deadline()),
        (0, None)
    );
}

#[tokio::test]
async fn connection_with_resume_capability_gets_the_lease() {
    let fixture = RunFixture::new(RunSettings::default()).await;
    let caller = RunCaller {
        wants_lease: true,
        ..RunCaller::new()
    };
    let run = fixture.start(&caller, "x").await;
    fixture.runs.disconnect(&caller);
    fixture.clock.advance(LEASE - MOMENT);
    assert_eq!(fixture.runs.sweep().await, 0);
    fixture.clock.advance(MOMENT);
    assert_eq!(fixture.runs.sweep().await, 1);
    assert_eq!(fixture.status(&run).await, RunStatus::Incomplete);
}

#[tokio::test]
async fn resumed_run_cannot_be_written_by_the_previous_connection() {
    let fixture = RunFixture::new(with_tokens()).await;
    let (old, new) = (bound("a"), bound("a"));
    let run = fixture.start(&old, "a").await;
    let live = fixture.runs.resume(&new, &run).await.unwrap_err();
    assert_eq!(live.reason(), "conflict", "its connection is live");
    let stale = fixture.log.get(&run).await.unwrap().unwrap();
    fixture.runs.disconnect(&old);
    let taken = fixture.runs.resume(&new, &run).await.unwrap();
    assert_eq!(taken.resumed_from, old.client_id.to_string());
    assert_eq!(taken.client_id, new.client_id.to_string());
    assert_eq!(
        fixture.runs.resume(&new, &run).await.unwrap(),
        taken,
        "again"
    );
    let current = fixture.runs.current_run(&new.client_id);
    assert_eq!(current.as_deref(), Some(run.as_str()));
    let fenced = fixture.log.append(&stale, Vec::new()).await;
    assert!(fenced.is_err(), "an append in flight is fenced");
    fixture.clock.advance(2 * LEASE);
    assert_eq!(fixture.runs.sweep().await, 0, "the run has an owner again");
    fixture.complete(&new, &run).await.unwrap();
}

#[tokio::test]
async fn unbound_run_can_be_resumed_by_id() {
    let fixture = RunFixture::new(with_tokens()).await;
    let (old, new) = (RunCaller::new(), RunCaller::new());
    let run = fixture.start(&old, "x").await;
    fixture.runs.disconnect(&old);
    for stranger in [
        bound("a"),
        RunCaller {
            role: Role::Host,
            ..RunCaller::new()
        },
    ] {
        let refused = fixture.runs.resume(&stranger, &run).await.unwrap_err();
        assert_eq!(refused.to_string(), "run not found or not authorized");
    }
    fixture.runs.resume(&new, &run).await.unwrap();
    let dropped = RecordOutcome::Dropped(DropReason::RunNotFound);
    assert_eq!(fixture.turn(&old, &run).await, dropped);
    assert!(matches!(
        fixture.turn(&new, &run).await,
        RecordOutcome::Recorded { .. }
    ));
}

#[tokio::test]
async fn ended_or_expired_run_cannot_be_resumed() {
    let fixture = RunFixture::new(RunSettings::default()).await;
    let (old, new) = (RunCaller::new(), RunCaller::new());
    let (done, late) = (
        fixture.start(&old, "x").await,
        fixture.start(&old, "x").await,
    );
    fixture.complete(&old, &done).await.unwrap();
    fixture.runs.disconnect(&old);
    fixture.clock.advance(GRACE);
    for run in [&done, &late] {
        let refused = fixture.runs.resume(&new, run).await.unwrap_err();
        assert_eq!(refused.reason(), "conflict", "{refused}");
    }
    fixture.runs.sweep().await;
    assert_eq!(fixture.status(&late).await, RunStatus::Incomplete);
}

async fn on_disk(directory: &std::path::Path) -> (SqliteStore, Arc<dyn RunLog>) {
    let store = SqliteStore::open(SqliteOptions::new(directory))
        .await
        .unwrap();
    let log = Arc::new(store.runs());
    (store, log)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n24_after_a_restart_open_runs_wait_for_the_lease() {
    let directory = tempfile::tempdir().unwrap();
    let (store, log) = on_disk(directory.path()).await;
    let fixture = RunFixture::on(log, with_tokens()).await;
    let owner = bound("a");
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(fixture.start(&owner, "a").await);
    }
    let done = fixture.start(&owner, "a").await;
    fixture.complete(&owner, &done).await.unwrap();
    fixture.turn(&owner, &open[0]).await;
    drop(fixture);
    store.close().await;

    let (_store, log) = on_disk(directory.path()).await;
    let fixture = RunFixture::on(log, with_tokens()).await;
    assert_eq!(fixture.runs.open_count(), 3);
    let (new, stranger) = (bound("a"), bound("b"));
    let refused = fixture.runs.resume(&stranger, &open[0]).await.unwrap_err();
    assert_eq!(refused.reason(), "not_found");
    let taken = fixture.runs.resume(&new, &open[0]).await.unwrap();
    assert_eq!(taken.resumed_from, owner.client_id.to_string());
    assert!(matches!(
        fixture.turn(&new, &open[0]).await,
        RecordOutcome::Recorded { base_index: 1, .. }
    ));
    // The agent may end a run without resuming it.
    fixture.complete(&new, &open[1]).await.unwrap();
    let terminal = fixture.complete(&new, &done).await.unwrap_err();
    assert_eq!(terminal.reason(), "run_terminal", "found on disk");
    fixture.clock.advance(LEASE);
    assert_eq!(fixture.runs.sweep().await, 1);
    let mut statuses = Vec::new();
    for run in &open {
        statuses.push(fixture.status(run).await);
    }
    use RunStatus::{Completed, InProgress, Incomplete};
    assert_eq!(statuses, [InProgress, Completed, Incomplete]);
    let terminal = fixture.complete(&new, &open[2]).await.unwrap_err();
    assert!(terminal.to_string().contains("incomplete"), "{terminal}");
}

#[tokio::test]
async fn n23_old_ended_runs_are_removed_on_demand() {
    let fixture = RunFixture::new(RunSettings::default()).await;
    let caller = RunCaller::new();
    let old = fixture.start(&caller, "x").await;
    fixture.complete(&caller, &old).await.unwrap();
    let open = fixture.start(&caller, "x").await;
    fixture.clock.advance(Duration::from_secs(100));
    let young = fixture.start(&caller, "x").await;
    fixture.complete(&caller, &young).await.unwrap();
    let forgotten = fixture.runs.forget_older(Duration::from_secs(50)).await;
    assert_eq!(forgotten.unwrap(), 1);
    assert_eq!(fixture.log.get(&old).await.unwrap(), None);
    assert_eq!(fixture.status(&open).await, RunStatus::InProgress);
    assert_eq!(fixture.status(&young).await, RunStatus::Completed);
}

#[tokio::test]
async fn lost_run_of_another_writer_is_not_swept_again() {
    let fixture = RunFixture::new(RunSettings::default()).await;
    let caller = RunCaller::new();
    let run = fixture.start(&caller, "x").await;
    let stored = fixture.log.get(&run).await.unwrap().unwrap();
    fixture.log.take_over(&stored, "elsewhere").await.unwrap();
    fixture.runs.disconnect(&caller);
    fixture.clock.advance(GRACE);
    assert_eq!(fixture.runs.sweep().await, 0, "another writer owns it");
    assert_eq!(
        (fixture.runs.open_count(), fixture.runs.next_deadline()),
        (0, None),
        "an expired deadline that remains makes the sweep spin"
    );
    assert_eq!(fixture.status(&run).await, RunStatus::InProgress);
}
