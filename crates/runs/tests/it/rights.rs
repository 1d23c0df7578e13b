//! Rights of callers; no caller learns whether another agent's run exists.

use serde_json::{Value, json};
use windlass_core::runs::RunStatus;
use windlass_runs::{Caller, Dropped, ListRuns, Reads, Recorded, RunError, RunSettings};

use crate::support::{World, bound, host, outcome, turn, with_tokens};

fn cancel(run_id: &str, key: &str) -> windlass_runs::CancelRun {
    serde_json::from_value(json!({"run_id": run_id, "idempotency_key": key, "reason": "r"}))
        .unwrap()
}

/// Executes every operation on a run, and removes `run_id` from the results.
async fn everything(world: &World, caller: &Caller, run_id: &str) -> Vec<String> {
    let runs = &world.runs;
    let answers = [
        format!(
            "{:?}",
            runs.complete(caller, run_id, outcome("success")).await
        ),
        format!(
            "{:?}",
            runs.record_turns(caller, run_id, vec![turn("t")]).await
        ),
        format!("{:?}", runs.cancel(caller, cancel(run_id, "k")).await),
        format!("{:?}", runs.resume(caller, run_id).await),
        format!("{:?}", runs.trace(caller, run_id, 0, None).await),
        format!(
            "{:?}",
            runs.subscribe(caller, run_id)
                .await
                .map(|found| found.is_some())
        ),
        format!(
            "{:?}",
            runs.subscribe_paged(caller, run_id, 0, None)
                .await
                .map(|found| found.is_some())
        ),
    ];
    answers.map(|answer| answer.replace(run_id, "ID")).to_vec()
}

#[tokio::test]
async fn a_foreign_run_and_one_that_does_not_exist_are_answered_alike() {
    let world = World::new(with_tokens()).await;
    let owner = bound("a");
    let open = world.start(&owner, "a").await;
    let done = world.start(&owner, "a").await;
    world.complete(&owner, &done).await.unwrap();
    for stranger in [bound("b"), Caller::new()] {
        let nothing = everything(&world, &stranger, "00000000-0000-4000-8000-000000000000").await;
        for run_id in [&open, &done] {
            assert_eq!(everything(&world, &stranger, run_id).await, nothing);
        }
    }
    assert_eq!(world.status(&open).await, RunStatus::InProgress);
    assert_eq!(world.records(&open).await.len(), 1, "and nothing happened");
}

#[tokio::test]
async fn an_unbound_connection_writes_only_to_what_it_started() {
    let world = World::new(RunSettings::default()).await;
    let (one, other) = (Caller::new(), Caller::new());
    let run = world.start(&one, "x").await;
    let not_found = Recorded::Dropped(Dropped::RunNotFound);
    assert_eq!(world.turn(&other, &run).await, not_found);
    let refused = world.complete(&other, &run).await.unwrap_err();
    assert_eq!(refused, RunError::UnknownRun(run.clone()));
    assert!(matches!(
        world.turn(&one, &run).await,
        Recorded::Kept {
            base_index: 0,
            count: 1
        }
    ));
    world.complete(&one, &run).await.unwrap();
}

#[tokio::test]
async fn a_second_connection_of_the_same_agent_may_write_too() {
    let world = World::new(with_tokens()).await;
    let (one, other) = (bound("a"), bound("a"));
    let run = world.start(&one, "a").await;
    assert!(matches!(
        world.turn(&one, &run).await,
        Recorded::Kept { base_index: 0, .. }
    ));
    assert!(matches!(
        world.turn(&other, &run).await,
        Recorded::Kept { base_index: 1, .. }
    ));
    assert!(matches!(
        world.turn(&one, &run).await,
        Recorded::Kept { base_index: 2, .. }
    ));
    world.complete(&other, &run).await.unwrap();
    assert_eq!(world.runs.open_count(), 0);
}

