//! R24 to R29: model errors and how they are reported.

use std::time::Duration;

use windlass_core::error::{AgentLoopError, ErrorKind, ProviderError};
use windlass_core::events::{EventData, RetryMetadata};
use windlass_core::llmsim_driver::{LlmSimConfig, SimError, SimTurn};
use windlass_core::typed_id::SessionId;
use windlass_runtime::{InProcessRuntimeBuilder, RetryPolicy, SessionBuilder, StopReason};

use crate::support::{Fixture, Gate, ScriptedCall, Setup, roles, soon, types};

fn status(code: u16) -> AgentLoopError {
    AgentLoopError::provider(ProviderError::from_status(code, "scripted"))
}

fn retries(max_retries: u32) -> RetryPolicy {
    RetryPolicy {
        max_retries,
        ..RetryPolicy::default()
    }
}

/// Runs a turn and advances the clock whenever a task sleeps.
async fn run_through(fixture: &Fixture, text: &str) -> windlass_runtime::TurnResult {
    let turn = fixture.start(text);
    soon(async {
        while !turn.is_finished() {
            fixture.clock.advance(Duration::from_secs(60));
            tokio::task::yield_now().await;
        }
    })
    .await;
    turn.await.unwrap().unwrap()
}

fn retry_of(events: &[std::sync::Arc<windlass_core::events::Event>]) -> Option<RetryMetadata> {
    events.iter().rev().find_map(|event| match &event.data {
        EventData::LlmGeneration(data) => Some(data.metadata.retry.clone()),
        _ => None,
    })?
}

