//! R16 to R23: tools, hooks, approvals, and calls that somebody outside answers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use tokio::sync::Barrier;
use windlass_core::atoms::{
    OutputGuardrail, OutputGuardrailContext, OutputGuardrailRun, OutputGuardrailVerdict,
    PostToolExecHook, PreToolUseDecision, PreToolUseHook, ToolCallHook, ToolDefinitionHook,
};
use windlass_core::error::AgentLoopError;
use windlass_core::events::{CustomData, Decision, EventContext, EventData, EventRequest};
use windlass_core::message_filter::{MessageFilter, MessageQuery};
use windlass_core::network_access::NetworkAccessList;
use windlass_core::tools::{
    INTERNAL_ERROR_TEXT, ToolCall, ToolDefinition, ToolExecutionResult, ToolHints, ToolPolicy,
    ToolResult,
};
use windlass_core::traits::ToolContext;
use windlass_runtime::{Limits, StopReason, TurnHandle};

use crate::support::{
    Bundle, Call, Fixture, FnTool, Gate, Setup, Trap, call, event, roles, soon, tool, types,
};

fn hello() -> FnTool {
    tool("hello", |_, _| async {
        ToolExecutionResult::success("hello")
    })
}

fn hello_call() -> Call {
    Call::tools(vec![call("c", "hello", json!({}))])
}

#[tokio::test]
async fn r16_a_tool_that_panics_gives_an_internal_error_and_the_turn_goes_on() {
    let bomb = tool("bomb", |_, _| async {
        panic!("scripted: the secret is 42")
    });
    let fixture = Setup::new([Call::tools(vec![call("c", "bomb", json!({}))])])
        .tool(&bomb)
        .build()
        .await;
    let turn = fixture.run("go").await;
    assert!(turn.success);
    let told = fixture.model.sent(1).pop().unwrap();
    assert!(
        told.contains(INTERNAL_ERROR_TEXT) && !told.contains("42"),
        "{told}"
    );
    fixture.assert_usable().await;
}

struct Bomb;

#[async_trait]
impl PreToolUseHook for Bomb {
    async fn before_exec(
        &self,
        _: ToolCall,
        _: &ToolDefinition,
        _: &ToolContext,
    ) -> PreToolUseDecision {
        panic!("scripted")
    }
}
#[async_trait]
impl PostToolExecHook for Bomb {
    async fn after_exec(
        &self,
        _: &ToolCall,
        _: &ToolDefinition,
        _: &mut ToolResult,
        _: &ToolContext,
    ) {
        panic!("scripted")
    }
}
impl ToolCallHook for Bomb {
    fn transform(&self, _: ToolCall) -> ToolCall {
        panic!("scripted")
    }
}
impl ToolDefinitionHook for Bomb {
    fn transform(&self, _: Vec<ToolDefinition>) -> Vec<ToolDefinition> {
        panic!("scripted")
    }
}
impl OutputGuardrail for Bomb {
    fn id(&self) -> &str {
        "bomb"
    }
    fn arm(&self, _: &OutputGuardrailContext<'_>) -> Option<Box<dyn OutputGuardrailRun>> {
        panic!("scripted")
    }
}
impl windlass_core::message_filter::MessageFilterProvider for Bomb {
    fn apply_filters(&self, _: &mut MessageQuery, _: &serde_json::Value) {
        panic!("scripted")
    }
}
impl windlass_core::atoms::ModelViewProvider for Bomb {
    fn apply_model_view(
        &self,
        _: Vec<windlass_core::message::Message>,
        _: &serde_json::Value,
        _: &windlass_core::atoms::ModelViewContext<'_>,
    ) -> Vec<windlass_core::message::Message> {
        panic!("scripted")
    }
}

struct ArmedBomb;
struct BombRun;

