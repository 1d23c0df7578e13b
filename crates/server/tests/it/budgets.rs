//! Limits of threads and turns set by clients.

use serde_json::{Value, json};

use crate::support::{Daemon, Frame, Home, Setup};

/// Returns the turn as its last event shows it.
fn ended(frames: &[Frame]) -> Value {
    frames.last().unwrap().data["payload"]["turn"].clone()
}

#[tokio::test]
async fn a_thread_that_has_used_up_its_budget_goes_on_once_it_is_raised() {
    let daemon = Daemon::start().await;
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
    let went_on = ended(&daemon.say(&thread, "go on").await);
    assert_eq!(went_on["status"], "completed");
    let told = daemon.model.told();
    assert!(told.iter().any(|said| said == "user: more"), "{told:?}");

    let lift = json!({"budget": {}});
    daemon.client.patch(&thread, lift).await.expect(200);
    assert_eq!(shown().await, Value::Null);
}

#[tokio::test]
async fn a_turn_can_have_less_than_its_thread_and_nobody_more_than_the_operator_allows() {
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

    let daemon = Daemon::start().await;
    let thread = daemon.thread(json!({"auto_approve": true})).await;
    let mut events = daemon.events(&thread, 0).await;
    let body = json!({"prompt": "SHELL now", "budget": {"turn_tool_calls": 0}});
    daemon.turn(&thread, body).await;
    let done = ended(&events.until("turn.completed").await);
    assert_eq!(done["status"], "completed");
    let told = daemon.model.told();
    let refused = told.last().unwrap();
    assert!(refused.contains("budget of 0 tool calls"), "{refused}");
}

#[tokio::test]
async fn an_agent_can_lower_the_budget_of_its_thread_and_not_raise_it() {
    let home = Home::start().await;
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
async fn a_budget_that_cannot_be_read_is_refused() {
    let daemon = Daemon::start().await;
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