#[tokio::test]
async fn r24_error_text_does_not_make_an_error_transient() {
    let fixture = Setup::new([ScriptedCall::refused(AgentLoopError::llm(
        "rate limit (500) timeout 429",
    ))])
    .build()
    .await;
    let turn = fixture.run("go").await;
    assert_eq!(
        (turn.stop_reason, turn.error_code.as_deref()),
        (StopReason::Failed, Some("other"))
    );
    assert_eq!(fixture.model.calls(), 1);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r25_transient_errors_are_retried_and_recorded() {
    for code in [408, 409, 429, 500, 502, 503, 529] {
        let fixture = Setup::new([
            ScriptedCall::refused(status(code)),
            ScriptedCall::answer("at last"),
        ])
        .build()
        .await;
        let turn = run_through(&fixture, "go").await;
        assert_eq!(
            (turn.success, turn.response.as_str()),
            (true, "at last"),
            "{code}"
        );
        // One model call of the turn, two attempts at it, with the same messages.
        assert_eq!((turn.iterations, fixture.model.calls()), (1, 2));
        assert_eq!(fixture.model.sent(0), fixture.model.sent(1));
        let retry = retry_of(&fixture.events().await).unwrap();
        assert_eq!(retry.retries, 1);
        assert!(retry.waited_ms >= 250, "{retry:?}");
        fixture.assert_usable().await;
    }
}

#[tokio::test]
async fn r25_permanent_errors_are_not_retried() {
    for code in [400, 401, 403, 404, 413, 422] {
        let fixture = Setup::new([ScriptedCall::refused(status(code))])
            .build()
            .await;
        assert_eq!(
            fixture.run("go").await.stop_reason,
            StopReason::Failed,
            "{code}"
        );
        assert_eq!(fixture.model.calls(), 1, "{code}");
        fixture.assert_usable().await;
    }
}

#[tokio::test]
async fn r25_retry_after_is_honoured_up_to_a_limit() {
    for (wish, wait) in [(7, 7), (3600, 60)] {
        let error =
            ProviderError::from_status(429, "scripted").with_retry_after(Duration::from_secs(wish));
        let fixture = Setup::new([ScriptedCall::refused(AgentLoopError::provider(error))])
            .build()
            .await;
        let turn = fixture.start("go");
        fixture.clock.asleep_for(Duration::from_secs(wait)).await;
        assert_eq!(fixture.model.calls(), 1);
        fixture.clock.advance(Duration::from_secs(wait));
        assert!(soon(turn).await.unwrap().unwrap().success);
        assert_eq!(
            retry_of(&fixture.events().await).unwrap().waited_ms,
            wait * 1000
        );
        fixture.assert_usable().await;
    }
}

#[tokio::test]
async fn r25_waits_double_with_jitter() {
    let fixture = Setup::new((0..3).map(|_| ScriptedCall::refused(status(503))))
        .build()
        .await;
    let turn = fixture.start("go");
    for base in [500, 1000, 2000] {
        // Half of the wait is random, so that many callers spread out.
        let (least, most) = (Duration::from_millis(base / 2), Duration::from_millis(base));
        let wait = fixture
            .clock
            .asleep(|span| (least..=most).contains(&span))
            .await;
        fixture.clock.forget();
        fixture.clock.advance(wait);
    }
    assert!(soon(turn).await.unwrap().unwrap().success);
    assert_eq!(retry_of(&fixture.events().await).unwrap().retries, 3);
}

#[tokio::test]
async fn r25_retries_stop_at_the_configured_count() {
    let fixture = Setup::new((0..3).map(|_| ScriptedCall::refused(status(503))))
        .settings(|settings| settings.retry = retries(2))
        .build()
        .await;
    let turn = run_through(&fixture, "go").await;
    assert_eq!(
        (turn.stop_reason, turn.error_code.as_deref()),
        (StopReason::Failed, Some("server"))
    );
    assert_eq!(fixture.model.calls(), 3);
    assert_eq!(retry_of(&fixture.events().await).unwrap().retries, 2);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r25_a_wait_between_attempts_can_be_cancelled() {
    let fixture = Setup::new([ScriptedCall::refused(status(503))])
        .build()
        .await;
    let turn = fixture.start("go");
    fixture
        .clock
        .asleep(|span| span <= Duration::from_millis(500) && span >= Duration::from_millis(250))
        .await;
    fixture.runtime.cancel_turn(fixture.session).await.unwrap();
    assert_eq!(
        soon(turn).await.unwrap().unwrap().stop_reason,
        StopReason::Cancelled
    );
    assert_eq!(fixture.model.calls(), 1);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r25_silent_model_is_retried() {
    let silence = Duration::from_secs(33);
    let gate = Gate::shut();
    let fixture = Setup::new([
        ScriptedCall::new().wait(&gate),
        ScriptedCall::answer("at last"),
    ])
    .settings(|settings| settings.model_silence = Some(silence))
    .build()
    .await;
    let turn = fixture.start("go");
    fixture.clock.asleep_for(silence).await;
    let turn_ended = run_out(&fixture, turn).await;
    assert!(turn_ended.success);
    let retry = retry_of(&fixture.events().await).unwrap();
    assert_eq!(
        (retry.retries, retry.last_error.as_deref()),
        (1, Some("timeout"))
    );
    fixture.assert_usable().await;
}

async fn run_out(
    fixture: &Fixture,
    turn: tokio::task::JoinHandle<windlass_core::error::Result<windlass_runtime::TurnResult>>,
) -> windlass_runtime::TurnResult {
    soon(async {
        while !turn.is_finished() {
            fixture.clock.advance(Duration::from_secs(60));
            tokio::task::yield_now().await;
        }
    })
    .await;
    turn.await.unwrap().unwrap()
}

#[tokio::test]
async fn r25_call_with_visible_output_is_not_retried() {
    let fixture = Setup::new([ScriptedCall::new().text("half an").fail(status(503))])
        .build()
        .await;
    let turn = fixture.run("go").await;
    assert_eq!(
        (turn.stop_reason, turn.response.as_str()),
        (StopReason::Failed, "half an")
    );
    assert_eq!(fixture.model.calls(), 1);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r26_a_failed_turn_names_its_cause_once_and_counts_what_it_did() {
    let add = windlass_core::tools::ToolCall {
        id: "c".into(),
        name: "unknown".into(),
        arguments: serde_json::json!({}),
    };
    let fixture = Setup::new([
        ScriptedCall::tools(vec![add]),
        ScriptedCall::refused(AgentLoopError::llm("the model is on fire")),
    ])
    .build()
    .await;
    let turn = fixture.run("go").await;
    assert_eq!(
        (turn.success, turn.stop_reason),
        (false, StopReason::Failed)
    );
    assert_eq!((turn.iterations, turn.tool_calls_count), (2, 1));
    assert_eq!(
        turn.error.as_deref(),
        Some("LLM error: the model is on fire")
    );
    assert!(types(&fixture.events().await).ends_with(&["turn.failed", "session.idled"]));
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r27_the_kind_of_a_failure_is_readable_without_its_text() {
    for (error, code) in [
        (status(429), "rate_limited"),
        (status(401), "auth"),
        (status(500), "server"),
        (status(408), "timeout"),
        (AgentLoopError::request_too_large("x"), "too_large"),
        (AgentLoopError::model_not_available("x"), "model_missing"),
        (AgentLoopError::llm("x"), "other"),
    ] {
        let fixture = Setup::new([ScriptedCall::refused(error)])
            .settings(|settings| settings.retry = retries(0))
            .build()
            .await;
        let turn = fixture.run("go").await;
        assert_eq!(turn.error_code.as_deref(), Some(code));
        let events = fixture.events().await;
        let EventData::TurnFailed(data) = &events[events.len() - 2].data else {
            panic!("{:?}", types(&events))
        };
        assert_eq!(data.error_code.as_deref(), Some(code));
    }
    let fixture = Setup::new([]).build().await;
    let cancel = windlass_runtime::CancellationToken::new();
    cancel.cancel();
    let options = windlass_runtime::TurnOptions {
        cancel: Some(cancel),
        ..Default::default()
    };
    let error = fixture
        .runtime
        .run_turn_with(fixture.session, "go", options)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

#[tokio::test]
async fn r28_a_failed_turn_stores_the_same_whatever_the_error() {
    for error in [status(503), status(400), AgentLoopError::llm("odd")] {
        let fixture = Setup::new([ScriptedCall::refused(error)])
            .settings(|settings| settings.retry = retries(0))
            .build()
            .await;
        fixture.run("go").await;
        let messages = fixture.messages().await;
        assert_eq!(roles(&messages), ["user", "agent"]);
        assert!(messages[1].is_error());
        fixture.assert_usable().await;
        // The report is for users and is not part of the model's history.
        assert_eq!(fixture.model.sent(1), ["User: go", "User: are you there?"]);
    }
}

#[tokio::test]
async fn r28_text_before_the_failure_is_the_only_message() {
    for error in [status(503), AgentLoopError::llm("odd")] {
        let fixture = Setup::new([ScriptedCall::new().text("half").fail(error)])
            .build()
            .await;
        fixture.run("go").await;
        let messages = fixture.messages().await;
        assert_eq!(roles(&messages), ["user", "agent"]);
        assert!(messages[1].is_error() && messages[1].text() == Some("half"));
        fixture.assert_usable().await;
        assert_eq!(fixture.model.sent(1)[1], "Assistant: half");
    }
}

#[tokio::test]
async fn r29_each_session_gets_the_script_from_its_start() {
    let runtime = InProcessRuntimeBuilder::new()
        .llm_sim(LlmSimConfig::sequence(
            (0..5).map(|n| n.to_string()).collect(),
        ))
        .single_session(|session| session)
        .build()
        .await
        .unwrap();
    let first = runtime.default_session_id().unwrap();
    let harness = runtime.session(first).await.unwrap().harness_id;
    let second = SessionId::from_seed(2);
    runtime
        .add_session(SessionBuilder::new(harness).id(second).build())
        .await
        .unwrap();
    for n in 0..5 {
        let (a, b) = tokio::join!(
            runtime.run_text_turn(first, "hi"),
            runtime.run_text_turn(second, "hi")
        );
        assert_eq!(
            (a.unwrap().response, b.unwrap().response),
            (n.to_string(), n.to_string())
        );
    }
}

#[tokio::test]
async fn r29_the_simulator_fails_as_its_script_says() {
    let clock = crate::support::TestClock::default();
    let runtime = InProcessRuntimeBuilder::new()
        .llm_sim(LlmSimConfig::scripted(vec![
            SimTurn::Error(SimError::InvalidResponse),
            SimTurn::Error(SimError::RateLimit),
            SimTurn::Assistant("fine".into()),
        ]))
        .clock(std::sync::Arc::new(clock.clone()))
        .single_session(|session| session)
        .build()
        .await
        .unwrap();
    let session = runtime.default_session_id().unwrap();
    assert_eq!(
        runtime
            .run_text_turn(session, "a")
            .await
            .unwrap()
            .stop_reason,
        StopReason::Failed
    );
    let again = {
        let runtime = runtime.clone();
        tokio::spawn(async move { runtime.run_text_turn(session, "b").await })
    };
    clock
        .asleep(|span| span <= Duration::from_millis(500) && span >= Duration::from_millis(250))
        .await;
    clock.advance(Duration::from_secs(1));
    assert_eq!(soon(again).await.unwrap().unwrap().response, "fine");
}
