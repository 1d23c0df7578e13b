//! Starting runs: their owners and their IDs.

use serde_json::{Value, json};
use windlass_core::runs::RunStatus;
use windlass_runs::{RunCaller, RunSettings};

use crate::support::{RunFixture, bound, with_tokens};

#[tokio::test]
async fn starts_get_different_ids_and_the_last_run_is_current() {
    let fixture = RunFixture::new(RunSettings::default()).await;
    let caller = RunCaller::new();
    let first = fixture.start(&caller, "a").await;
    let second = fixture.start(&caller, "a").await;
    assert_ne!(first, second);
    assert_eq!(uuid::Uuid::parse_str(&first).unwrap().get_version_num(), 4);
    let current = || fixture.runs.current_run(&caller.client_id);
    assert_eq!(current().as_deref(), Some(second.as_str()));
    fixture.complete(&caller, &first).await.unwrap();
    assert_eq!(
        current().as_deref(),
        Some(second.as_str()),
        "another one's end does not clear it"
    );
    fixture.complete(&caller, &second).await.unwrap();
    assert_eq!(current(), None);
}

#[tokio::test]
async fn agent_is_resolved_from_binding_parameter_configuration_or_name() {
    let mut settings = with_tokens();
    let cases = [
        (RunCaller::new(), None, json!({"agent_id": " x "}), Ok("x")),
        (
            RunCaller::new(),
            Some("env"),
            json!({"agent_id": "x", "agent_name": "N"}),
            Ok("x"),
        ),
        (
            RunCaller::new(),
            Some("env"),
            json!({"agent_id": " ", "agent_name": "N"}),
            Ok("env"),
        ),
        (
            RunCaller::new(),
            Some(" "),
            json!({"agent_name": "Bulldozer Agent"}),
            Ok("name:bulldozer-agent"),
        ),
        (
            RunCaller::new(),
            None,
            json!({"agent_name": "!!!"}),
            Err("no_agent"),
        ),
        (RunCaller::new(), None, json!({}), Err("no_agent")),
        (
            RunCaller::new(),
            None,
            json!({"agent_id": "a"}),
            Err("not_authorized"),
        ),
        (
            RunCaller::new(),
            Some("a"),
            json!({}),
            Err("not_authorized"),
        ),
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
        let fixture = RunFixture::new(settings.clone()).await;
        start["intent"] = json!("work");
        let found = fixture.try_start(&caller, start.clone()).await;
        let found = found
            .as_ref()
            .map(|started| started.agent_id.as_str())
            .map_err(windlass_runs::RunError::reason);
        assert_eq!(found, expected, "{:?} {start}", caller.role);
        if expected.is_err() {
            assert_eq!(fixture.runs.open_count(), 0, "nothing is recorded");
        }
    }
}

#[tokio::test]
async fn idempotency_key_identifies_one_run() {
    let fixture = RunFixture::new(RunSettings::default()).await;
    let (one, other) = (RunCaller::new(), RunCaller::new());
    let with = |agent: &str, intent: &str| json!({"intent": intent, "agent_id": agent, "idempotency_key": "k:1"});
    let first = fixture.try_start(&one, with("a", "work")).await.unwrap();
    assert_eq!((first.run_id.as_str(), first.existing), ("k:1", None));
    for (agent, intent) in [("b", "work"), ("a", "other work")] {
        let conflict = fixture.try_start(&one, with(agent, intent)).await;
        let conflict = conflict.unwrap_err();
        assert_eq!(conflict.reason(), "conflict");
        let text = conflict.to_string();
        assert!(
            !text.contains("agent") && !text.contains("intent"),
            "{text}"
        );
    }
    let again = fixture.try_start(&other, with("a", "work")).await.unwrap();
    assert_eq!(again.existing, Some(RunStatus::InProgress));
    assert_eq!(
        fixture.runs.current_run(&other.client_id),
        None,
        "it is not the other's"
    );
    fixture.complete(&one, "k:1").await.unwrap();
    let again = fixture.try_start(&one, with("a", "work")).await.unwrap();
    assert_eq!(again.existing, Some(RunStatus::Completed));
    assert_eq!(fixture.records("k:1").await.len(), 2);
}

#[tokio::test]
async fn keys_are_plain_text() {
    let fixture = RunFixture::new(RunSettings::default()).await;
    let caller = RunCaller::new();
    let long = "x".repeat(129);
    for key in ["", ".", "..", "a b", "a/b", "ä", long.as_str()] {
        let start = json!({"intent": "i", "agent_id": "a", "idempotency_key": key});
        let refused = fixture.try_start(&caller, start).await.unwrap_err();
        assert_eq!(refused.reason(), "invalid_params", "{key}");
    }
    let start = json!({"intent": "i", "agent_id": "a", "idempotency_key": "x".repeat(128)});
    fixture.try_start(&caller, start).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_equal_starts_create_one_run() {
    let fixture = std::sync::Arc::new(RunFixture::new(RunSettings::default()).await);
    let mut starts = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let fixture = std::sync::Arc::clone(&fixture);
        starts.spawn(async move {
            let start: Value = json!({"intent": "i", "agent_id": "a", "idempotency_key": "k"});
            fixture
                .try_start(&RunCaller::new(), start)
                .await
                .unwrap()
                .existing
        });
    }
    let created = starts.join_all().await.into_iter().filter(Option::is_none);
    assert_eq!(created.count(), 1);
    assert_eq!(fixture.runs.open_count(), 1);
}
