//! Lost connections and daemons: grace period, lease, fencing, recovery.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::runs::RunStatus;
use windlass_runs::{Caller, Dropped, Recorded, Role, RunSettings};
use windlass_store::{RunLog, SqliteOptions, SqliteStore};

use crate::support::{World, bound, with_tokens};

const GRACE: Duration = Duration::from_millis(250);
const LEASE: Duration = Duration::from_secs(10);
const MOMENT: Duration = Duration::from_millis(1);

#[tokio::test]
async fn a_run_without_a_word_is_incomplete_after_the_grace_and_not_before() {
    let world = World::new(RunSettings::default()).await;
    let caller = Caller::new();
    let (open, done) = (
        world.start(&caller, "x").await,
        world.start(&caller, "x").await,
    );
    world.complete(&caller, &done).await.unwrap();
    world.runs.disconnect(&caller);
    assert_eq!(world.runs.next_deadline(), Some(GRACE));
    world.clock.advance(GRACE - MOMENT);
    assert_eq!(world.runs.sweep().await, 0);
    assert_eq!(world.status(&open).await, RunStatus::InProgress);
    world.clock.advance(MOMENT);
    assert_eq!(world.runs.sweep().await, 1);
    assert_eq!(world.status(&open).await, RunStatus::Incomplete);
    assert_eq!(
        world.status(&done).await,
        RunStatus::Completed,
        "an end is the end"
    );
    assert_eq!(
        (world.runs.open_count(), world.runs.next_deadline()),
        (0, None)
    );
}

#[tokio::test]
async fn a_connection_that_asked_for_it_has_the_lease() {
    let world = World::new(RunSettings::default()).await;
    let caller = Caller {
        wants_lease: true,
        ..Caller::new()
    };
    let run = world.start(&caller, "x").await;
    world.runs.disconnect(&caller);
    world.clock.advance(LEASE - MOMENT);
    assert_eq!(world.runs.sweep().await, 0);
    world.clock.advance(MOMENT);
    assert_eq!(world.runs.sweep().await, 1);
    assert_eq!(world.status(&run).await, RunStatus::Incomplete);
}

#[tokio::test]
async fn who_takes_a_run_over_has_it_and_the_one_before_can_no_longer_write() {
    let world = World::new(with_tokens()).await;
    let (old, new) = (bound("a"), bound("a"));
    let run = world.start(&old, "a").await;
    let live = world.runs.resume(&new, &run).await.unwrap_err();
    assert_eq!(live.reason(), "conflict", "its connection is there");
    let stale = world.log.get(&run).await.unwrap().unwrap();
    world.runs.disconnect(&old);
    let taken = world.runs.resume(&new, &run).await.unwrap();
    assert_eq!(taken.resumed_from, old.client_id.to_string());
    assert_eq!(taken.client_id, new.client_id.to_string());
    assert_eq!(world.runs.resume(&new, &run).await.unwrap(), taken, "again");
    let current = world.runs.current_run(&new.client_id);
    assert_eq!(current.as_deref(), Some(run.as_str()));
    let fenced = world.log.append(&stale, Vec::new()).await;
    assert!(fenced.is_err(), "what was on its way comes too late");
    world.clock.advance(2 * LEASE);
    assert_eq!(world.runs.sweep().await, 0, "it is held again");
    world.complete(&new, &run).await.unwrap();
}

#[tokio::test]
async fn an_unbound_run_can_be_taken_over_by_who_knows_its_id() {
    let world = World::new(with_tokens()).await;
    let (old, new) = (Caller::new(), Caller::new());
    let run = world.start(&old, "x").await;
    world.runs.disconnect(&old);
    for stranger in [
        bound("a"),
        Caller {
            role: Role::Host,
            ..Caller::new()
        },
    ] {
        let refused = world.runs.resume(&stranger, &run).await.unwrap_err();
        assert_eq!(refused.to_string(), "run not found or not authorized");
    }
    world.runs.resume(&new, &run).await.unwrap();
    let dropped = Recorded::Dropped(Dropped::RunNotFound);
    assert_eq!(world.turn(&old, &run).await, dropped);
    assert!(matches!(
        world.turn(&new, &run).await,
        Recorded::Kept { .. }
    ));
}

