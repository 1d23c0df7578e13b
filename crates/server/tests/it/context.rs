//! Context window usage of a conversation, and the models that a client can select.

use serde_json::{Value, json};

use crate::support::TestDaemon;

/// Checks that dependent fields agree; returns the estimate.
fn estimate(usage: &Value) -> u64 {
    let tokens = |field: &str| {
        usage[field]
            .as_u64()
            .unwrap_or_else(|| panic!("{field}: {usage}"))
    };
    let (used, window) = (
        tokens("estimated_input_tokens"),
        tokens("context_window_tokens"),
    );
    assert_eq!(tokens("remaining_context_tokens"), window - used);
    let percent = usage["used_percent"].as_f64().unwrap();
    assert!(
        (percent - used as f64 * 100.0 / window as f64).abs() < 0.1,
        "{usage}"
    );
    let threshold = tokens("auto_compact_threshold_tokens");
    assert!(threshold < window, "{usage}");
    let threshold_percent = usage["auto_compact_threshold_percent"].as_f64().unwrap();
    assert!((threshold_percent - threshold as f64 * 100.0 / window as f64).abs() < 0.1);
    assert!(usage["auto_compact_enabled"].is_boolean());
    assert_eq!(usage["source"], "estimated_current_messages");
    assert_eq!(usage["model"], "demo-model");
    assert_eq!(usage["provider"], "demo");
    used
}

#[tokio::test]
async fn thread_context_grows_and_a_saved_session_stays_at_its_turn() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let id = thread.trim_start_matches("/v1/threads/");
    let context = async |path: &str| {
        let usage = daemon
            .client
            .get(&format!("{path}/context"))
            .await
            .expect(200);
        assert_eq!(usage["thread_id"], id);
        estimate(&usage)
    };
    let empty = context(&thread).await;
    daemon.model.count(5_000);
    daemon.say(&thread, &"hello ".repeat(1000)).await;
    let first = context(&thread).await;
    assert!(first > empty && first > 5_000, "{empty} {first}");
    let saved = daemon
        .client
        .post("/v1/sessions", json!({"thread_id": id}))
        .await;
    let session = format!(
        "/v1/sessions/{}",
        saved.expect(201)["session_id"].as_str().unwrap()
    );
    let at_save = context(&session).await;
    assert!(at_save > empty + 1000, "{empty} {at_save}");
    daemon.model.count(9_000);
    daemon.say(&thread, &"more ".repeat(1000)).await;
    assert!(context(&thread).await > 9_000);
    assert_eq!(context(&session).await, at_save);
    for unknown in ["/v1/threads/thr_none", "/v1/sessions/none"] {
        let unknown = daemon.client.get(&format!("{unknown}/context")).await;
        assert_eq!(unknown.status, 404);
    }
}

#[tokio::test]
async fn models_of_the_current_provider_are_listed_with_the_default() {
    let daemon = TestDaemon::start().await;
    let models = daemon.client.get("/v1/models").await.expect(200);
    assert_eq!(models["provider"], "demo");
    assert!(models["provider_display_name"].is_string(), "{models}");
    let models = models["models"].as_array().unwrap();
    assert!(models.contains(&json!("demo-model")), "{models:?}");
}