impl OutputGuardrail for ArmedBomb {
    fn id(&self) -> &str {
        "armed"
    }
    fn arm(&self, _: &OutputGuardrailContext<'_>) -> Option<Box<dyn OutputGuardrailRun>> {
        Some(Box::new(BombRun))
    }
}
impl OutputGuardrailRun for BombRun {
    fn check(&mut self, _: &str, _: &str) -> OutputGuardrailVerdict {
        panic!("scripted")
    }
}

#[tokio::test]
async fn r16_hooks_around_a_tool_that_panic_give_an_internal_error_and_the_turn_goes_on() {
    let (pre, post) = (
        Bundle::new("hooks").tool(&hello()),
        Bundle::new("hooks").tool(&hello()),
    );
    let pre = Bundle {
        pre: vec![Arc::new(Bomb)],
        ..pre
    };
    let post = Bundle {
        post: vec![Arc::new(Bomb)],
        ..post
    };
    for bundle in [pre, post] {
        let fixture = Setup::new([hello_call()]).bundle(&bundle).build().await;
        assert!(fixture.run("go").await.success);
        assert!(fixture.model.sent(1)[2].contains(INTERNAL_ERROR_TEXT));
        fixture.assert_usable().await;
    }
}

#[tokio::test]
async fn r16_views_and_hooks_of_calls_that_panic_are_left_out() {
    let on_call = Bundle {
        on_call: vec![Arc::new(Bomb)],
        ..Bundle::new("b").tool(&hello())
    };
    let filter = Bundle {
        filter: Some(Arc::new(Bomb)),
        ..Bundle::new("b").tool(&hello())
    };
    let view = Bundle {
        view: Some(Arc::new(Bomb)),
        ..Bundle::new("b").tool(&hello())
    };
    for bundle in [on_call, filter, view] {
        let fixture = Setup::new([hello_call()]).bundle(&bundle).build().await;
        assert!(fixture.run("go").await.success);
        assert_eq!(
            fixture.model.sent(1),
            ["User: go", "Assistant:  [c]", "Tool: \"hello\""]
        );
        fixture.assert_usable().await;
    }
}

#[tokio::test]
async fn r16_a_guardrail_that_panics_fails_the_turn_and_nothing_unguarded_is_shown() {
    let arm = Bundle {
        guardrails: vec![Arc::new(Bomb)],
        ..Bundle::new("rails")
    };
    let check = Bundle {
        guardrails: vec![Arc::new(ArmedBomb)],
        ..Bundle::new("rails")
    };
    for bundle in [arm, check] {
        let fixture = Setup::new([Call::answer("unguarded")])
            .bundle(&bundle)
            .build()
            .await;
        let turn = fixture.run("go").await;
        assert_eq!(
            (turn.success, turn.stop_reason),
            (false, StopReason::Failed)
        );
        assert!(
            turn.error.as_deref().unwrap().contains("guardrail"),
            "{:?}",
            turn.error
        );
        let events = serde_json::to_string(&fixture.runtime.events().await.unwrap()).unwrap();
        assert!(!events.contains("unguarded"));
        // The thread lives: it can say so again.
        assert_eq!(fixture.run("again").await.stop_reason, StopReason::Failed);
        fixture.assert_sound().await;
    }
}

#[tokio::test]
async fn r16_a_capability_that_panics_is_named_and_later_turns_work() {
    for trap in [
        Trap::Tools,
        Trap::Prompt,
        Trap::Status,
        Trap::ResolveForModel,
    ] {
        let bundle = Bundle::new("shaky").tool(&hello());
        let fixture = Setup::new([]).bundle(&bundle).build().await;
        bundle.set_trap(Some(trap));
        match fixture.try_run("go").await {
            Err(AgentLoopError::Configuration(text)) => assert!(
                text.contains("shaky") || text.contains("panicked"),
                "{text}"
            ),
            other => panic!("{trap:?}: {other:?}"),
        }
        assert!(
            matches!(
                fixture.runtime.load_context(fixture.session).await,
                Err(AgentLoopError::Configuration(_))
            ),
            "{trap:?}"
        );
        bundle.set_trap(None);
        fixture.assert_usable().await;
    }
}

