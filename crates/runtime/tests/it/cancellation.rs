//! R8 to R15: cancellation, timeouts, limits.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use serde_json::json;
use windlass_core::error::AgentLoopError;
use windlass_core::events::{EventData, ToolStatus};
use windlass_core::message::Message;
use windlass_core::tools::{ToolExecutionResult, ToolHints};
use windlass_runtime::{
    CancellationToken, FileQuota, InMemorySessionFileStore, Limits, OnBusy, RuntimeBackends,
    RuntimeHostAdapter, StopReason, TurnOptions,
};

use crate::support::{
    AnswerPiece, Fixture, FnTool, Gate, ScriptedCall, Setup, call, event, roles, soon, tool, types,
};

/// A tool that waits at a gate.
fn sleeper(gate: &Gate) -> FnTool {
    let gate = gate.clone();
    tool("sleeper", move |_, _| {
        let gate = gate.clone();
        async move {
            gate.pass().await;
            ToolExecutionResult::success("woke")
        }
    })
}

async fn inside_a_tool() -> (Fixture, Gate) {
    let gate = Gate::shut();
    let fixture = Setup::new([ScriptedCall::tools(vec![call("c", "sleeper", json!({}))])])
        .tool(&sleeper(&gate))
        .build()
        .await;
    (fixture, gate)
}