#[tokio::test]
async fn neither_an_ended_run_nor_one_whose_lease_is_over_is_taken_over() {
    let world = World::new(RunSettings::default()).await;
    let (old, new) = (Caller::new(), Caller::new());
    let (done, late) = (world.start(&old, "x").await, world.start(&old, "x").await);
    world.complete(&old, &done).await.unwrap();
    world.runs.disconnect(&old);
    world.clock.advance(GRACE);
    for run in [&done, &late] {
        let refused = world.runs.resume(&new, run).await.unwrap_err();
        assert_eq!(refused.reason(), "conflict", "{refused}");
    }
    world.runs.sweep().await;
    assert_eq!(world.status(&late).await, RunStatus::Incomplete);
}

async fn on_disk(directory: &std::path::Path) -> (SqliteStore, Arc<dyn RunLog>) {
    let store = SqliteStore::open(SqliteOptions::new(directory))
        .await
        .unwrap();
    let log = Arc::new(store.runs());
    (store, log)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n24_after_a_restart_open_runs_wait_for_their_owners_as_long_as_the_lease_is() {
    let directory = tempfile::tempdir().unwrap();
    let (store, log) = on_disk(directory.path()).await;
    let world = World::on(log, with_tokens()).await;
    let owner = bound("a");
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(world.start(&owner, "a").await);
    }
    let done = world.start(&owner, "a").await;
    world.complete(&owner, &done).await.unwrap();
    world.turn(&owner, &open[0]).await;
    drop(world);
    store.close().await;

    let (_store, log) = on_disk(directory.path()).await;
    let world = World::on(log, with_tokens()).await;
    assert_eq!(world.runs.open_count(), 3);
    let (new, stranger) = (bound("a"), bound("b"));
    let refused = world.runs.resume(&stranger, &open[0]).await.unwrap_err();
    assert_eq!(refused.reason(), "not_found");
    let taken = world.runs.resume(&new, &open[0]).await.unwrap();
    assert_eq!(taken.resumed_from, owner.client_id.to_string());
    assert!(matches!(
        world.turn(&new, &open[0]).await,
        Recorded::Kept { base_index: 1, .. }
    ));
    // The agent may end a run without resuming it.
    world.complete(&new, &open[1]).await.unwrap();
    let terminal = world.complete(&new, &done).await.unwrap_err();
    assert_eq!(terminal.reason(), "run_terminal", "found on disk");
    world.clock.advance(LEASE);
    assert_eq!(world.runs.sweep().await, 1);
    let mut statuses = Vec::new();
    for run in &open {
        statuses.push(world.status(run).await);
    }
    use RunStatus::{Completed, InProgress, Incomplete};
    assert_eq!(statuses, [InProgress, Completed, Incomplete]);
    let terminal = world.complete(&new, &open[2]).await.unwrap_err();
    assert!(terminal.to_string().contains("incomplete"), "{terminal}");
}

#[tokio::test]
async fn n23_what_ended_long_ago_is_forgotten_on_demand() {
    let world = World::new(RunSettings::default()).await;
    let caller = Caller::new();
    let old = world.start(&caller, "x").await;
    world.complete(&caller, &old).await.unwrap();
    let open = world.start(&caller, "x").await;
    world.clock.advance(Duration::from_secs(100));
    let young = world.start(&caller, "x").await;
    world.complete(&caller, &young).await.unwrap();
    let forgotten = world.runs.forget_older(Duration::from_secs(50)).await;
    assert_eq!(forgotten.unwrap(), 1);
    assert_eq!(world.log.get(&old).await.unwrap(), None);
    assert_eq!(world.status(&open).await, RunStatus::InProgress);
    assert_eq!(world.status(&young).await, RunStatus::Completed);
}

#[tokio::test]
async fn a_lost_run_of_another_writer_is_not_swept_again() {
    let world = World::new(RunSettings::default()).await;
    let caller = Caller::new();
    let run = world.start(&caller, "x").await;
    let stored = world.log.get(&run).await.unwrap().unwrap();
    world.log.take_over(&stored, "elsewhere").await.unwrap();
    world.runs.disconnect(&caller);
    world.clock.advance(GRACE);
    assert_eq!(world.runs.sweep().await, 0, "it did not end here");
    assert_eq!(
        (world.runs.open_count(), world.runs.next_deadline()),
        (0, None),
        "an expired deadline that remains makes the sweep spin"
    );
    assert_eq!(world.status(&run).await, RunStatus::InProgress);
}
