//! R1 to R7: turns, their order, and their records.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::Barrier;
use windlass_core::command::ExecuteCommandRequest;
use windlass_core::error::AgentLoopError;
use windlass_core::events::EventData;
use windlass_core::llmsim_driver::LlmSimConfig;
use windlass_core::session::SessionStatus;
use windlass_core::tools::{ToolDefinition, ToolExecutionResult, ToolResult};
use windlass_core::typed_id::SessionId;
use windlass_runtime::{
    AgentBuilder, HarnessBuilder, InProcessRuntimeBuilder, OnBusy, SessionBuilder, StopReason,
    TurnOptions,
};

use crate::support::{
    AnswerPiece, Fixture, Gate, ScriptedCall, Setup, call, event, roles, soon, tool, types,
};

fn add(id: &str) -> windlass_core::tools::ToolCall {
    call(id, "add", json!({"a": 1, "b": 2}))
}

#[tokio::test]
async fn r01_two_concurrent_one_tool_turns_run_one_after_the_other() {
    let sim = LlmSimConfig::sequence(vec!["working".into(), "done".into()])
        .with_tool_call_sequence(vec![vec![add("c")], vec![]]);
    let runtime = InProcessRuntimeBuilder::new()
        .llm_sim(sim)
        .single_session(|session| session.with_capability("test_math"))
        .build()
        .await
        .unwrap();
    let session = runtime.default_session_id().unwrap();
    let (first, second) = soon(async {
        tokio::join!(
            runtime.run_text_turn(session, "first"),
            runtime.run_text_turn(session, "second")
        )
    })
    .await;
    assert_eq!(first.unwrap().response, "done");
    assert_eq!(second.unwrap().response, "done");
    let messages = runtime.messages(session).await.unwrap();
    let once = ["user", "agent", "tool_result", "agent"];
    assert_eq!(roles(&messages), [once, once].concat());
    assert_eq!(messages[0].text(), Some("first"));
    assert_eq!(messages[4].text(), Some("second"));
}

#[tokio::test]
async fn r01_queued_turns_start_in_the_order_of_their_calls() {
    let gate = Gate::shut();
    let fixture = Setup::new([ScriptedCall::new().wait(&gate).text("0").done()])
        .build()
        .await;
    let mut handles = vec![fixture.runtime.submit(fixture.session, "0").await.unwrap()];
    gate.reached(1).await;
    for n in 1..6 {
        fixture.model.then(ScriptedCall::answer(&n.to_string()));
        handles.push(
            fixture
                .runtime
                .submit(fixture.session, n.to_string())
                .await
                .unwrap(),
        );
    }
    // A queued input is no part of the conversation yet.
    assert_eq!(roles(&fixture.messages().await), ["user"]);
    gate.open();
    for (n, handle) in handles.into_iter().enumerate() {
        assert_eq!(soon(handle.wait()).await.unwrap().response, n.to_string());
    }
    let texts: Vec<_> = fixture
        .messages()
        .await
        .iter()
        .filter_map(|m| m.text().map(str::to_owned))
        .collect();
    assert_eq!(
        texts,
        ["0", "0", "1", "1", "2", "2", "3", "3", "4", "4", "5", "5"]
    );
    assert_eq!(
        fixture.model.sent(1),
        ["User: 0", "Assistant: 0", "User: 1"]
    );
    fixture.assert_sound().await;
}

/// Submits under a policy while a model call is held at a gate.
async fn submit_while_busy(
    on_busy: OnBusy,
) -> (
    Fixture,
    Gate,
    windlass_core::error::Result<windlass_runtime::TurnHandle>,
    windlass_runtime::TurnHandle,
) {
    let gate = Gate::shut();
    let fixture = Setup::new([ScriptedCall::new()
        .text("half")
        .wait(&gate)
        .text(" whole")
        .done()])
    .build()
    .await;
    let first = fixture
        .runtime
        .submit(fixture.session, "first")
        .await
        .unwrap();
    gate.reached(1).await;
    let options = TurnOptions {
        on_busy,
        ..TurnOptions::default()
    };
    let second = soon(
        fixture
            .runtime
            .submit_with(fixture.session, "second", options),
    )
    .await;
    (fixture, gate, second, first)
}

