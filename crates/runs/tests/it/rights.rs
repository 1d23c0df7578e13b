//! Rights of callers; no caller learns whether another agent's run exists.

use serde_json::{Value, json};
use windlass_core::runs::RunStatus;
use windlass_runs::{DropReason, ListRuns, Reads, RecordOutcome, RunCaller, RunError, RunSettings};

use crate::support::{RunFixture, bound, host, outcome, turn, with_tokens};

fn cancel(run_id: &str, key: &str) -> windlass_runs::CancelRun {
    serde_json::from_value(json!({"run_id": run_id, "idempotency_key": key, "reason": "r"}))
        .unwrap()
}

/// Executes every operation on a run, and removes `run_id` from the results.
async fn everything(fixture: &RunFixture, caller: &RunCaller, run_id: &str) -> Vec<String> {
    let runs = &fixture.runs;
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
async fn runs_of_other_agents_look_like_missing_runs() {
    let fixture = RunFixture::new(with_tokens()).await;
    let owner = bound("a");
    let open = fixture.start(&owner, "a").await;
    let done = fixture.start(&owner, "a").await;
    fixture.complete(&owner, &done).await.unwrap();
    for stranger in [bound("b"), RunCaller::new()] {
        let nothing = everything(&fixture, &stranger, "00000000-0000-4000-8000-000000000000").await;
        for run_id in [&open, &done] {
            assert_eq!(everything(&fixture, &stranger, run_id).await, nothing);
        }
    }
    assert_eq!(fixture.status(&open).await, RunStatus::InProgress);
    assert_eq!(
        fixture.records(&open).await.len(),
        1,
        "nothing was recorded"
    );
}

#[tokio::test]
async fn unbound_connection_writes_only_to_its_own_runs() {
    let fixture = RunFixture::new(RunSettings::default()).await;
    let (one, other) = (RunCaller::new(), RunCaller::new());
    let run = fixture.start(&one, "x").await;
    let not_found = RecordOutcome::Dropped(DropReason::RunNotFound);
    assert_eq!(fixture.turn(&other, &run).await, not_found);
    let refused = fixture.complete(&other, &run).await.unwrap_err();
    assert_eq!(refused, RunError::UnknownRun(run.clone()));
    assert!(matches!(
        fixture.turn(&one, &run).await,
        RecordOutcome::Recorded {
            base_index: 0,
            count: 1
        }
    ));
    fixture.complete(&one, &run).await.unwrap();
}

#[tokio::test]
async fn second_connection_of_the_same_agent_may_write() {
    let fixture = RunFixture::new(with_tokens()).await;
    let (one, other) = (bound("a"), bound("a"));
    let run = fixture.start(&one, "a").await;
    assert!(matches!(
        fixture.turn(&one, &run).await,
        RecordOutcome::Recorded { base_index: 0, .. }
    ));
    assert!(matches!(
        fixture.turn(&other, &run).await,
        RecordOutcome::Recorded { base_index: 1, .. }
    ));
    assert!(matches!(
        fixture.turn(&one, &run).await,
        RecordOutcome::Recorded { base_index: 2, .. }
    ));
    fixture.complete(&other, &run).await.unwrap();
    assert_eq!(fixture.runs.open_count(), 0);
}

#[tokio::test]
async fn host_may_read_and_cancel_but_not_write() {
    let fixture = RunFixture::new(with_tokens()).await;
    let run = fixture.start(&bound("a"), "a").await;
    let host = host();
    let refused = fixture.complete(&host, &run).await.unwrap_err();
    assert_eq!(refused.reason(), "not_found");
    assert_eq!(
        fixture.turn(&host, &run).await,
        RecordOutcome::Dropped(DropReason::RunNotFound)
    );
    assert!(
        fixture
            .runs
            .trace(&host, &run, 0, None)
            .await
            .unwrap()
            .is_some()
    );
    let listed = fixture.listed(&host, ListRuns::default()).await;
    assert_eq!(listed, std::slice::from_ref(&run));
    let receipt = fixture.runs.cancel(&host, cancel(&run, "k")).await.unwrap();
    assert_eq!(receipt["status"], "cancelled_confirmed");
    assert_eq!(fixture.status(&run).await, RunStatus::Cancelled);
    let start = json!({"intent": "i", "agent_id": "a"});
    let refused = fixture.try_start(&host, start).await.unwrap_err();
    assert_eq!(refused.reason(), "not_authorized");
}

#[tokio::test]
async fn lists_and_traces_require_the_agent_or_host_unless_reads_are_open() {
    let list = |agent: &str| ListRuns {
        agent_id: Some(agent.to_owned()),
        ..ListRuns::default()
    };
    let mut settings = with_tokens();
    let fixture = RunFixture::new(settings.clone()).await;
    let run = fixture.start(&bound("a"), "a").await;
    for (caller, agent) in [
        (bound("b"), "a"),
        (RunCaller::new(), "a"),
        (RunCaller::new(), "x"),
    ] {
        let refused = fixture.runs.list(&caller, list(agent)).await.unwrap_err();
        assert_eq!(refused.reason(), "not_authorized");
    }
    let listed = fixture.listed(&bound("a"), list("a")).await;
    assert_eq!(listed, std::slice::from_ref(&run));
    assert_eq!(
        fixture.listed(&bound("a"), ListRuns::default()).await,
        [run]
    );

    settings.reads = Reads::Open;
    let fixture = RunFixture::new(settings).await;
    let run = fixture.start(&bound("a"), "a").await;
    let reader = RunCaller::new();
    let listed = fixture.listed(&reader, list("a")).await;
    assert_eq!(listed, std::slice::from_ref(&run));
    assert!(
        fixture
            .runs
            .trace(&reader, &run, 0, None)
            .await
            .unwrap()
            .is_some()
    );
    let refused = fixture.runs.list(&bound("b"), list("a")).await;
    assert!(
        refused.is_err(),
        "but not for a connection bound to another agent"
    );
}

#[tokio::test]
async fn run_ends_once() {
    let fixture = RunFixture::new(RunSettings::default()).await;
    let caller = RunCaller::new();
    let run = fixture.start(&caller, "x").await;
    fixture
        .runs
        .complete(&caller, &run, outcome("failure"))
        .await
        .unwrap();
    let second = fixture.complete(&caller, &run).await.unwrap_err();
    assert_eq!(second.reason(), "run_terminal");
    let text = second.to_string();
    let expected = format!("run `{run}` is already terminal — cannot record another outcome");
    assert!(text.starts_with(&expected), "{text}");
    let dropped = RecordOutcome::Dropped(DropReason::RunTerminal);
    assert_eq!(fixture.turn(&caller, &run).await, dropped);
    let receipt: Value = fixture
        .runs
        .cancel(&caller, cancel(&run, "k"))
        .await
        .unwrap();
    assert_eq!(receipt["status"], "already_terminal");
    assert_eq!(fixture.status(&run).await, RunStatus::Completed);
    assert_eq!(fixture.records(&run).await.len(), 2);
}

#[tokio::test]
async fn same_key_returns_the_same_receipt() {
    let fixture = RunFixture::new(RunSettings::default()).await;
    let caller = RunCaller::new();
    let run = fixture.start(&caller, "x").await;
    let first = fixture
        .runs
        .cancel(&caller, cancel(&run, "k"))
        .await
        .unwrap();
    assert_eq!(
        fixture
            .runs
            .cancel(&caller, cancel(&run, "k"))
            .await
            .unwrap(),
        first
    );
    let other = fixture
        .runs
        .cancel(&caller, cancel(&run, "other"))
        .await
        .unwrap();
    assert_eq!(other["status"], "already_terminal");
    assert!(
        !first.to_string().contains("\"r\""),
        "the reason is not stored"
    );
}