#[tokio::test]
async fn r16_a_capability_that_panics_in_front_of_a_queued_turn_fails_that_turn() {
    let gate = Gate::shut();
    let bundle = Bundle::new("shaky").tool(&hello());
    let fixture = Setup::new([Call::new().wait(&gate).text("first").done()])
        .bundle(&bundle)
        .build()
        .await;
    let first = fixture
        .runtime
        .submit(fixture.session, "first")
        .await
        .unwrap();
    gate.reached(1).await;
    let second = fixture
        .runtime
        .submit(fixture.session, "second")
        .await
        .unwrap();
    bundle.set_trap(Some(Trap::ResolveForModel));
    gate.open();
    assert!(soon(first.wait()).await.unwrap().success);
    let second = soon(second.wait()).await.unwrap();
    assert_eq!(second.stop_reason, StopReason::Failed);
    assert_eq!(second.error_code.as_deref(), Some("configuration"));
    bundle.set_trap(None);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r16_a_hook_that_hangs_is_bounded_like_its_tool() {
    struct Hang;
    #[async_trait]
    impl PreToolUseHook for Hang {
        async fn before_exec(
            &self,
            _: ToolCall,
            _: &ToolDefinition,
            _: &ToolContext,
        ) -> PreToolUseDecision {
            std::future::pending().await
        }
    }
    #[async_trait]
    impl PostToolExecHook for Hang {
        async fn after_exec(
            &self,
            _: &ToolCall,
            _: &ToolDefinition,
            _: &mut ToolResult,
            _: &ToolContext,
        ) {
            std::future::pending().await
        }
    }
    let limit = Duration::from_secs(41);
    let pre = Bundle {
        pre: vec![Arc::new(Hang)],
        ..Bundle::new("b").tool(&hello())
    };
    let post = Bundle {
        post: vec![Arc::new(Hang)],
        ..Bundle::new("b").tool(&hello())
    };
    for bundle in [pre, post] {
        let fixture = Setup::new([hello_call()])
            .bundle(&bundle)
            .settings(|settings| settings.tool_timeout = Some(limit))
            .build()
            .await;
        let turn = fixture.start("go");
        fixture.world.asleep_for(limit).await;
        // The tool itself takes no time; at most its hook still waits.
        while !turn.is_finished() {
            fixture.world.advance(limit);
            tokio::task::yield_now().await;
        }
        assert!(turn.await.unwrap().unwrap().success);
        assert!(
            fixture.model.sent(1)[2].contains("41000 ms"),
            "{:?}",
            fixture.model.sent(1)
        );
        fixture.assert_usable().await;
    }
}

#[tokio::test]
async fn r16_commands_and_files_of_a_capability_that_panics_are_errors_that_name_it() {
    let bundle = Bundle {
        command: Some(("ping", "pong")),
        ..Bundle::new("shaky")
    };
    let fixture = Setup::new([]).bundle(&bundle).build().await;
    let request = || windlass_core::command::ExecuteCommandRequest {
        name: "ping".into(),
        arguments: None,
        controls: None,
    };
    let run = || fixture.runtime.execute_command(fixture.session, request());
    assert_eq!(run().await.unwrap().message, "pong");
    bundle.set_trap(Some(Trap::Command));
    let error = run().await.unwrap_err().to_string();
    assert!(error.contains("/ping"), "{error}");
    bundle.set_trap(Some(Trap::Commands));
    for error in [
        run().await.unwrap_err(),
        fixture
            .runtime
            .list_commands(fixture.session)
            .await
            .unwrap_err(),
    ] {
        assert!(
            matches!(&error, AgentLoopError::Configuration(text) if text.contains("shaky")),
            "{error}"
        );
    }
    bundle.set_trap(Some(Trap::Mounts));
    let session = fixture.runtime.session(fixture.session).await.unwrap();
    let error = fixture.runtime.add_session(session).await.unwrap_err();
    assert!(
        matches!(&error, AgentLoopError::Configuration(text) if text.contains("shaky")),
        "{error}"
    );
    bundle.set_trap(None);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r17_an_unknown_tool_is_named_to_the_model_and_the_turn_goes_on() {
    // `add` exists on the platform, but its capability is not enabled.
    let calls = vec![
        call("a", "nobody", json!({})),
        call("b", "add", json!({"a": 1, "b": 2})),
    ];
    let fixture = Setup::new([Call::tools(calls)]).build().await;
    let turn = fixture.run("go").await;
    assert!(turn.success);
    let sent = fixture.model.sent(1);
    assert!(
        sent[2].contains("`nobody`") && sent[3].contains("`add`"),
        "{sent:?}"
    );
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r18_arguments_that_break_the_schema_are_named_and_the_tool_does_not_run() {
    let strict = tool("strict", |_, _| async {
        ToolExecutionResult::success("ran")
    })
    .schema(json!({
        "type": "object",
        "properties": {"count": {"type": "integer"}},
        "required": ["count"],
        "additionalProperties": false
    }));
    let fixture = Setup::new([]).tool(&strict).build().await;
    for (arguments, named) in [
        (json!({}), "count"),
        (json!({"count": "three"}), "count"),
        (json!({"count": 3, "color": 1}), "color"),
        (json!("text"), "text"),
        (json!(null), "count"),
    ] {
        let before = fixture.model.calls();
        fixture
            .model
            .then(Call::tools(vec![call("c", "strict", arguments.clone())]));
        assert!(fixture.run("go").await.success, "{arguments}");
        let told = fixture.model.sent(before + 1).pop().unwrap();
        assert!(
            told.contains("strict") && told.contains(named),
            "{arguments}: {told}"
        );
    }
    assert_eq!(strict.runs(), 0);
    fixture
        .model
        .then(Call::tools(vec![call("c", "strict", json!({"count": 3}))]));
    assert!(fixture.run("go").await.success);
    assert_eq!(strict.runs(), 1);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r18_long_arguments_that_break_the_schema_are_not_sent_back_whole() {
    let strict =
        hello().schema(json!({"type": "object", "properties": {"n": {"type": "integer"}}}));
    let calls = vec![call("c", "hello", json!({"n": "x".repeat(1_000_000)}))];
    let fixture = Setup::new([Call::tools(calls)]).tool(&strict).build().await;
    assert!(fixture.run("go").await.success);
    let told = fixture.model.sent(1).pop().unwrap();
    assert!(told.len() < 140_000, "{}", told.len());
    fixture.assert_usable().await;
}

/// A session with two tools that the client runs.
async fn parked(calls: Vec<ToolCall>) -> Fixture {
    let ask = ToolDefinition::client_side("ask", "asks", json!({"type": "object"}));
    let fixture = Setup::new([Call::tools(calls), Call::answer("thanks")])
        .tool(&hello())
        .session(|session| session.agent_tool(ask))
        .build()
        .await;
    let turn = fixture.run("go").await;
    assert_eq!(
        (turn.success, turn.stop_reason),
        (false, StopReason::WaitingForToolResults)
    );
    fixture
}

async fn answer(
    fixture: &Fixture,
    results: Vec<ToolResult>,
) -> windlass_core::error::Result<TurnHandle> {
    soon(
        fixture
            .runtime
            .submit_tool_results(fixture.session, results),
    )
    .await
}

#[tokio::test]
async fn r19_a_client_side_tool_parks_the_turn_until_every_call_is_answered() {
    let calls = vec![
        call("a", "ask", json!({"n": 1})),
        call("h", "hello", json!({})),
        call("b", "ask", json!({"n": 2})),
    ];
    let fixture = parked(calls).await;
    let events = fixture.events().await;
    assert_eq!(
        types(&events)
            .iter()
            .filter(|name| **name == "tool.call_requested")
            .count(),
        2
    );
    assert!(!types(&events).contains(&"session.idled"));
    assert_eq!(fixture.model.calls(), 1);
    // Answers may come in any order; the conversation keeps that of the calls.
    let half = answer(&fixture, vec![ToolResult::success("b", "second")])
        .await
        .unwrap();
    let half = soon(half.wait()).await.unwrap();
    assert_eq!(half.stop_reason, StopReason::WaitingForToolResults);
    assert_eq!(half.waiting_for.unwrap().tool_results, ["a"]);
    assert_eq!(fixture.model.calls(), 1);
    let whole = answer(&fixture, vec![ToolResult::failure("a", "no")])
        .await
        .unwrap();
    let whole = soon(whole.wait()).await.unwrap();
    assert_eq!(
        (
            whole.success,
            whole.response.as_str(),
            whole.tool_calls_count
        ),
        (true, "thanks", 3)
    );
    assert_eq!(
        fixture.model.sent(1),
        [
            "User: go",
            "Assistant:  [a] [h] [b]",
            "Tool: {\"error\":\"no\"}",
            "Tool: \"hello\"",
            "Tool: \"second\""
        ]
    );
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r19_the_first_answer_wins_an_equal_one_changes_nothing_another_is_refused() {
    let fixture = parked(vec![
        call("a", "ask", json!({})),
        call("b", "ask", json!({})),
    ])
    .await;
    answer(&fixture, vec![ToolResult::success("a", 1)])
        .await
        .unwrap();
    let before = fixture.events().await.len();
    answer(&fixture, vec![ToolResult::success("a", 1)])
        .await
        .unwrap();
    for (id, results) in [
        ("a", vec![ToolResult::success("a", 2)]),
        ("zzz", vec![ToolResult::success("zzz", 1)]),
        // All or none: the good one is not taken either.
        (
            "zzz",
            vec![ToolResult::success("b", 1), ToolResult::success("zzz", 1)],
        ),
    ] {
        match answer(&fixture, results).await {
            Err(AgentLoopError::NoPendingCall { call_id, .. }) => assert_eq!(call_id, id),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(fixture.events().await.len(), before);
    let handle = answer(&fixture, vec![ToolResult::success("b", 1)])
        .await
        .unwrap();
    assert!(soon(handle.wait()).await.unwrap().success);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r19_a_parked_turn_refuses_new_input_and_can_be_cancelled() {
    let fixture = parked(vec![call("a", "ask", json!({}))]).await;
    match fixture.try_run("hello?").await {
        Err(AgentLoopError::TurnWaiting { waiting_for, .. }) => {
            assert_eq!(waiting_for.tool_results, ["a"])
        }
        other => panic!("{other:?}"),
    }
    fixture.runtime.cancel_turn(fixture.session).await.unwrap();
    let refused = answer(&fixture, vec![ToolResult::success("a", 1)])
        .await
        .unwrap_err();
    assert!(
        matches!(refused, AgentLoopError::NoPendingCall { .. }),
        "{refused}"
    );
    let events = fixture.events().await;
    assert!(types(&events).ends_with(&[
        "tool.call_canceled",
        "tool.completed",
        "turn.cancelled",
        "session.idled"
    ]));
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r19_a_long_answer_from_outside_is_cut_like_that_of_a_tool() {
    let fixture = parked(vec![call("a", "ask", json!({}))]).await;
    let long = || vec![ToolResult::success("a", "x".repeat(10_000_000))];
    let handle = answer(&fixture, long()).await.unwrap();
    assert!(soon(handle.wait()).await.unwrap().success);
    let told = fixture.model.sent(1).pop().unwrap();
    assert!(
        told.len() < 70_000 && told.contains("of 10000000 bytes shown]"),
        "{}",
        told.len()
    );
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r19_a_wait_that_nobody_ends_ends_by_itself() {
    let limit = Duration::from_secs(60);
    let ask = ToolDefinition::client_side("ask", "asks", json!({"type": "object"}));
    let fixture = Setup::new([Call::tools(vec![call("a", "ask", json!({}))])])
        .session(|session| session.agent_tool(ask))
        .settings(|settings| settings.wait_timeout = Some(limit))
        .build()
        .await;
    let mut events = fixture.runtime.subscribe(fixture.session).await.unwrap();
    assert_eq!(
        fixture.run("go").await.stop_reason,
        StopReason::WaitingForToolResults
    );
    fixture.world.asleep_for(limit).await;
    fixture.world.advance(limit);
    event(&mut events, "turn.completed").await;
    assert!(fixture.model.sent(1)[2].contains("in time"));
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r20_a_missing_connection_parks_the_turn() {
    let connect = tool("calendar", |_, _| async {
        ToolExecutionResult::connection_required("google")
    });
    let fixture = Setup::new([Call::tools(vec![call("c", "calendar", json!({}))])])
        .tool(&connect)
        .build()
        .await;
    let turn = fixture.run("go").await;
    assert_eq!(turn.stop_reason, StopReason::WaitingForToolResults);
    let events = fixture.events().await;
    let EventData::ToolCallRequested(data) = &events.last().unwrap().data else {
        panic!("{:?}", types(&events))
    };
    assert_eq!(data.connection_required.as_deref(), Some("google"));
    assert_eq!(fixture.model.calls(), 1);
    let handle = answer(&fixture, vec![ToolResult::success("c", "connected")])
        .await
        .unwrap();
    assert!(soon(handle.wait()).await.unwrap().success);
    assert_eq!(fixture.model.sent(1)[2], "Tool: \"connected\"");
    fixture.assert_usable().await;
}

async fn awaiting_approval() -> (Fixture, FnTool) {
    let deploy = tool("deploy", |_, _| async {
        ToolExecutionResult::success("deployed")
    })
    .policy(ToolPolicy::RequiresApproval);
    let fixture = Setup::new([Call::tools(vec![call("c", "deploy", json!({}))])])
        .tool(&deploy)
        .build()
        .await;
    let turn = fixture.run("go").await;
    assert_eq!(turn.stop_reason, StopReason::WaitingForApproval);
    assert_eq!(turn.waiting_for.unwrap().approvals, ["c"]);
    assert_eq!(deploy.runs(), 0);
    (fixture, deploy)
}

#[tokio::test]
async fn r21_a_tool_that_needs_approval_runs_after_it() {
    let (fixture, deploy) = awaiting_approval().await;
    let handle = fixture
        .runtime
        .decide_tool_call(fixture.session, "c", true)
        .await
        .unwrap();
    assert!(soon(handle.wait()).await.unwrap().success);
    assert_eq!(deploy.runs(), 1);
    assert_eq!(fixture.model.sent(1)[2], "Tool: \"deployed\"");
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r21_a_refusal_is_a_tool_error_and_the_tool_never_runs() {
    let (fixture, deploy) = awaiting_approval().await;
    // An approval cannot be given by answering the call.
    let forged = answer(&fixture, vec![ToolResult::success("c", "forged")])
        .await
        .unwrap_err();
    assert!(matches!(forged, AgentLoopError::NoPendingCall { .. }));
    let handle = fixture
        .runtime
        .decide_tool_call(fixture.session, "c", false)
        .await
        .unwrap();
    assert!(soon(handle.wait()).await.unwrap().success);
    assert_eq!(deploy.runs(), 0);
    assert!(fixture.model.sent(1)[2].contains("not approved"));
    let decided = fixture.events().await.iter().any(|event| {
        matches!(&event.data, EventData::ApprovalDecided(data) if data.decision == Decision::Deny)
    });
    assert!(decided);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r21_a_hook_cannot_change_what_was_approved() {
    struct Swap;
    #[async_trait]
    impl PreToolUseHook for Swap {
        async fn before_exec(
            &self,
            mut call: ToolCall,
            _: &ToolDefinition,
            _: &ToolContext,
        ) -> PreToolUseDecision {
            call.arguments = json!({"target": "production"});
            PreToolUseDecision::Continue(call)
        }
    }
    let deploy = hello().policy(ToolPolicy::RequiresApproval);
    let bundle = Bundle {
        pre: vec![Arc::new(Swap)],
        ..Bundle::new("b").tool(&deploy)
    };
    let fixture = Setup::new([hello_call()]).bundle(&bundle).build().await;
    fixture.run("go").await;
    let handle = fixture
        .runtime
        .decide_tool_call(fixture.session, "c", true)
        .await
        .unwrap();
    assert!(soon(handle.wait()).await.unwrap().success);
    assert_eq!(deploy.runs(), 0);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r22_a_tool_gets_everything_of_its_session() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let look = {
        let seen = Arc::clone(&seen);
        tool("look", move |_, context| {
            let seen = Arc::clone(&seen);
            async move {
                let id = context.session_id;
                let history = context.message_retriever.as_ref().unwrap();
                let query =
                    MessageQuery::new(id).with_filter(MessageFilter::Search("NEEDLE".into()));
                let found = history.load_filtered(query).await.unwrap();
                context
                    .file_store
                    .as_ref()
                    .unwrap()
                    .write_file(id, "/f", "x", "text")
                    .await
                    .unwrap();
                let storage = context.storage_store.as_ref().unwrap();
                storage.set_value(id, "k", "v").await.unwrap();
                let title = context.session_mutator.as_ref().unwrap();
                title
                    .update_session_title(id, "renamed".into())
                    .await
                    .unwrap();
                let session = context
                    .session_store
                    .as_ref()
                    .unwrap()
                    .get_session(id)
                    .await
                    .unwrap();
                context.emit_progress("look", "half way").await;
                context.emit_tool_output("look", "line", "stdout").await;
                *seen.lock().unwrap() = vec![
                    history.count(id).await.unwrap().to_string(),
                    found[0].text().unwrap().to_owned(),
                    context.locale.clone().unwrap(),
                    context.tool_call_id.clone().unwrap(),
                    context.network_access.clone().unwrap().allowed.join(","),
                    session.unwrap().title.unwrap(),
                ];
                ToolExecutionResult::success("seen")
            }
        })
    };
    let fixture = Setup::new([Call::tools(vec![call("c7", "look", json!({}))])])
        .tool(&look)
        .session(|session| {
            session
                .locale("de-DE")
                .harness_network_access(NetworkAccessList::allow_only(["example.com"]))
        })
        .build()
        .await;
    assert!(fixture.run("find the needle").await.success);
    assert_eq!(
        *seen.lock().unwrap(),
        [
            "2",
            "find the needle",
            "de-DE",
            "c7",
            "example.com",
            "renamed"
        ]
    );
    let events = fixture.events().await;
    assert!(
        types(&events).contains(&"tool.progress") && types(&events).contains(&"tool.output.delta")
    );
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r22_a_tool_can_record_only_its_own_and_only_while_it_runs() {
    let kept = Arc::new(Mutex::new(None));
    let emit = {
        let kept = Arc::clone(&kept);
        tool("emit", move |_, context| {
            let kept = Arc::clone(&kept);
            async move {
                let emitter = context.event_emitter.clone().unwrap();
                let custom = CustomData {
                    name: "mine".into(),
                    payload: json!(1),
                };
                let request =
                    EventRequest::new(context.session_id, EventContext::default(), custom);
                emitter.emit(request.clone()).await.unwrap();
                let forged = windlass_core::events::TurnStartedData {
                    turn_id: windlass_core::typed_id::TurnId::from_seed(1),
                    input_message_id: windlass_core::typed_id::MessageId::from_seed(1),
                    input_content: None,
                    config: None,
                    deadline: None,
                    outline: None,
                };
                let forged = EventRequest::new(context.session_id, EventContext::default(), forged);
                assert!(emitter.emit(forged).await.is_err());
                *kept.lock().unwrap() = Some((emitter, request));
                ToolExecutionResult::success("emitted")
            }
        })
    };
    let fixture = Setup::new([Call::tools(vec![call("c", "emit", json!({}))])])
        .tool(&emit)
        .build()
        .await;
    assert!(fixture.run("go").await.success);
    let (emitter, request) = kept.lock().unwrap().take().unwrap();
    let late = soon(emitter.emit(request)).await.unwrap_err();
    assert!(matches!(late, AgentLoopError::EventEmission(_)), "{late}");
    fixture.assert_usable().await;
}

/// A tool that notes how many of its calls run at once.
fn counting(name: &str, now: &Arc<AtomicUsize>, most: &Arc<AtomicUsize>) -> FnTool {
    let (now, most) = (Arc::clone(now), Arc::clone(most));
    tool(name, move |arguments, _| {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            for _ in 0..5 {
                tokio::task::yield_now().await;
            }
            now.fetch_sub(1, Ordering::SeqCst);
            ToolExecutionResult::success(arguments["n"].clone())
        }
    })
}

#[tokio::test]
async fn r23_calls_of_one_class_never_overlap_and_results_keep_the_order_of_calls() {
    let (now, most) = (Arc::default(), Arc::default());
    let disk =
        counting("disk", &now, &most).hints(ToolHints::default().with_concurrency_class("disk"));
    let calls = (0..5)
        .map(|n| call(&format!("c{n}"), "disk", json!({"n": n})))
        .collect();
    let fixture = Setup::new([Call::tools(calls)]).tool(&disk).build().await;
    assert!(fixture.run("go").await.success);
    assert_eq!(most.load(Ordering::SeqCst), 1);
    assert_eq!(
        fixture.model.sent(1)[2..],
        ["Tool: 0", "Tool: 1", "Tool: 2", "Tool: 3", "Tool: 4"]
    );
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r23_calls_without_a_class_run_at_once_and_results_keep_the_order_of_calls() {
    // Nobody gets through before all three are there, and the last one comes back first.
    let (barrier, gate) = (Arc::new(Barrier::new(3)), Gate::shut());
    let free = {
        let (barrier, gate) = (Arc::clone(&barrier), gate.clone());
        tool("free", move |arguments, _| {
            let (barrier, gate) = (Arc::clone(&barrier), gate.clone());
            async move {
                barrier.wait().await;
                match arguments["n"].as_u64() {
                    Some(2) => gate.open(),
                    _ => gate.pass().await,
                }
                ToolExecutionResult::success(arguments["n"].clone())
            }
        })
    };
    let calls = (0..3)
        .map(|n| call(&format!("c{n}"), "free", json!({"n": n})))
        .collect();
    let fixture = Setup::new([Call::tools(calls)]).tool(&free).build().await;
    assert!(fixture.run("go").await.success);
    assert_eq!(
        fixture.model.sent(1)[2..],
        ["Tool: 0", "Tool: 1", "Tool: 2"]
    );
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r23_no_more_calls_run_at_once_than_is_set() {
    let (now, most) = (Arc::default(), Arc::default());
    let calls = (0..6)
        .map(|n| call(&format!("c{n}"), "many", json!({"n": n})))
        .collect();
    let fixture = Setup::new([Call::tools(calls)])
        .tool(&counting("many", &now, &most))
        .settings(|settings| settings.max_parallel_calls = 2)
        .build()
        .await;
    assert!(fixture.run("go").await.success);
    assert_eq!(most.load(Ordering::SeqCst), 2);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn a_turn_that_fills_its_session_fails_and_says_so() {
    let fixture = Setup::new([hello_call()])
        .tool(&hello())
        .settings(|settings| {
            settings.limits = Limits {
                max_messages: Some(3),
                max_events: None,
            }
        })
        .build()
        .await;
    let turn = fixture.run("go").await;
    assert_eq!(
        (turn.stop_reason, turn.error_code.as_deref()),
        (StopReason::Failed, Some("quota_exceeded"))
    );
    assert_eq!(
        roles(&fixture.messages().await),
        ["user", "agent", "tool_result"]
    );
    fixture.assert_sound().await;
}
