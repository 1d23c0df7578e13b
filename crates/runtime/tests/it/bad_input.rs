//! Invalid input of any kind leads to a typed error that names the problem, and leaves the session usable.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use windlass_core::command::ExecuteCommandRequest;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::llm_driver_registry::LlmStreamEvent;
use windlass_core::llmsim_driver::LlmSimConfig;
use windlass_core::message::{InputMessage, Message};
use windlass_core::platform_definition::PlatformDefinition;
use windlass_core::tools::{ToolExecutionResult, ToolResult};
use windlass_core::traits::{
    SessionFileSystem, SessionFileSystemFactory, SessionFileSystemFactoryContext,
};
use windlass_core::typed_id::{AgentId, HarnessId, IdParseError, SessionId, TurnId};
use windlass_runtime::{
    InProcessRuntimeBuilder, RetryPolicy, RuntimeHostAdapter, SessionBuilder, StopReason,
    TurnOptions,
};

use crate::support::{AnswerPiece, Gate, ScriptedCall, Setup, call, roles, soon, tool};

#[test]
fn invalid_id_error_names_the_problem() {
    let hex = "0".repeat(32);
    assert!(matches!(
        SessionId::parse(&format!("agent_{hex}")),
        Err(IdParseError::InvalidPrefix {
            expected: "session",
            ..
        })
    ));
    assert!(matches!(
        SessionId::parse("session_12"),
        Err(IdParseError::InvalidLength {
            expected: 32,
            got: 2
        })
    ));
    assert!(matches!(
        SessionId::parse(&format!("session_{}", "G".repeat(32))),
        Err(IdParseError::InvalidHex(_))
    ));
    assert!("".parse::<SessionId>().is_err());
}

#[tokio::test]
async fn driver_error_fails_only_its_turn() {
    let error = || AgentLoopError::llm("scripted");
    let ways: Vec<(&str, ScriptedCall, &str)> = vec![
        (
            "an error on connecting",
            ScriptedCall::refused(error()),
            "scripted",
        ),
        (
            "a panic on connecting",
            ScriptedCall::new().connecting(AnswerPiece::Panic),
            "driver panicked",
        ),
        (
            "an error at once",
            ScriptedCall::new().fail(error()),
            "scripted",
        ),
        (
            "an error after text",
            ScriptedCall::new().text("half").fail(error()),
            "scripted",
        ),
        (
            "an error event",
            ScriptedCall::new().say(LlmStreamEvent::Error("scripted".into())),
            "scripted",
        ),
        (
            "an error event after text",
            ScriptedCall::new()
                .text("half")
                .say(LlmStreamEvent::Error("scripted".into())),
            "scripted",
        ),
        (
            "a panic at once",
            ScriptedCall::new().piece(AnswerPiece::Panic),
            "driver panicked",
        ),
        (
            "a panic after text",
            ScriptedCall::new().text("half").piece(AnswerPiece::Panic),
            "driver panicked",
        ),
        ("no end", ScriptedCall::new(), "broke off"),
        (
            "no end after text",
            ScriptedCall::new().text("half"),
            "broke off",
        ),
        (
            "no end after calls",
            ScriptedCall::new().say(LlmStreamEvent::ToolCalls(vec![call("c", "x", json!({}))])),
            "broke off",
        ),
    ];
    for (way, script, named) in ways {
        let fixture = Setup::new([script])
            .settings(|settings| {
                settings.retry = RetryPolicy {
                    max_retries: 0,
                    ..RetryPolicy::default()
                }
            })
            .build()
            .await;
        let turn = fixture.run("go").await;
        assert_eq!(
            (turn.success, turn.stop_reason),
            (false, StopReason::Failed),
            "{way}"
        );
        assert!(
            turn.error.as_deref().unwrap().contains(named),
            "{way}: {:?}",
            turn.error
        );
        assert_eq!(roles(&fixture.messages().await), ["user", "agent"], "{way}");
        fixture.assert_usable().await;
    }
}

#[tokio::test]
async fn silent_driver_is_a_timeout_error() {
    let (gate, limit) = (Gate::shut(), Duration::from_secs(33));
    for script in [
        ScriptedCall::new().wait(&gate),
        ScriptedCall::new().text("half").wait(&gate),
        ScriptedCall::new().connecting(AnswerPiece::Wait(gate.clone())),
    ] {
        let fixture = Setup::new([script])
            .settings(|settings| {
                settings.model_silence = Some(limit);
                settings.retry.max_retries = 0;
            })
            .build()
            .await;
        let turn = fixture.start("go");
        fixture.clock.asleep_for(limit).await;
        fixture.clock.advance(limit);
        let turn = soon(turn).await.unwrap().unwrap();
        assert_eq!(turn.error_code.as_deref(), Some("timeout"));
        assert!(turn.error.unwrap().contains("33000 ms"));
        fixture.assert_usable().await;
    }
}

