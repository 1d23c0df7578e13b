//! Limits of threads and turns set by clients.

use serde_json::{Value, json};

use crate::support::{Frame, MultiTokenDaemon, Setup, TestDaemon};

/// Returns the turn from its last event.
fn ended(frames: &[Frame]) -> Value {
    frames.last().unwrap().data["payload"]["turn"].clone()
}

#[tokio::test]
async fn thread_with_an_exhausted_budget_continues_after_it_is_raised() {
    let daemon = TestDaemon::start().await;
    let thread = daemon
        .thread(json!({"budget": {"thread_tokens": 150}}))
        .await;
    let shown = async || daemon.detail(&thread).await["thread"]["budget"].clone();
    assert_eq!(shown().await, json!({"thread_tokens": 150}));
    let first = ended(&daemon.say(&thread, "hello").await);
    assert_eq!(first["status"], "completed");

    let stopped = ended(&daemon.say(&thread, "more").await);
    assert_eq!(stopped["status"], "failed");
    assert_eq!(stopped["error_code"], "budget_exceeded");
    let error = stopped["error"].as_str().unwrap();
    assert!(error.contains("thread_tokens: 150 allowed"), "{error}");
    assert_eq!(daemon.model.requests().len(), 1, "the model was not asked");

    let raise = json!({"budget": {"thread_tokens": 10_000}});
    daemon.client.patch(&thread, raise).await.expect(200);
    let continued = ended(&daemon.say(&thread, "continue").await);
    assert_eq!(continued["status"], "completed");
    let messages = daemon.model.messages();
    assert!(
        messages.iter().any(|message| message == "user: more"),
        "{messages:?}"
    );

    let lift = json!({"budget": {}});
    daemon.client.patch(&thread, lift).await.expect(200);
    assert_eq!(shown().await, Value::Null);
}

#[tokio::test]
async fn turn_budget_is_limited_by_thread_and_operator() {
    let setup = Setup {
        runtime: Box::new(|settings| settings.budgets.turn.model_calls = Some(1)),
        ..Setup::default()
    };
    let daemon = setup.start().await;
    let budget = json!({"turn_model_calls": 50, "turn_usd": 5.0});
    let thread = daemon
        .thread(json!({"auto_approve": true, "budget": budget}))
        .await;
    let stopped = ended(&daemon.say(&thread, "SHELL now").await);
    assert_eq!(stopped["error_code"], "budget_exceeded");
    assert_eq!(daemon.model.requests().len(), 1);

    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({"auto_approve": true})).await;
    let mut events = daemon.events(&thread, 0).await;
    let body = json!({"prompt": "SHELL now", "budget": {"turn_tool_calls": 0}});
    daemon.turn(&thread, body).await;
    let done = ended(&events.until("turn.completed").await);
    assert_eq!(done["status"], "completed");
    let messages = daemon.model.messages();
    let refused = messages.last().unwrap();
    assert!(refused.contains("budget of 0 tool calls"), "{refused}");
}

#[tokio::test]
async fn agent_can_lower_but_not_raise_its_thread_budget() {
    let home = MultiTokenDaemon::start().await;
    let agent = home.client(&home.agent("a"));
    let made = agent.post(
        "/v1/threads",
        json!({"budget": {"thread_tokens": 50, "turn_seconds": 9}}),
    );
    let made = made.await.expect(201);
    let thread = format!("/v1/threads/{}", made["id"].as_str().unwrap());
    for (budget, status) in [
        (json!({"thread_tokens": 51, "turn_seconds": 9}), 403),
        (json!({"thread_tokens": 50}), 403),
        (json!({}), 403),
        (
            json!({"thread_tokens": 40, "turn_seconds": 9, "turn_usd": 1.5}),
            200,
        ),
        (
            json!({"thread_tokens": 50, "turn_seconds": 9, "turn_usd": 1.5}),
            403,
        ),
    ] {
        let patched = agent.patch(&thread, json!({ "budget": budget })).await;
        assert_eq!(patched.status, status, "{budget}");
    }
    let admin = home.client(&home.token("admin").1);
    let raise = json!({"budget": {"thread_tokens": 51}});
    let raised = admin.patch(&thread, raise).await.expect(200);
    assert_eq!(raised["budget"], json!({"thread_tokens": 51}));
}

#[tokio::test]
async fn invalid_budget_is_refused() {
    let daemon = TestDaemon::start().await;
    for (budget, field) in [
        (json!({"turn_usd": -0.5}), "/budget/turn_usd"),
        (json!({"thread_usd": 1e300}), "/budget/thread_usd"),
        (json!({"thread_tokens": -1}), "/budget/thread_tokens"),
        (json!({"turn_dollars": 1}), "/budget"),
    ] {
        let refused = daemon
            .client
            .post("/v1/threads", json!({ "budget": budget }))
            .await;
        assert_eq!(refused.code(), "invalid_field", "{budget}");
        let at = refused.json()["error"]["details"]["field"].clone();
        assert!(at.as_str().unwrap().starts_with(field), "{at} of {budget}");
    }
}
