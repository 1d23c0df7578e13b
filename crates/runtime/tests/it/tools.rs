//! R17 to R23: tools, approvals, and calls that are answered externally.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use tokio::sync::Barrier;
use windlass_core::atoms::{PreToolUseDecision, PreToolUseHook};
use windlass_core::error::AgentLoopError;
use windlass_core::events::{CustomData, Decision, EventContext, EventData, EventRequest};
use windlass_core::message_filter::{MessageFilter, MessageQuery};
use windlass_core::network_access::NetworkAccessList;
use windlass_core::tools::{
    ToolCall, ToolDefinition, ToolExecutionResult, ToolHints, ToolPolicy, ToolResult,
};
use windlass_core::traits::ToolContext;
use windlass_runtime::{Limits, StopReason, TurnHandle};

use crate::support::{
    Bundle, Fixture, FnTool, Gate, ScriptedCall, Setup, call, event, roles, soon, tool, types,
};

pub(crate) fn hello() -> FnTool {
    tool("hello", |_, _| async {
        ToolExecutionResult::success("hello")
    })
}

pub(crate) fn hello_call() -> ScriptedCall {
    ScriptedCall::tools(vec![call("c", "hello", json!({}))])
}

#[tokio::test]
async fn r17_unknown_tool_is_an_error_and_the_turn_continues() {
    // `add` exists on the platform, but its capability is not enabled.
    let calls = vec![
        call("a", "unknown", json!({})),
        call("b", "add", json!({"a": 1, "b": 2})),
    ];
    let fixture = Setup::new([ScriptedCall::tools(calls)]).build().await;
    let turn = fixture.run("go").await;
    assert!(turn.success);
    let sent = fixture.model.sent(1);
    assert!(
        sent[2].contains("`unknown`") && sent[3].contains("`add`"),
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
        fixture.model.then(ScriptedCall::tools(vec![call(
            "c",
            "strict",
            arguments.clone(),
        )]));
        assert!(fixture.run("go").await.success, "{arguments}");
        let sent = fixture.model.sent(before + 1).pop().unwrap();
        assert!(
            sent.contains("strict") && sent.contains(named),
            "{arguments}: {sent}"
        );
    }
    assert_eq!(strict.runs(), 0);
    fixture.model.then(ScriptedCall::tools(vec![call(
        "c",
        "strict",
        json!({"count": 3}),
    )]));
    assert!(fixture.run("go").await.success);
    assert_eq!(strict.runs(), 1);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r18_long_arguments_that_break_the_schema_are_not_sent_back_whole() {
    let strict =
        hello().schema(json!({"type": "object", "properties": {"n": {"type": "integer"}}}));
    let calls = vec![call("c", "hello", json!({"n": "x".repeat(1_000_000)}))];
    let fixture = Setup::new([ScriptedCall::tools(calls)])
        .tool(&strict)
        .build()
        .await;
    assert!(fixture.run("go").await.success);
    let sent = fixture.model.sent(1).pop().unwrap();
    assert!(sent.len() < 140_000, "{}", sent.len());
    fixture.assert_usable().await;
}

/// A session with two tools that the client runs.
async fn parked(calls: Vec<ToolCall>) -> Fixture {
    let ask = ToolDefinition::client_side("ask", "asks", json!({"type": "object"}));
    let fixture = Setup::new([ScriptedCall::tools(calls), ScriptedCall::answer("thanks")])
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
    // Answers may come in any order; the conversation retains the order of the calls.
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
async fn r19_first_answer_wins_and_a_different_one_is_refused() {
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
        // All or none: the valid one is not accepted either.
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
    let sent = fixture.model.sent(1).pop().unwrap();
    assert!(
        sent.len() < 70_000 && sent.contains("of 10000000 bytes shown]"),
        "{}",
        sent.len()
    );
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r19_unanswered_call_times_out() {
    let limit = Duration::from_secs(60);
    let ask = ToolDefinition::client_side("ask", "asks", json!({"type": "object"}));
    let fixture = Setup::new([ScriptedCall::tools(vec![call("a", "ask", json!({}))])])
        .session(|session| session.agent_tool(ask))
        .settings(|settings| settings.wait_timeout = Some(limit))
        .build()
        .await;
    let mut events = fixture.runtime.subscribe(fixture.session).await.unwrap();
    assert_eq!(
        fixture.run("go").await.stop_reason,
        StopReason::WaitingForToolResults
    );
    fixture.clock.asleep_for(limit).await;
    fixture.clock.advance(limit);
    event(&mut events, "turn.completed").await;
    assert!(fixture.model.sent(1)[2].contains("in time"));
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r20_a_missing_connection_parks_the_turn() {
    let connect = tool("calendar", |_, _| async {
        ToolExecutionResult::connection_required("google")
    });
    let fixture = Setup::new([ScriptedCall::tools(vec![call("c", "calendar", json!({}))])])
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
    let fixture = Setup::new([ScriptedCall::tools(vec![call("c", "deploy", json!({}))])])
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
async fn r21_hook_cannot_change_an_approved_call() {
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
async fn r22_tool_context_is_complete() {
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
    let fixture = Setup::new([ScriptedCall::tools(vec![call("c7", "look", json!({}))])])
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
async fn r22_tool_records_only_its_own_events_and_only_while_it_runs() {
    let captured = Arc::new(Mutex::new(None));
    let emit = {
        let captured = Arc::clone(&captured);
        tool("emit", move |_, context| {
            let captured = Arc::clone(&captured);
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
                    discovered: None,
                };
                let forged = EventRequest::new(context.session_id, EventContext::default(), forged);
                assert!(emitter.emit(forged).await.is_err());
                *captured.lock().unwrap() = Some((emitter, request));
                ToolExecutionResult::success("emitted")
            }
        })
    };
    let fixture = Setup::new([ScriptedCall::tools(vec![call("c", "emit", json!({}))])])
        .tool(&emit)
        .build()
        .await;
    assert!(fixture.run("go").await.success);
    let (emitter, request) = captured.lock().unwrap().take().unwrap();
    let late = soon(emitter.emit(request)).await.unwrap_err();
    assert!(matches!(late, AgentLoopError::EventEmission(_)), "{late}");
    fixture.assert_usable().await;
}

/// A tool that records how many of its calls run at once.
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
    let fixture = Setup::new([ScriptedCall::tools(calls)])
        .tool(&disk)
        .build()
        .await;
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
    // All three must be running before any continues, and the last one finishes first.
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
    let fixture = Setup::new([ScriptedCall::tools(calls)])
        .tool(&free)
        .build()
        .await;
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
    let fixture = Setup::new([ScriptedCall::tools(calls)])
        .tool(&counting("many", &now, &most))
        .settings(|settings| settings.max_parallel_calls = 2)
        .build()
        .await;
    assert!(fixture.run("go").await.success);
    assert_eq!(most.load(Ordering::SeqCst), 2);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn turn_that_exceeds_a_quota_fails_with_its_code() {
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