#[tokio::test]
async fn r01_on_busy_queue_waits_for_its_own_turn() {
    let (fixture, gate, second, first) = submit_while_busy(OnBusy::Queue).await;
    let second = second.unwrap();
    assert_ne!(second.turn_id(), first.turn_id());
    gate.open();
    assert_eq!(soon(first.wait()).await.unwrap().response, "half whole");
    assert_eq!(soon(second.wait()).await.unwrap().response, "ok");
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r01_on_busy_steer_joins_the_running_turn_at_its_next_model_call() {
    let (fixture, gate, second, first) = submit_while_busy(OnBusy::Steer).await;
    let second = second.unwrap();
    assert_eq!(second.turn_id(), first.turn_id());
    gate.open();
    let (first, second) = (
        soon(first.wait()).await.unwrap(),
        soon(second.wait()).await.unwrap(),
    );
    assert_eq!((first.iterations, first.response.as_str()), (2, "ok"));
    assert_eq!(first, second);
    assert_eq!(
        fixture.model.sent(1),
        ["User: first", "Assistant: half whole", "User: second"]
    );
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r01_on_busy_interrupt_stops_the_running_turn_and_goes_first() {
    let (fixture, _gate, second, first) = submit_while_busy(OnBusy::Interrupt).await;
    let first = soon(first.wait()).await.unwrap();
    assert_eq!(
        (first.stop_reason, first.response.as_str()),
        (StopReason::Cancelled, "half")
    );
    assert_eq!(soon(second.unwrap().wait()).await.unwrap().response, "ok");
    assert_eq!(
        fixture.model.sent(1),
        ["User: first", "Assistant: half", "User: second"]
    );
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r01_on_busy_refuse_names_the_running_turn_and_changes_nothing() {
    let (fixture, gate, second, first) = submit_while_busy(OnBusy::Refuse).await;
    match second.unwrap_err() {
        AgentLoopError::TurnBusy {
            session_id,
            turn_id,
        } => {
            assert_eq!((session_id, turn_id), (fixture.session, first.turn_id()));
        }
        other => panic!("{other}"),
    }
    gate.open();
    assert!(soon(first.wait()).await.unwrap().success);
    assert_eq!(roles(&fixture.messages().await), ["user", "agent"]);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r01_an_idle_session_takes_an_input_under_every_policy() {
    let fixture = Setup::new([]).build().await;
    for on_busy in [
        OnBusy::Queue,
        OnBusy::Steer,
        OnBusy::Interrupt,
        OnBusy::Refuse,
    ] {
        let options = TurnOptions {
            on_busy,
            ..TurnOptions::default()
        };
        let turn = soon(
            fixture
                .runtime
                .run_turn_with(fixture.session, "hi", options),
        )
        .await
        .unwrap();
        assert!(turn.success, "{on_busy:?}");
    }
    fixture.assert_sound().await;
}

#[tokio::test]
async fn r01_a_queued_turn_keeps_its_own_tool_timeout() {
    let (gate, never) = (Gate::shut(), Gate::shut());
    let slow = {
        let never = never.clone();
        tool("slow", move |_, _| {
            let never = never.clone();
            async move {
                never.pass().await;
                ToolExecutionResult::success("late")
            }
        })
    };
    let fixture = Setup::new([
        ScriptedCall::new().wait(&gate).text("first").done(),
        ScriptedCall::tools(vec![call("c", "slow", json!({}))]),
    ])
    .tool(&slow)
    .build()
    .await;
    let first = fixture
        .runtime
        .submit(fixture.session, "first")
        .await
        .unwrap();
    gate.reached(1).await;
    let limit = std::time::Duration::from_millis(1234);
    let options = TurnOptions {
        tool_timeout: Some(limit),
        ..TurnOptions::default()
    };
    let second = fixture
        .runtime
        .submit_with(fixture.session, "second", options)
        .await
        .unwrap();
    gate.open();
    soon(first.wait()).await.unwrap();
    never.reached(1).await;
    fixture.clock.asleep_for(limit).await;
    fixture.clock.advance(limit);
    assert!(soon(second.wait()).await.unwrap().success);
    assert!(
        fixture.model.sent(2).last().unwrap().contains("1234 ms"),
        "{:?}",
        fixture.model.sent(2)
    );
}

#[tokio::test]
async fn r02_turns_of_different_sessions_run_at_the_same_time() {
    const SESSIONS: u128 = 100;
    let fixture = Setup::new([]).build().await;
    let harness_id = fixture
        .runtime
        .session(fixture.session)
        .await
        .unwrap()
        .harness_id;
    // No call returns before all of them have been made.
    let gate = Gate::shut();
    let mut turns = tokio::task::JoinSet::new();
    for n in 0..SESSIONS {
        let session = SessionBuilder::new(harness_id)
            .id(SessionId::from_seed(n + 1))
            .build();
        let id = session.id;
        fixture.runtime.add_session(session).await.unwrap();
        fixture.model.then(
            ScriptedCall::new()
                .connecting(AnswerPiece::Wait(gate.clone()))
                .text("hi")
                .done(),
        );
        let runtime = fixture.runtime.clone();
        turns.spawn(async move { runtime.run_text_turn(id, "hello").await });
    }
    gate.reached(SESSIONS as usize).await;
    gate.open();
    let results = soon(turns.join_all()).await;
    assert!(
        results
            .iter()
            .all(|turn| turn.as_ref().is_ok_and(|turn| turn.response == "hi"))
    );
}

#[tokio::test]
async fn r03_after_every_outcome_each_call_has_exactly_one_result() {
    let hang = Gate::shut();
    let sleeper = {
        let hang = hang.clone();
        tool("sleeper", move |_, _| {
            let hang = hang.clone();
            async move {
                hang.pass().await;
                ToolExecutionResult::success(1)
            }
        })
    };
    let bomb = tool("bomb", |_, _| async { panic!("scripted") });
    let fine = tool("fine", |_, _| async {
        ToolExecutionResult::success("fine")
    });
    let fixture = Setup::new([])
        .tool(&sleeper)
        .tool(&bomb)
        .tool(&fine)
        .session(|session| session.agent_max_iterations(2))
        .build()
        .await;
    let all = |n: usize| {
        let calls = ["sleeper", "bomb", "fine", "unknown"];
        ScriptedCall::tools(
            calls
                .iter()
                .map(|name| call(&format!("{name}{n}"), name, json!({})))
                .collect(),
        )
    };
    // Cancelled.
    fixture.model.then(all(0));
    let turn = fixture.start("cancel me");
    hang.reached(1).await;
    fixture.runtime.cancel_turn(fixture.session).await.unwrap();
    assert_eq!(
        soon(turn).await.unwrap().unwrap().stop_reason,
        StopReason::Cancelled
    );
    // Dropped.
    fixture.model.then(all(1));
    let turn = fixture.start("drop me");
    hang.reached(2).await;
    turn.abort();
    let _ = turn.await;
    // Success, with a panic and an unknown tool among the calls. The drop has taken effect before.
    hang.open();
    fixture.model.then(all(2));
    assert!(fixture.run("succeed").await.success);
    // The limit.
    fixture.model.then(all(3));
    fixture.model.then(all(4));
    assert_eq!(
        fixture.run("too long").await.stop_reason,
        StopReason::MaxIterations
    );
    // A failure after tools.
    fixture.model.then(all(5));
    fixture
        .model
        .then(ScriptedCall::refused(AgentLoopError::llm("gone")));
    assert_eq!(fixture.run("fail").await.stop_reason, StopReason::Failed);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r04_session_status_follows_the_turn() {
    let gate = Gate::shut();
    let definition = ToolDefinition::client_side("ask", "asks", json!({"type": "object"}));
    let fixture = Setup::new([
        ScriptedCall::new().wait(&gate).text("one").done(),
        ScriptedCall::tools(vec![call("c", "ask", json!({}))]),
    ])
    .session(|session| session.agent_tool(definition))
    .build()
    .await;
    let record = || async { fixture.runtime.session(fixture.session).await.unwrap() };
    let fresh = record().await;
    assert_eq!(
        (fresh.status, fresh.started_at, fresh.usage),
        (SessionStatus::Started, None, None)
    );
    let turn = fixture.start("one");
    gate.reached(1).await;
    let active = record().await;
    assert_eq!(active.status, SessionStatus::Active);
    assert!(active.started_at.is_some());
    fixture.clock.advance(std::time::Duration::from_secs(1));
    gate.open();
    soon(turn).await.unwrap().unwrap();
    let idle = record().await;
    assert_eq!(idle.status, SessionStatus::Idle);
    assert_eq!(idle.started_at, active.started_at);
    assert!(idle.updated_at > active.updated_at);
    assert_eq!(
        idle.usage
            .map(|usage| (usage.input_tokens, usage.output_tokens)),
        Some((10, 5))
    );
    assert_eq!(
        fixture.run("two").await.stop_reason,
        StopReason::WaitingForToolResults
    );
    assert_eq!(record().await.status, SessionStatus::WaitingForToolResults);
    let handle = fixture
        .runtime
        .submit_tool_results(fixture.session, vec![ToolResult::success("c", "yes")])
        .await
        .unwrap();
    soon(handle.wait()).await.unwrap();
    let end = record().await;
    assert_eq!(end.status, SessionStatus::Idle);
    assert_eq!(
        end.usage
            .map(|usage| (usage.input_tokens, usage.output_tokens)),
        Some((30, 15))
    );
}

#[tokio::test]
async fn r05_turn_completed_has_the_metrics_of_the_turn() {
    let fixture = Setup::new([
        ScriptedCall::tools(vec![call("c", "echo", json!({}))]),
        ScriptedCall::answer("done"),
    ])
    .tool(&tool("echo", |_, _| async {
        ToolExecutionResult::success("hi")
    }))
    .build()
    .await;
    let turn = fixture.run("go").await;
    let events = fixture.events().await;
    let EventData::TurnCompleted(data) = &events[events.len() - 2].data else {
        panic!("{:?}", types(&events))
    };
    assert_eq!((data.turn_id, data.iterations), (turn.turn_id, 2));
    assert_eq!(data.duration_ms, Some(0));
    assert_eq!(
        (data.tool_call_count, data.llm_call_count),
        (Some(1), Some(2))
    );
    assert_eq!(data.usage.map(|usage| usage.input_tokens), Some(20));
    assert_eq!(data.status.as_deref(), Some("completed"));
    assert_eq!(
        data.final_message_id,
        fixture.messages().await.last().map(|message| message.id)
    );
    assert_eq!((turn.iterations, turn.tool_calls_count), (2, 1));
    assert_eq!(turn.usage, data.usage);
}

#[tokio::test]
async fn r06_records_are_added_and_removed_at_run_time() {
    let fixture = Setup::new([]).build().await;
    let runtime = &fixture.runtime;
    let harness = HarnessBuilder::new("late", "Late.").build();
    let agent = AgentBuilder::new("late", "Later.").build();
    let (harness_id, agent_id) = (harness.id, agent.public_id);
    runtime.add_harness(harness).await.unwrap();
    runtime.add_agent(agent).await.unwrap();
    let session = SessionBuilder::new(harness_id).agent(agent_id).build();
    let id = session.id;
    runtime.add_session(session).await.unwrap();
    assert!(
        runtime
            .list_harnesses()
            .await
            .unwrap()
            .iter()
            .any(|harness| harness.id == harness_id)
    );
    assert!(
        runtime
            .list_agents()
            .await
            .unwrap()
            .iter()
            .any(|agent| agent.public_id == agent_id)
    );
    assert!(
        runtime
            .list_sessions()
            .await
            .unwrap()
            .iter()
            .any(|session| session.id == id)
    );
    assert!(runtime.run_text_turn(id, "hi").await.unwrap().success);
    assert_eq!(
        fixture.model.requests()[0].system_prompt.as_ref(),
        "Late.\n\nLater."
    );

    assert!(runtime.remove_agent(agent_id).await.unwrap());
    assert!(matches!(
        runtime.run_text_turn(id, "hi").await,
        Err(AgentLoopError::AgentNotFound(gone)) if gone == agent_id
    ));
    assert!(runtime.remove_harness(harness_id).await.unwrap());
    assert!(!runtime.remove_harness(harness_id).await.unwrap());
    assert!(matches!(
        runtime.run_text_turn(id, "hi").await,
        Err(AgentLoopError::HarnessNotFound(gone)) if gone == harness_id
    ));
    runtime.remove_session(id).await.unwrap();
    assert!(
        !runtime
            .list_sessions()
            .await
            .unwrap()
            .iter()
            .any(|session| session.id == id)
    );
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r06_removing_a_session_ends_its_turn_and_notifies_all_callers() {
    let gate = Gate::shut();
    let fixture = Setup::new([ScriptedCall::new().wait(&gate).text("never").done()])
        .build()
        .await;
    let (runtime, session) = (&fixture.runtime, fixture.session);
    let mut events = runtime.subscribe(session).await.unwrap();
    let running = fixture.start("running");
    gate.reached(1).await;
    let queued = runtime.submit(session, "queued").await.unwrap();
    soon(runtime.remove_session(session)).await.unwrap();
    assert_eq!(
        soon(running).await.unwrap().unwrap().stop_reason,
        StopReason::Cancelled
    );
    assert_eq!(
        soon(queued.wait()).await.unwrap().stop_reason,
        StopReason::Cancelled
    );
    soon(async { while events.next().await.is_some() {} }).await;
    let gone = runtime.run_text_turn(session, "again").await.unwrap_err();
    assert!(
        matches!(gone, AgentLoopError::SessionNotFound(id) if id == session),
        "{gone}"
    );
    assert!(runtime.events().await.unwrap().is_empty());
}

#[tokio::test]
async fn r06_turn_during_the_removal_gets_session_not_found() {
    // Many interleavings: the turn runs before, during or after the removal.
    for polls in 0..8 {
        let fixture = Setup::new([]).build().await;
        let barrier = Arc::new(Barrier::new(2));
        let turn = {
            let (fixture, barrier) = (fixture.clone(), Arc::clone(&barrier));
            tokio::spawn(async move {
                barrier.wait().await;
                for _ in 0..polls {
                    tokio::task::yield_now().await;
                }
                fixture.try_run("hi").await
            })
        };
        barrier.wait().await;
        soon(fixture.runtime.remove_session(fixture.session))
            .await
            .unwrap();
        match soon(turn).await.unwrap() {
            Ok(turn) => assert!(turn.success || turn.stop_reason == StopReason::Cancelled),
            Err(AgentLoopError::SessionNotFound(id)) => assert_eq!(id, fixture.session),
            Err(other) => panic!("after {polls}: {other}"),
        }
        let gone = fixture.try_run("again").await.unwrap_err();
        assert!(matches!(gone, AgentLoopError::SessionNotFound(_)), "{gone}");
        assert!(
            fixture.runtime.events().await.unwrap().is_empty(),
            "a ghost writes events"
        );
    }
}

#[tokio::test]
async fn busy_session_is_not_removed_as_idle() {
    let gate = Gate::shut();
    let fixture = Setup::new([ScriptedCall::new().wait(&gate).text("done").done()])
        .build()
        .await;
    let (runtime, session) = (&fixture.runtime, fixture.session);
    let running = fixture.start("running");
    gate.reached(1).await;
    let queued = runtime.submit(session, "queued").await.unwrap();
    let busy = soon(runtime.remove_idle_session(session)).await;
    assert!(
        matches!(busy, Err(AgentLoopError::TurnBusy { session_id, .. }) if session_id == session),
        "{busy:?}"
    );
    gate.open();
    assert_eq!(soon(running).await.unwrap().unwrap().response, "done");
    assert!(soon(queued.wait()).await.unwrap().success);
    soon(runtime.remove_idle_session(session)).await.unwrap();
    let gone = runtime.session(session).await;
    assert!(matches!(gone, Err(AgentLoopError::SessionNotFound(_))));
}

#[tokio::test]
async fn removal_of_an_idle_session_ends_no_turn() {
    // Many interleavings: the turn runs before, during or after the removal.
    for polls in 0..24 {
        let fixture = Setup::new([]).build().await;
        let turn = {
            let fixture = fixture.clone();
            tokio::spawn(async move { fixture.try_run("hi").await })
        };
        for _ in 0..polls {
            tokio::task::yield_now().await;
        }
        let removed = soon(fixture.runtime.remove_idle_session(fixture.session)).await;
        let turn = soon(turn).await.unwrap();
        match (&removed, &turn) {
            (Ok(()) | Err(AgentLoopError::TurnBusy { .. }), Ok(turn)) if turn.success => {}
            (Ok(()), Err(AgentLoopError::SessionNotFound(_))) => {}
            other => panic!("after {polls}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn r07_unknown_session_is_an_error_of_every_function() {
    let fixture = Setup::new([]).build().await;
    let (runtime, unknown) = (&fixture.runtime, SessionId::from_seed(404));
    let command = ExecuteCommandRequest {
        name: "btw".into(),
        arguments: None,
        controls: None,
    };
    let outcomes = [
        ("run_turn", runtime.run_turn(unknown, "hi").await.map(drop)),
        (
            "run_text_turn",
            runtime.run_text_turn(unknown, "hi").await.map(drop),
        ),
        (
            "run_turn_with",
            runtime
                .run_turn_with(unknown, "hi", TurnOptions::default())
                .await
                .map(drop),
        ),
        ("submit", runtime.submit(unknown, "hi").await.map(drop)),
        (
            "submit_with",
            runtime
                .submit_with(unknown, "hi", TurnOptions::default())
                .await
                .map(drop),
        ),
        ("steer", runtime.steer(unknown, "hi").await.map(drop)),
        ("cancel_turn", runtime.cancel_turn(unknown).await),
        ("interrupt", runtime.interrupt(unknown, None, None).await),
        (
            "submit_tool_results",
            runtime.submit_tool_results(unknown, vec![]).await.map(drop),
        ),
        (
            "decide_tool_call",
            runtime.decide_tool_call(unknown, "c", true).await.map(drop),
        ),
        (
            "load_context",
            runtime.load_context(unknown).await.map(drop),
        ),
        (
            "list_commands",
            runtime.list_commands(unknown).await.map(drop),
        ),
        (
            "execute_command",
            runtime.execute_command(unknown, command).await.map(drop),
        ),
        ("messages", runtime.messages(unknown).await.map(drop)),
        (
            "messages_page",
            runtime.messages_page(unknown, 0, 1).await.map(drop),
        ),
        ("events_for", runtime.events_for(unknown).await.map(drop)),
        (
            "events_since",
            runtime.events_since(unknown, 0, 1).await.map(drop),
        ),
        ("subscribe", runtime.subscribe(unknown).await.map(drop)),
        (
            "subscribe_after",
            runtime.subscribe_after(unknown, 0).await.map(drop),
        ),
        ("session", runtime.session(unknown).await.map(drop)),
        ("remove_session", runtime.remove_session(unknown).await),
        (
            "read_file",
            runtime.read_file(unknown, "/x").await.map(drop),
        ),
    ];
    for (function, outcome) in outcomes {
        match outcome {
            Err(AgentLoopError::SessionNotFound(id)) => assert_eq!(id, unknown, "{function}"),
            other => panic!("{function}: {other:?}"),
        }
    }
    assert!(runtime.events().await.unwrap().is_empty());
    assert_eq!(fixture.model.calls(), 0);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn steering_between_tools_is_read_at_the_next_model_call() {
    let gate = Gate::shut();
    let slow = {
        let gate = gate.clone();
        tool("slow", move |_, _| {
            let gate = gate.clone();
            async move {
                gate.pass().await;
                ToolExecutionResult::success("slept")
            }
        })
    };
    let fixture = Setup::new([ScriptedCall::tools(vec![call("c", "slow", json!({}))])])
        .tool(&slow)
        .build()
        .await;
    let mut events = fixture.runtime.subscribe(fixture.session).await.unwrap();
    let turn = fixture.start("go");
    gate.reached(1).await;
    let steered = fixture
        .runtime
        .steer(fixture.session, "faster")
        .await
        .unwrap();
    event(&mut events, "turn.steered").await;
    assert_eq!(roles(&fixture.messages().await), ["user", "agent"]);
    gate.open();
    let turn = soon(turn).await.unwrap().unwrap();
    assert_eq!(soon(steered.wait()).await.unwrap(), turn);
    assert_eq!(
        fixture.model.sent(1),
        [
            "User: go",
            "Assistant:  [c]",
            "Tool: \"slept\"",
            "User: faster"
        ]
    );
    fixture.assert_usable().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r03_session_is_consistent_after_random_submits_cancels_drops_and_failures() {
    let yielding = tool("yielding", |_, _| async {
        tokio::task::yield_now().await;
        ToolExecutionResult::success("done")
    });
    let journal = crate::support::SpyJournal::new(windlass_runtime::MemoryJournal::new());
    let fixture = Setup::new([])
        .tool(&yielding)
        .backends(windlass_runtime::RuntimeBackends::on_journal(
            Arc::clone(&journal) as _,
        ))
        .build()
        .await;
    let policies = [
        OnBusy::Queue,
        OnBusy::Steer,
        OnBusy::Interrupt,
        OnBusy::Refuse,
    ];
    for round in 0..20 {
        let mut callers = tokio::task::JoinSet::new();
        for n in 0..24_usize {
            let calls = vec![call(&format!("c{round}-{n}"), "yielding", json!({}))];
            fixture.model.then(ScriptedCall::tools(calls));
            fixture.model.then(ScriptedCall::answer("done"));
            if n == 12 {
                journal.fail_after(round % 5);
            }
            let fixture = fixture.clone();
            let on_busy = policies[n % policies.len()];
            callers.spawn(async move {
                let options = TurnOptions {
                    on_busy,
                    ..TurnOptions::default()
                };
                let text = format!("{round}-{n}");
                let running = fixture
                    .runtime
                    .run_turn_with(fixture.session, text, options);
                let patience = async {
                    for _ in 0..(n * 7 + round) % 40 {
                        tokio::task::yield_now().await;
                    }
                };
                match n % 3 {
                    // Goes away after a while.
                    0 => {
                        drop(tokio::select! { turn = running => turn.ok(), () = patience => None })
                    }
                    // Stops whatever runs.
                    1 => {
                        patience.await;
                        let _ = fixture.runtime.cancel_turn(fixture.session).await;
                        drop(running.await);
                    }
                    _ => drop(running.await),
                }
            });
        }
        soon(callers.join_all()).await;
    }
    // Work left over from a journal failure completes with the next turn.
    journal.fail_after(usize::MAX);
    fixture.model.rewrite([]);
    assert!(fixture.run("settle").await.success);
    fixture.assert_usable().await;
}