#[tokio::test]
async fn the_host_reads_everything_and_calls_off_but_does_not_write() {
    let world = World::new(with_tokens()).await;
    let run = world.start(&bound("a"), "a").await;
    let host = host();
    let refused = world.complete(&host, &run).await.unwrap_err();
    assert_eq!(refused.reason(), "not_found");
    assert_eq!(
        world.turn(&host, &run).await,
        Recorded::Dropped(Dropped::RunNotFound)
    );
    assert!(
        world
            .runs
            .trace(&host, &run, 0, None)
            .await
            .unwrap()
            .is_some()
    );
    let listed = world.listed(&host, ListRuns::default()).await;
    assert_eq!(listed, std::slice::from_ref(&run));
    let receipt = world.runs.cancel(&host, cancel(&run, "k")).await.unwrap();
    assert_eq!(receipt["status"], "cancelled_confirmed");
    assert_eq!(world.status(&run).await, RunStatus::Cancelled);
    let start = json!({"intent": "i", "agent_id": "a"});
    let refused = world.try_start(&host, start).await.unwrap_err();
    assert_eq!(refused.reason(), "not_authorized");
}

#[tokio::test]
async fn lists_and_traces_are_for_the_agent_and_the_host_unless_reading_is_open() {
    let list = |agent: &str| ListRuns {
        agent_id: Some(agent.to_owned()),
        ..ListRuns::default()
    };
    let mut settings = with_tokens();
    let world = World::new(settings.clone()).await;
    let run = world.start(&bound("a"), "a").await;
    for (caller, agent) in [
        (bound("b"), "a"),
        (Caller::new(), "a"),
        (Caller::new(), "x"),
    ] {
        let refused = world.runs.list(&caller, list(agent)).await.unwrap_err();
        assert_eq!(refused.reason(), "not_authorized");
    }
    let listed = world.listed(&bound("a"), list("a")).await;
    assert_eq!(listed, std::slice::from_ref(&run));
    assert_eq!(world.listed(&bound("a"), ListRuns::default()).await, [run]);

    settings.reads = Reads::Open;
    let world = World::new(settings).await;
    let run = world.start(&bound("a"), "a").await;
    let reader = Caller::new();
    let listed = world.listed(&reader, list("a")).await;
    assert_eq!(listed, std::slice::from_ref(&run));
    assert!(
        world
            .runs
            .trace(&reader, &run, 0, None)
            .await
            .unwrap()
            .is_some()
    );
    let refused = world.runs.list(&bound("b"), list("a")).await;
    assert!(refused.is_err(), "but not to one that is bound to another");
}

#[tokio::test]
async fn a_run_has_one_end() {
    let world = World::new(RunSettings::default()).await;
    let caller = Caller::new();
    let run = world.start(&caller, "x").await;
    world
        .runs
        .complete(&caller, &run, outcome("failure"))
        .await
        .unwrap();
    let second = world.complete(&caller, &run).await.unwrap_err();
    assert_eq!(second.reason(), "run_terminal");
    let text = second.to_string();
    let expected = format!("run `{run}` is already terminal — cannot record another outcome");
    assert!(text.starts_with(&expected), "{text}");
    let dropped = Recorded::Dropped(Dropped::RunTerminal);
    assert_eq!(world.turn(&caller, &run).await, dropped);
    let receipt: Value = world.runs.cancel(&caller, cancel(&run, "k")).await.unwrap();
    assert_eq!(receipt["status"], "already_terminal");
    assert_eq!(world.status(&run).await, RunStatus::Completed);
    assert_eq!(world.records(&run).await.len(), 2);
}

#[tokio::test]
async fn the_same_key_gets_the_same_receipt() {
    let world = World::new(RunSettings::default()).await;
    let caller = Caller::new();
    let run = world.start(&caller, "x").await;
    let first = world.runs.cancel(&caller, cancel(&run, "k")).await.unwrap();
    assert_eq!(
        world.runs.cancel(&caller, cancel(&run, "k")).await.unwrap(),
        first
    );
    let other = world
        .runs
        .cancel(&caller, cancel(&run, "other"))
        .await
        .unwrap();
    assert_eq!(other["status"], "already_terminal");
    assert!(
        !first.to_string().contains("\"r\""),
        "the reason is not kept"
    );
}
