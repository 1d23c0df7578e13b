//! Starting runs: their owners and their IDs.

use serde_json::{Value, json};
use windlass_core::runs::RunStatus;
use windlass_runs::{Caller, RunSettings};

use crate::support::{World, bound, with_tokens};

#[tokio::test]
async fn two_starts_have_different_ids_and_the_last_one_is_current() {
    let world = World::new(RunSettings::default()).await;
    let caller = Caller::new();
    let first = world.start(&caller, "a").await;
    let second = world.start(&caller, "a").await;
    assert_ne!(first, second);
    assert_eq!(uuid::Uuid::parse_str(&first).unwrap().get_version_num(), 4);
    let current = || world.runs.current_run(&caller.client_id);
    assert_eq!(current().as_deref(), Some(second.as_str()));
    world.complete(&caller, &first).await.unwrap();
    assert_eq!(
        current().as_deref(),
        Some(second.as_str()),
        "another one's end does not clear it"
    );
    world.complete(&caller, &second).await.unwrap();
    assert_eq!(current(), None);
}

#[tokio::test]
async fn the_agent_is_the_bound_one_the_given_one_the_configured_one_or_made_of_the_name() {
    let mut settings = with_tokens();
    let cases = [
        (Caller::new(), None, json!({"agent_id": " x "}), Ok("x")),
        (
            Caller::new(),
            Some("env"),
            json!({"agent_id": "x", "agent_name": "N"}),
            Ok("x"),
        ),
        (
            Caller::new(),
            Some("env"),
            json!({"agent_id": " ", "agent_name": "N"}),
            Ok("env"),
        ),
        (
            Caller::new(),
            Some(" "),
            json!({"agent_name": "Bulldozer Agent"}),
            Ok("name:bulldozer-agent"),
        ),
        (
            Caller::new(),
            None,
            json!({"agent_name": "!!!"}),
            Err("no_agent"),
        ),
        (Caller::new(), None, json!({}), Err("no_agent")),
        (
            Caller::new(),
            None,
            json!({"agent_id": "a"}),
            Err("not_authorized"),
        ),
        (Caller::new(), Some("a"), json!({}), Err("not_authorized")),
        (bound("a"), Some("env"), json!({"agent_name": "N"}), Ok("a")),
        (bound("a"), None, json!({"agent_id": "a"}), Ok("a")),
        (bound("a"), None, json!({"agent_id": ""}), Ok("a")),
        (
            bound("a"),
            None,
            json!({"agent_id": "b"}),
            Err("agent_mismatch"),
        ),
        (
            bound("a"),
            None,
            json!({"agent_id": "x"}),
            Err("agent_mismatch"),
        ),
    ];
    for (caller, configured, mut start, expected) in cases {
        settings.agents.default_agent = configured.map(str::to_owned);
        let world = World::new(settings.clone()).await;
        start["intent"] = json!("work");
        let found = world.try_start(&caller, start.clone()).await;
        let found = found
            .as_ref()
            .map(|started| started.agent_id.as_str())
            .map_err(windlass_runs::RunError::reason);
        assert_eq!(found, expected, "{:?} {start}", caller.role);
        if expected.is_err() {
            assert_eq!(world.runs.open_count(), 0, "nothing is recorded");
        }
    }
}

#[tokio::test]
async fn a_key_stands_for_one_run() {
    let world = World::new(RunSettings::default()).await;
    let (one, other) = (Caller::new(), Caller::new());
    let with = |agent: &str, intent: &str| json!({"intent": intent, "agent_id": agent, "idempotency_key": "k:1"});
    let first = world.try_start(&one, with("a", "work")).await.unwrap();
    assert_eq!((first.run_id.as_str(), first.existing), ("k:1", None));
    for (agent, intent) in [("b", "work"), ("a", "other work")] {
        let conflict = world.try_start(&one, with(agent, intent)).await;
        let conflict = conflict.unwrap_err();
        assert_eq!(conflict.reason(), "conflict");
        let said = conflict.to_string();
        assert!(
            !said.contains("agent") && !said.contains("intent"),
            "{said}"
        );
    }
    let again = world.try_start(&other, with("a", "work")).await.unwrap();
    assert_eq!(again.existing, Some(RunStatus::InProgress));
    assert_eq!(
        world.runs.current_run(&other.client_id),
        None,
        "it is not the other's"
    );
    world.complete(&one, "k:1").await.unwrap();
    let again = world.try_start(&one, with("a", "work")).await.unwrap();
    assert_eq!(again.existing, Some(RunStatus::Completed));
    assert_eq!(world.records("k:1").await.len(), 2);
}

#[tokio::test]
async fn keys_are_plain_text() {
    let world = World::new(RunSettings::default()).await;
    let caller = Caller::new();
    let long = "x".repeat(129);
    for key in ["", ".", "..", "a b", "a/b", "ä", long.as_str()] {
        let start = json!({"intent": "i", "agent_id": "a", "idempotency_key": key});
        let refused = world.try_start(&caller, start).await.unwrap_err();
        assert_eq!(refused.reason(), "invalid_params", "{key}");
    }
    let start = json!({"intent": "i", "agent_id": "a", "idempotency_key": "x".repeat(128)});
    world.try_start(&caller, start).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_equal_starts_at_a_time_one_makes_the_run() {
    let world = std::sync::Arc::new(World::new(RunSettings::default()).await);
    let mut starts = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let world = std::sync::Arc::clone(&world);
        starts.spawn(async move {
            let start: Value = json!({"intent": "i", "agent_id": "a", "idempotency_key": "k"});
            world
                .try_start(&Caller::new(), start)
                .await
                .unwrap()
                .existing
        });
    }
    let made = starts.join_all().await.into_iter().filter(Option::is_none);
    assert_eq!(made.count(), 1);
    assert_eq!(world.runs.open_count(), 1);
}