#[tokio::test]
async fn endless_stream_can_be_cancelled_and_times_out() {
    struct Endless;
    impl futures_core::Stream for Endless {
        type Item = Result<LlmStreamEvent>;
        fn poll_next(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Self::Item>> {
            std::task::Poll::Ready(Some(Ok(LlmStreamEvent::TextDelta(String::new()))))
        }
    }
    struct Talker;
    #[async_trait]
    impl windlass_core::llm_driver_registry::LlmDriver for Talker {
        async fn chat_completion_stream(
            &self,
            _: Vec<windlass_core::llm_driver_registry::LlmMessage>,
            _: &windlass_core::llm_driver_registry::LlmCallConfig,
        ) -> Result<windlass_core::llm_driver_registry::LlmResponseStream> {
            Ok(Box::pin(Endless))
        }
    }
    let mut drivers = windlass_core::llm_driver_registry::DriverRegistry::new();
    drivers.register(
        windlass_core::llm_driver_registry::ProviderType::LlmSim,
        |_, _| Box::new(Talker),
    );
    let runtime = InProcessRuntimeBuilder::new()
        .driver_registry(drivers)
        .default_model(crate::support::scripted_model())
        .single_session(|session| session)
        .build()
        .await
        .unwrap();
    let session = runtime.default_session_id().unwrap();
    let mut events = runtime.subscribe(session).await.unwrap();
    let turn = {
        let runtime = runtime.clone();
        tokio::spawn(async move { runtime.run_text_turn(session, "go").await })
    };
    crate::support::event(&mut events, "reason.started").await;
    soon(runtime.cancel_turn(session)).await.unwrap();
    assert_eq!(
        soon(turn).await.unwrap().unwrap().stop_reason,
        StopReason::Cancelled
    );
    let options = TurnOptions {
        turn_timeout: Some(Duration::from_millis(20)),
        ..TurnOptions::default()
    };
    let turn = soon(runtime.run_turn_with(session, "go", options))
        .await
        .unwrap();
    assert_eq!(turn.stop_reason, StopReason::TimedOut);
}

#[tokio::test]
async fn odd_model_answers_are_used_as_far_as_possible() {
    let hello = tool("hello", |arguments, _| async move {
        ToolExecutionResult::success(arguments)
    });
    let fixture = Setup::new([]).tool(&hello).build().await;
    // Nothing at all.
    fixture.model.then(ScriptedCall::new().done());
    let turn = fixture.run("empty").await;
    assert_eq!((turn.success, turn.response.as_str()), (true, ""));
    fixture.assert_usable().await;
    // Two calls with the same ID are two calls, each with its own result.
    fixture.model.then(ScriptedCall::tools(vec![
        call("x", "hello", json!({"n": 1})),
        call("x", "hello", json!({"n": 2})),
    ]));
    assert!(fixture.run("twins").await.success);
    assert_eq!(hello.runs(), 2);
    fixture.assert_usable().await;
    // The id of an earlier turn again.
    fixture.model.then(ScriptedCall::tools(vec![call(
        "x",
        "hello",
        json!({"n": 3}),
    )]));
    assert!(fixture.run("again").await.success);
    fixture.assert_usable().await;
    // No id, no name.
    fixture
        .model
        .then(ScriptedCall::tools(vec![call("", "", json!({}))]));
    assert!(fixture.run("nameless").await.success);
    fixture.assert_usable().await;
    // Null instead of an object.
    fixture
        .model
        .then(ScriptedCall::tools(vec![call("n", "hello", json!(null))]));
    assert!(fixture.run("null").await.success);
    let calls = fixture.model.calls();
    assert_eq!(fixture.model.sent(calls - 1).pop().unwrap(), "Tool: {}");
    fixture.assert_usable().await;
}

#[tokio::test]
async fn steer_cancel_and_answer_without_a_turn_are_errors() {
    let fixture = Setup::new([]).build().await;
    let (runtime, session) = (&fixture.runtime, fixture.session);
    for refused in [
        runtime.steer(session, "left").await.map(drop),
        runtime.cancel_turn(session).await,
        runtime
            .interrupt(session, Some(TurnId::from_seed(9)), None)
            .await,
    ] {
        assert!(
            matches!(refused, Err(AgentLoopError::NoActiveTurn(id)) if id == session),
            "{refused:?}"
        );
    }
    for refused in [
        runtime
            .submit_tool_results(session, vec![ToolResult::success("ghost", 1)])
            .await
            .map(drop),
        runtime
            .decide_tool_call(session, "ghost", true)
            .await
            .map(drop),
    ] {
        match refused {
            Err(AgentLoopError::NoPendingCall { call_id, .. }) => assert_eq!(call_id, "ghost"),
            other => panic!("{other:?}"),
        }
    }
    let empty = runtime.submit_tool_results(session, vec![]).await.map(drop);
    assert!(
        matches!(empty, Err(AgentLoopError::NoActiveTurn(_))),
        "{empty:?}"
    );
    assert!(fixture.events().await.is_empty());
    fixture.assert_usable().await;
}

#[tokio::test]
async fn panicking_observer_has_no_effect() {
    let fixture = Setup::new([]).build().await;
    let options = TurnOptions {
        on_event: Some(Arc::new(|_| panic!("scripted"))),
        ..TurnOptions::default()
    };
    let turn = soon(
        fixture
            .runtime
            .run_turn_with(fixture.session, "go", options),
    )
    .await
    .unwrap();
    assert!(turn.success);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn missing_records_are_named() {
    let fixture = Setup::new([]).build().await;
    let harness = fixture
        .runtime
        .session(fixture.session)
        .await
        .unwrap()
        .harness_id;
    let (ghost, no_agent) = (HarnessId::from_seed(404), AgentId::from_seed(404));
    let refused = fixture
        .runtime
        .add_session(SessionBuilder::new(ghost).build())
        .await;
    assert!(matches!(refused, Err(AgentLoopError::HarnessNotFound(id)) if id == ghost));
    let refused = fixture
        .runtime
        .add_session(SessionBuilder::new(harness).agent(no_agent).build())
        .await;
    assert!(matches!(refused, Err(AgentLoopError::AgentNotFound(id)) if id == no_agent));
    let unset = InProcessRuntimeBuilder::new().build().await.unwrap_err();
    assert!(
        matches!(&unset, AgentLoopError::Configuration(text) if text.contains("default model")),
        "{unset}"
    );
    fixture.assert_usable().await;
}

#[tokio::test]
async fn failing_file_system_factory_is_a_build_error() {
    struct Factory(bool);
    #[async_trait]
    impl SessionFileSystemFactory for Factory {
        fn name(&self) -> &'static str {
            "shaky-files"
        }
        async fn create_session_file_system(
            &self,
            _: SessionFileSystemFactoryContext,
        ) -> Result<Arc<dyn SessionFileSystem>> {
            assert!(!self.0, "scripted");
            Err(AgentLoopError::config("shaky-files: scripted"))
        }
    }
    for panics in [false, true] {
        let platform = PlatformDefinition::builder()
            .session_file_system_factory(Arc::new(Factory(panics)))
            .build();
        let built = InProcessRuntimeBuilder::new()
            .platform_definition(platform)
            .llm_sim(LlmSimConfig::fixed("hi"))
            .build()
            .await;
        match built {
            Err(AgentLoopError::Configuration(text)) => {
                assert!(text.contains("shaky-files"), "{text}")
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn unknown_commands_and_missing_arguments_are_errors() {
    let fixture = Setup::new([ScriptedCall::answer("a side remark")])
        .session(|session| session.with_capability("btw"))
        .build()
        .await;
    let run = |name: &str, arguments: Option<&str>| {
        let request = ExecuteCommandRequest {
            name: name.to_owned(),
            arguments: arguments.map(str::to_owned),
            controls: None,
        };
        fixture.runtime.execute_command(fixture.session, request)
    };
    assert_eq!(
        run("ghost", None).await.unwrap_err().to_string(),
        "Configuration error: no capability declares command /ghost"
    );
    for arguments in [None, Some("  ")] {
        let error = run("btw", arguments).await.unwrap_err().to_string();
        assert!(error.contains("requires a question"), "{error}");
    }
    assert_eq!(
        fixture
            .runtime
            .list_commands(fixture.session)
            .await
            .unwrap()[0]
            .name,
        "btw"
    );
    assert_eq!(
        run("btw", Some("what?")).await.unwrap().message,
        "a side remark"
    );
    // A side call, with the conversation's history and without tools.
    assert_eq!(fixture.model.sent(0), ["User: what?"]);
    assert!(fixture.model.requests()[0].config.tools.is_empty());
    assert!(fixture.messages().await.is_empty());
    fixture
        .model
        .then(ScriptedCall::new().connecting(AnswerPiece::Panic));
    assert!(run("btw", Some("what?")).await.is_err());
    fixture.assert_usable().await;
}

#[tokio::test]
async fn a_command_whose_model_falls_silent_ends() {
    let (gate, limit) = (Gate::shut(), Duration::from_secs(33));
    let fixture = Setup::new([ScriptedCall::new().wait(&gate)])
        .session(|session| session.with_capability("btw"))
        .settings(|settings| settings.model_silence = Some(limit))
        .build()
        .await;
    let asking = {
        let fixture = fixture.clone();
        let request = ExecuteCommandRequest {
            name: "btw".to_owned(),
            arguments: Some("what?".to_owned()),
            controls: None,
        };
        tokio::spawn(async move {
            fixture
                .runtime
                .execute_command(fixture.session, request)
                .await
        })
    };
    fixture.clock.asleep_for(limit).await;
    fixture.clock.advance(limit);
    let error = soon(asking).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("33000 ms"), "{error}");
    fixture.assert_usable().await;
}

#[tokio::test]
async fn extreme_durations_are_harmless() {
    let fixture = Setup::new([]).build().await;
    let with = |turn_timeout, tool_timeout| TurnOptions {
        turn_timeout: Some(turn_timeout),
        tool_timeout: Some(tool_timeout),
        ..TurnOptions::default()
    };
    let gate = Gate::shut();
    fixture.model.then(ScriptedCall::new().wait(&gate));
    let options = with(Duration::ZERO, Duration::ZERO);
    let turn = soon(
        fixture
            .runtime
            .run_turn_with(fixture.session, "none", options),
    )
    .await
    .unwrap();
    assert_eq!(turn.stop_reason, StopReason::TimedOut);
    fixture.model.rewrite([]);
    let options = with(Duration::MAX, Duration::MAX);
    let turn = soon(
        fixture
            .runtime
            .run_turn_with(fixture.session, "all", options),
    )
    .await
    .unwrap();
    assert!(turn.success);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn invalid_messages_are_not_imported() {
    let fixture = Setup::new([]).build().await;
    let store = fixture.runtime.message_store();
    let orphan = Message::tool_result("ghost", Some(json!(1)), None);
    let refused = store
        .store_message(fixture.session, orphan)
        .await
        .unwrap_err();
    assert!(
        matches!(refused, AgentLoopError::MessageStore(_)),
        "{refused}"
    );
    let open = Message::assistant_with_tools("", vec![call("c", "x", json!({}))]);
    store.store_message(fixture.session, open).await.unwrap();
    let refused = store
        .store_message(fixture.session, Message::assistant("next"))
        .await
        .unwrap_err();
    assert!(
        matches!(refused, AgentLoopError::MessageStore(_)),
        "{refused}"
    );
    fixture.assert_usable().await;
}

#[tokio::test]
async fn empty_input_is_accepted() {
    let fixture = Setup::new([]).build().await;
    assert!(fixture.run("").await.success);
    let silent = InputMessage {
        content: vec![],
        ..InputMessage::user("")
    };
    assert!(
        soon(fixture.runtime.run_turn(fixture.session, silent))
            .await
            .unwrap()
            .success
    );
    fixture.assert_usable().await;
}

#[tokio::test]
async fn oversized_answer_fails_the_turn() {
    let piece = "x".repeat(600);
    let many = (0..4)
        .map(|n| call(&format!("c{n}"), "hello", json!({})))
        .collect();
    let long = vec![call("c", "hello", json!({ "name": "x".repeat(2000) }))];
    for (answer, named) in [
        (
            ScriptedCall::new().text(&piece).text(&piece).done(),
            "1000 bytes",
        ),
        (ScriptedCall::tools(long), "1000 bytes"),
        (ScriptedCall::tools(many), "3 tool calls"),
    ] {
        let setup = Setup::new([answer]).settings(|settings| {
            settings.max_answer_bytes = 1000;
            settings.max_answer_calls = 3;
        });
        let fixture = setup.build().await;
        let ended = fixture.try_run("go").await.unwrap();
        assert!(!ended.success, "{named}");
        let shown = format!("{:?}", fixture.events().await);
        assert!(shown.contains(named), "{named}: {shown}");
        fixture.assert_sound().await;
        fixture.assert_usable().await;
    }
}