#[tokio::test]
async fn r08_a_cancel_ends_a_turn_inside_a_sleeping_tool() {
    let (fixture, gate) = inside_a_tool().await;
    let turn = fixture.start("go");
    gate.reached(1).await;
    soon(fixture.runtime.cancel_turn(fixture.session))
        .await
        .unwrap();
    let turn = soon(turn).await.unwrap().unwrap();
    assert_eq!(
        (turn.success, turn.stop_reason),
        (false, StopReason::Cancelled)
    );
    let events = fixture.events().await;
    let completed = events.iter().find_map(|event| match &event.data {
        EventData::ToolCompleted(data) => Some(data.status),
        _ => None,
    });
    assert_eq!(completed, Some(ToolStatus::Cancelled));
    assert!(types(&events).ends_with(&["tool.completed", "turn.cancelled", "session.idled"]));
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r08_cancel_ends_a_turn_inside_a_stalled_stream_and_retains_the_text() {
    let gate = Gate::shut();
    let fixture = Setup::new([ScriptedCall::new()
        .text("so far")
        .wait(&gate)
        .text("never")
        .done()])
    .build()
    .await;
    let turn = fixture.start("go");
    gate.reached(1).await;
    soon(fixture.runtime.cancel_turn(fixture.session))
        .await
        .unwrap();
    let turn = soon(turn).await.unwrap().unwrap();
    assert_eq!(
        (turn.stop_reason, turn.response.as_str()),
        (StopReason::Cancelled, "so far")
    );
    assert!(types(&fixture.events().await).ends_with(&["turn.cancelled", "session.idled"]));
    fixture.assert_usable().await;
    assert_eq!(
        fixture.model.sent(1),
        ["User: go", "Assistant: so far", "User: are you there?"]
    );
}

#[tokio::test]
async fn r08_a_cancel_ends_a_turn_while_the_driver_connects() {
    let gate = Gate::shut();
    let fixture = Setup::new([ScriptedCall::new().connecting(AnswerPiece::Wait(gate.clone()))])
        .build()
        .await;
    let turn = fixture.start("go");
    gate.reached(1).await;
    soon(fixture.runtime.cancel_turn(fixture.session))
        .await
        .unwrap();
    assert_eq!(
        soon(turn).await.unwrap().unwrap().stop_reason,
        StopReason::Cancelled
    );
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r08_a_token_ends_the_turn_that_it_was_given_to() {
    let (fixture, gate) = inside_a_tool().await;
    let cancel = CancellationToken::new();
    let options = TurnOptions {
        cancel: Some(cancel.clone()),
        ..TurnOptions::default()
    };
    let turn = {
        let fixture = fixture.clone();
        tokio::spawn(async move {
            fixture
                .runtime
                .run_turn_with(fixture.session, "go", options)
                .await
        })
    };
    gate.reached(1).await;
    cancel.cancel();
    assert_eq!(
        soon(turn).await.unwrap().unwrap().stop_reason,
        StopReason::Cancelled
    );
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r08_a_token_that_is_already_cancelled_starts_nothing() {
    let fixture = Setup::new([]).build().await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let options = TurnOptions {
        cancel: Some(cancel),
        ..TurnOptions::default()
    };
    let refused = fixture
        .runtime
        .run_turn_with(fixture.session, "go", options)
        .await;
    assert!(matches!(refused, Err(AgentLoopError::Cancelled)));
    assert!(fixture.events().await.is_empty());
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r08_a_token_ends_a_submitted_turn_also_when_its_handle_is_gone() {
    let (fixture, gate) = inside_a_tool().await;
    let mut events = fixture.runtime.subscribe(fixture.session).await.unwrap();
    let cancel = CancellationToken::new();
    let options = TurnOptions {
        cancel: Some(cancel.clone()),
        ..TurnOptions::default()
    };
    drop(
        fixture
            .runtime
            .submit_with(fixture.session, "go", options)
            .await
            .unwrap(),
    );
    gate.reached(1).await;
    cancel.cancel();
    event(&mut events, "turn.cancelled").await;
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r08_a_token_given_with_a_steer_ends_the_turn_that_was_steered() {
    let (fixture, gate) = inside_a_tool().await;
    let turn = fixture.start("go");
    gate.reached(1).await;
    let cancel = CancellationToken::new();
    let options = TurnOptions {
        cancel: Some(cancel.clone()),
        on_busy: OnBusy::Steer,
        ..TurnOptions::default()
    };
    let mut events = fixture.runtime.subscribe(fixture.session).await.unwrap();
    let steering = {
        let fixture = fixture.clone();
        tokio::spawn(async move {
            fixture
                .runtime
                .run_turn_with(fixture.session, "faster", options)
                .await
        })
    };
    event(&mut events, "turn.steered").await;
    cancel.cancel();
    assert_eq!(
        soon(steering).await.unwrap().unwrap().stop_reason,
        StopReason::Cancelled
    );
    assert_eq!(
        soon(turn).await.unwrap().unwrap().stop_reason,
        StopReason::Cancelled
    );
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r08_unused_token_does_not_hold_the_runtime() {
    let fixture = Setup::new([]).build().await;
    let cancel = CancellationToken::new();
    let witness = Arc::new(());
    let seen = Arc::downgrade(&witness);
    let options = TurnOptions {
        cancel: Some(cancel.clone()),
        on_event: Some(Arc::new(move |_| {
            let _ = &witness;
        })),
        ..TurnOptions::default()
    };
    let handle = fixture
        .runtime
        .submit_with(fixture.session, "go", options)
        .await
        .unwrap();
    assert!(soon(handle.wait()).await.unwrap().success);
    // The task that waits for the token ends with the turn: only the test's own tasks are left.
    soon(async {
        while tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
            > 0
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(seen.upgrade().is_none(), "the observer is retained");
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r08_a_queued_turn_can_be_cancelled_by_its_id() {
    let gate = Gate::shut();
    let fixture = Setup::new([ScriptedCall::new().wait(&gate).text("first").done()])
        .build()
        .await;
    let first = fixture.start("first");
    gate.reached(1).await;
    let queued = fixture
        .runtime
        .submit(fixture.session, "queued")
        .await
        .unwrap();
    fixture
        .runtime
        .interrupt(
            fixture.session,
            Some(queued.turn_id()),
            Some("changed my mind".into()),
        )
        .await
        .unwrap();
    let queued = soon(queued.wait()).await.unwrap();
    assert_eq!(queued.stop_reason, StopReason::Cancelled);
    assert_eq!(queued.error.as_deref(), Some("Cancelled: changed my mind"));
    gate.open();
    assert!(soon(first).await.unwrap().unwrap().success);
    assert_eq!(roles(&fixture.messages().await), ["user", "agent"]);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r08_a_cancel_that_follows_a_submission_stops_it_although_its_turn_has_not_begun() {
    let fixture = Setup::new([]).build().await;
    let mut turn = pin!(fixture.runtime.run_text_turn(fixture.session, "go"));
    // The submission is still unread in the mailbox.
    assert!(poll(turn.as_mut()).is_pending());
    soon(fixture.runtime.cancel_turn(fixture.session))
        .await
        .unwrap();
    let stopped = soon(turn).await;
    assert!(
        matches!(stopped, Err(AgentLoopError::Cancelled)),
        "{stopped:?}"
    );
    assert!(fixture.events().await.is_empty());
    fixture.assert_usable().await;
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn r09_dropping_a_turn_inside_a_tool_has_the_effect_of_a_cancel() {
    let (fixture, gate) = inside_a_tool().await;
    let mut events = fixture.runtime.subscribe(fixture.session).await.unwrap();
    let turn = fixture.start("go");
    gate.reached(1).await;
    turn.abort();
    event(&mut events, "session.idled").await;
    assert!(types(&fixture.events().await).ends_with(&[
        "tool.completed",
        "turn.cancelled",
        "session.idled"
    ]));
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r09_a_turn_can_be_dropped_at_every_await_point() {
    for polls in 0..20 {
        let hello = tool("hello", |_, _| async {
            tokio::task::yield_now().await;
            ToolExecutionResult::success("hello")
        });
        let fixture = Setup::new([
            ScriptedCall::tools(vec![call("c", "hello", json!({}))]),
            ScriptedCall::answer("done"),
        ])
        .tool(&hello)
        .build()
        .await;
        {
            let mut turn = pin!(fixture.runtime.run_text_turn(fixture.session, "go"));
            for _ in 0..polls {
                if poll(turn.as_mut()).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        // Unused script of the dropped turn must not appear in the next one.
        let turn = fixture.run("next").await;
        assert!(turn.success, "after {polls} polls: {:?}", turn.error);
        fixture.assert_sound().await;
        let messages = fixture.messages().await;
        let last_input = messages
            .iter()
            .rposition(|message| message.text() == Some("next"))
            .unwrap();
        assert!(
            last_input == 0 || messages[0].text() == Some("go"),
            "after {polls} polls"
        );
    }
}

#[tokio::test]
async fn r09_a_queued_turn_that_is_dropped_never_starts() {
    let gate = Gate::shut();
    let fixture = Setup::new([ScriptedCall::new().wait(&gate).text("first").done()])
        .build()
        .await;
    let mut events = fixture.runtime.subscribe(fixture.session).await.unwrap();
    let first = fixture.start("first");
    gate.reached(1).await;
    let queued = fixture.start("queued");
    event(&mut events, "input.queued").await;
    queued.abort();
    event(&mut events, "turn.cancelled").await;
    gate.open();
    assert!(soon(first).await.unwrap().unwrap().success);
    assert_eq!(roles(&fixture.messages().await), ["user", "agent"]);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r09_own_turn_is_cancelled_with_its_caller_under_every_policy() {
    for on_busy in [
        OnBusy::Queue,
        OnBusy::Steer,
        OnBusy::Interrupt,
        OnBusy::Refuse,
    ] {
        let (fixture, gate) = inside_a_tool().await;
        let mut events = fixture.runtime.subscribe(fixture.session).await.unwrap();
        let options = TurnOptions {
            on_busy,
            ..TurnOptions::default()
        };
        let turn = {
            let fixture = fixture.clone();
            tokio::spawn(async move {
                fixture
                    .runtime
                    .run_turn_with(fixture.session, "go", options)
                    .await
            })
        };
        gate.reached(1).await;
        turn.abort();
        event(&mut events, "turn.cancelled").await;
        fixture.assert_usable().await;
    }
}

#[tokio::test]
async fn r09_dropping_a_steer_does_not_stop_the_turn() {
    let (fixture, gate) = inside_a_tool().await;
    let mut events = fixture.runtime.subscribe(fixture.session).await.unwrap();
    let turn = fixture.start("go");
    gate.reached(1).await;
    let options = TurnOptions {
        on_busy: OnBusy::Steer,
        ..TurnOptions::default()
    };
    let steering = {
        let fixture = fixture.clone();
        tokio::spawn(async move {
            fixture
                .runtime
                .run_turn_with(fixture.session, "faster", options)
                .await
        })
    };
    event(&mut events, "turn.steered").await;
    steering.abort();
    let _ = steering.await;
    gate.open();
    assert!(soon(turn).await.unwrap().unwrap().success);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r09_dropping_a_handle_cancels_nothing() {
    let (fixture, gate) = inside_a_tool().await;
    let mut events = fixture.runtime.subscribe(fixture.session).await.unwrap();
    drop(fixture.runtime.submit(fixture.session, "go").await.unwrap());
    gate.reached(1).await;
    gate.open();
    event(&mut events, "turn.completed").await;
    fixture.assert_usable().await;
}

#[test]
fn r09_a_turn_can_be_dropped_outside_of_the_executor() {
    let executor = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let fixture = executor.block_on(Setup::new([]).build());
    let mut turn = Box::pin(fixture.runtime.run_text_turn(fixture.session, "go"));
    executor.block_on(async {
        let mut events = fixture.runtime.subscribe(fixture.session).await.unwrap();
        assert!(poll(turn.as_mut()).is_pending());
        // The turn ends before its caller is notified.
        event(&mut events, "session.idled").await;
        tokio::task::yield_now().await;
    });
    drop(turn);
    executor.block_on(fixture.assert_usable());
}

#[tokio::test]
async fn r10_a_dangling_call_is_repaired_once() {
    let fixture = Setup::new([]).build().await;
    let store = fixture.runtime.message_store();
    store
        .store_message(fixture.session, Message::user("before"))
        .await
        .unwrap();
    let calls = vec![call("lost1", "x", json!({})), call("lost2", "x", json!({}))];
    store
        .store_message(fixture.session, Message::assistant_with_tools("", calls))
        .await
        .unwrap();
    for _ in 0..2 {
        assert!(fixture.run("continue").await.success);
    }
    let events = fixture.events().await;
    let repaired = types(&events)
        .iter()
        .filter(|name| **name == "transcript.repaired")
        .count();
    assert_eq!(repaired, 2);
    assert_eq!(
        roles(&fixture.messages().await),
        [
            "user",
            "agent",
            "tool_result",
            "tool_result",
            "user",
            "agent",
            "user",
            "agent"
        ]
    );
    assert!(
        fixture.model.sent(0)[2].contains("lost"),
        "{:?}",
        fixture.model.sent(0)
    );
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r11_tool_timeout_is_an_error_and_the_turn_continues() {
    let gate = Gate::shut();
    let fixture = Setup::new([ScriptedCall::tools(vec![call("c", "sleeper", json!({}))])])
        .tool(&sleeper(&gate))
        .settings(|settings| settings.tool_timeout = Some(Duration::from_secs(77)))
        .build()
        .await;
    let turn = fixture.start("go");
    gate.reached(1).await;
    fixture.clock.asleep_for(Duration::from_secs(77)).await;
    fixture.clock.advance(Duration::from_secs(77));
    assert!(soon(turn).await.unwrap().unwrap().success);
    let sent = fixture.model.sent(1).pop().unwrap();
    assert!(
        sent.contains("sleeper") && sent.contains("77000 ms"),
        "{sent}"
    );
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r11_a_tool_has_its_own_timeout() {
    let gate = Gate::shut();
    let own = sleeper(&gate).hints(ToolHints::default().with_timeout_ms(5));
    let fixture = Setup::new([ScriptedCall::tools(vec![call("c", "sleeper", json!({}))])])
        .tool(&own)
        .build()
        .await;
    let turn = fixture.start("go");
    gate.reached(1).await;
    fixture.clock.asleep_for(Duration::from_millis(5)).await;
    fixture.clock.advance(Duration::from_millis(5));
    assert!(soon(turn).await.unwrap().unwrap().success);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r11_a_turn_that_takes_too_long_times_out() {
    let (fixture, gate) = inside_a_tool().await;
    let limit = Duration::from_secs(9);
    let options = TurnOptions {
        turn_timeout: Some(limit),
        ..TurnOptions::default()
    };
    let turn = {
        let fixture = fixture.clone();
        tokio::spawn(async move {
            fixture
                .runtime
                .run_turn_with(fixture.session, "go", options)
                .await
        })
    };
    gate.reached(1).await;
    fixture.clock.asleep_for(limit).await;
    fixture.clock.advance(limit);
    let turn = soon(turn).await.unwrap().unwrap();
    assert_eq!(
        (turn.success, turn.stop_reason),
        (false, StopReason::TimedOut)
    );
    assert_eq!(turn.error_code.as_deref(), Some("turn_timeout"));
    assert_eq!(turn.duration, limit);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r12_reaching_the_limit_of_model_calls_is_no_success_and_leaves_no_call_open() {
    let again = tool("again", |_, _| async { ToolExecutionResult::success(1) });
    let fixture = Setup::new(
        (0..2).map(|n| ScriptedCall::tools(vec![call(&format!("c{n}"), "again", json!({}))])),
    )
    .tool(&again)
    .session(|session| session.agent_max_iterations(2))
    .build()
    .await;
    let turn = fixture.run("go").await;
    assert_eq!(
        (turn.success, turn.stop_reason),
        (false, StopReason::MaxIterations)
    );
    assert_eq!(turn.error.as_deref(), Some("Max iterations reached: 2"));
    assert_eq!((turn.iterations, again.runs()), (2, 1));
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r13_an_answer_in_the_last_allowed_model_call_is_an_ordinary_success() {
    let once = tool("once", |_, _| async { ToolExecutionResult::success(1) });
    let fixture = Setup::new([
        ScriptedCall::tools(vec![call("c", "once", json!({}))]),
        ScriptedCall::answer("done"),
    ])
    .tool(&once)
    .session(|session| session.agent_max_iterations(2))
    .build()
    .await;
    let turn = fixture.run("go").await;
    assert_eq!(
        (turn.success, turn.stop_reason, turn.error),
        (true, StopReason::Completed, None)
    );
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r14_a_long_result_is_cut_before_it_is_stored_and_sent() {
    let verbose = tool("verbose", |_, _| async {
        ToolExecutionResult::success("é".repeat(5_000_000))
    });
    let fixture = Setup::new([ScriptedCall::tools(vec![call("c", "verbose", json!({}))])])
        .tool(&verbose)
        .build()
        .await;
    assert!(fixture.run("go").await.success);
    let sent = fixture.model.sent(1).pop().unwrap();
    assert!(sent.len() < 70_000, "{}", sent.len());
    assert!(
        sent.contains("of 10000000 bytes shown]"),
        "{}",
        &sent[sent.len() - 60..]
    );
    let stored: usize = fixture
        .events()
        .await
        .iter()
        .map(|event| serde_json::to_string(&**event).unwrap().len())
        .sum();
    assert!(stored < 200_000, "{stored}");
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r15_full_session_refuses_input_and_is_unchanged() {
    for (limits, what) in [
        (
            Limits {
                max_messages: Some(2),
                max_events: None,
            },
            "messages",
        ),
        (
            Limits {
                max_messages: None,
                max_events: Some(5),
            },
            "events",
        ),
    ] {
        let fixture = Setup::new([])
            .settings(|settings| settings.limits = limits)
            .build()
            .await;
        assert!(fixture.run("fits").await.success);
        let before = fixture.events().await.len();
        match fixture.try_run("too much").await {
            Err(AgentLoopError::QuotaExceeded(quota)) => assert_eq!(quota.what, what),
            other => panic!("{other:?}"),
        }
        assert_eq!(fixture.events().await.len(), before);
        fixture.assert_sound().await;
    }
}

#[tokio::test]
async fn r15_file_quota_is_a_tool_error_and_the_turn_continues() {
    let quota = FileQuota {
        max_files: Some(1),
        max_file_bytes: Some(10),
        max_total_bytes: Some(10),
    };
    let files = Arc::new(InMemorySessionFileStore::new().with_quota(quota));
    let write = tool("write", |arguments, context| async move {
        let files = context.file_store.clone().unwrap();
        let path = arguments["path"].as_str().unwrap().to_owned();
        let content = arguments["content"].as_str().unwrap();
        match files
            .write_file(context.session_id, &path, content, "text")
            .await
        {
            Ok(_) => ToolExecutionResult::success("written"),
            Err(AgentLoopError::QuotaExceeded(quota)) => {
                ToolExecutionResult::tool_error(quota.to_string())
            }
            Err(other) => ToolExecutionResult::internal_error_msg(other.to_string()),
        }
    });
    let calls = vec![
        call(
            "a",
            "write",
            json!({"path": "/big", "content": "x".repeat(11)}),
        ),
        call("b", "write", json!({"path": "/one", "content": "1"})),
    ];
    let fixture = Setup::new([ScriptedCall::tools(calls)])
        .tool(&write)
        .settings(|settings| settings.max_parallel_calls = 1)
        .backends(RuntimeBackends::in_memory().with_file_system(files))
        .build()
        .await;
    assert!(fixture.run("go").await.success);
    let sent = fixture.model.sent(1);
    assert!(sent[2].contains("bytes per file"), "{sent:?}");
    assert!(sent[3].contains("written"), "{sent:?}");
    assert!(
        fixture
            .runtime
            .read_file(fixture.session, "/big")
            .await
            .unwrap()
            .is_none()
    );
    fixture.assert_usable().await;
}
