//! Replay: decisions of a recorded session are repeated, also up to a fork.

use std::time::Duration;

use serde_json::json;
use windlass_core::error::{AgentLoopError, ErrorKind, ProviderError};
use windlass_core::llm_driver_registry::LlmStreamEvent;
use windlass_core::message::Message;
use windlass_core::tools::{ToolExecutionResult, ToolPolicy, ToolResult};
use windlass_core::typed_id::TurnId;
use windlass_runtime::{
    ForkAt, ForkOptions, MemoryJournal, OnBusy, RecoveryPolicy, Replay, ReplayReport, Retention,
    RuntimeBackends, RuntimeHostAdapter, StopReason, TurnOptions,
};

use crate::support::{
    Fixture, FnTool, Gate, ScriptedCall, Setup, SpyJournal, call, each_store, soon, tool, types,
};

fn tools() -> [FnTool; 4] {
    [
        tool("good", |_, _| async {
            ToolExecutionResult::success(json!({"n": 1}))
        }),
        tool("bad", |_, _| async {
            ToolExecutionResult::tool_error("broken")
        }),
        tool("asks", |_, _| async {
            ToolExecutionResult::success(json!("allowed"))
        })
        .policy(ToolPolicy::RequiresApproval),
        tool("client", |_, _| async {
            unreachable!("the client runs it")
        })
        .policy(ToolPolicy::ClientSide),
    ]
}

fn with_tools(setup: Setup) -> Setup {
    tools().iter().fold(setup, Setup::tool)
}

async fn replayed(fixture: &Fixture) -> ReplayReport {
    soon(Replay::of(&fixture.runtime, fixture.session).run())
        .await
        .unwrap()
}

async fn assert_faithful(fixture: &Fixture) {
    let events = fixture.events().await;
    let report = replayed(fixture).await;
    let divergence = report.divergence.as_ref().map(ToString::to_string);
    assert_eq!(divergence, None, "{:#?}", report.divergence);
    assert_eq!(report.events, events.len());
    assert!(report.reconfigured.is_empty(), "{report:?}");
    let turns = types(&events)
        .iter()
        .filter(|name| **name == "turn.started")
        .count();
    assert_eq!(report.turns, turns);
}

#[tokio::test]
async fn answers_and_calls_replay_as_recorded() {
    each_store(async |setup: Setup| {
        let fixture = with_tools(setup).build().await;
        fixture.model.rewrite([
            ScriptedCall::new()
                .say(LlmStreamEvent::ThinkingDelta("hm".to_owned()))
                .text("first")
                .done(),
            ScriptedCall::tools(vec![
                call("c1", "good", json!({})),
                call("c2", "unknown", json!({})),
                call("c3", "bad", json!({})),
            ]),
            ScriptedCall::answer("second"),
            ScriptedCall::tools(vec![call("c4", "bad", json!({}))]),
            ScriptedCall::answer("third"),
            ScriptedCall::refused(AgentLoopError::provider(ProviderError::new(
                ErrorKind::Auth,
                "no",
            ))),
            ScriptedCall::new()
                .text("half")
                .fail(AgentLoopError::llm("cut off")),
        ]);
        for text in ["one", "two", "three", "four", "five"] {
            fixture.run(text).await;
        }
        assert_faithful(&fixture).await;
    })
    .await;
}

#[tokio::test]
async fn parked_turns_replay_as_recorded() {
    each_store(async |setup: Setup| {
        let fixture = with_tools(setup).build().await;
        let (runtime, session) = (&fixture.runtime, fixture.session);
        let both = vec![call("a1", "asks", json!({})), call("a2", "asks", json!({}))];
        let outside = vec![
            call("b1", "client", json!({})),
            call("b2", "client", json!({})),
        ];
        fixture.model.rewrite([
            ScriptedCall::tools(both),
            ScriptedCall::tools(outside),
            ScriptedCall::answer("done"),
            ScriptedCall::tools(vec![call("c1", "client", json!({}))]),
        ]);
        let parked = fixture.run("one").await;
        assert_eq!(parked.stop_reason, StopReason::WaitingForApproval);
        for (id, approve) in [("a2", false), ("a1", true)] {
            let handle = runtime
                .decide_tool_call(session, id, approve)
                .await
                .unwrap();
            soon(handle.wait()).await.unwrap();
        }
        let failed = ToolResult {
            tool_call_id: "b2".to_owned(),
            error: Some("not there".to_owned()),
            ..ToolResult::default()
        };
        let results = vec![ToolResult::success("b1", 7), failed];
        let handle = runtime.submit_tool_results(session, results).await.unwrap();
        assert!(soon(handle.wait()).await.unwrap().success);
        // A turn that still waits, and then its end.
        fixture.run("two").await;
        assert_faithful(&fixture).await;
        runtime.cancel_turn(session).await.unwrap();
        assert_faithful(&fixture).await;
    })
    .await;
}

#[tokio::test]
async fn steers_queues_interrupts_and_rewinds_replay_as_recorded() {
    each_store(async |setup: Setup| {
        let fixture = setup.build().await;
        let (runtime, session) = (&fixture.runtime, fixture.session);
        let first = fixture.run("one").await;
        let gates = [Gate::shut(), Gate::shut(), Gate::shut()];
        let waits = |gate: &Gate| {
            ScriptedCall::new()
                .text("so ")
                .wait(gate)
                .text("late")
                .done()
        };
        fixture.model.rewrite(gates.iter().map(waits));

        let steered = runtime.submit(session, "two").await.unwrap();
        gates[0].reached(1).await;
        runtime.steer(session, "and more").await.unwrap();
        let queued = runtime.submit(session, "three").await.unwrap();
        let never = runtime.submit(session, "four").await.unwrap();
        runtime
            .interrupt(session, Some(never.turn_id()), None)
            .await
            .unwrap();
        gates[0].open();
        gates[1].reached(1).await;
        gates[1].open();
        soon(steered.wait()).await.unwrap();
        gates[2].reached(1).await;
        let options = TurnOptions {
            on_busy: OnBusy::Interrupt,
            ..TurnOptions::default()
        };
        let instead = runtime.submit_with(session, "five", options).await.unwrap();
        assert_eq!(
            soon(queued.wait()).await.unwrap().stop_reason,
            StopReason::Cancelled
        );
        soon(instead.wait()).await.unwrap();

        let store = runtime.message_store();
        store
            .store_message(session, Message::user("by the way"))
            .await
            .unwrap();
        runtime
            .rewind_session(session, first.turn_id)
            .await
            .unwrap();
        fixture.run("six").await;
        assert_faithful(&fixture).await;

        let fork = runtime.fork_session(session, ForkAt::Turn(first.turn_id), ForkOptions::new());
        let session = soon(fork).await.unwrap();
        let fork = Fixture {
            session,
            ..fixture.clone()
        };
        fork.run("seven").await;
        assert_faithful(&fork).await;
    })
    .await;
}

#[tokio::test]
async fn timed_out_turn_replays_as_recorded() {
    let gate = Gate::shut();
    let setup = Setup::new([ScriptedCall::new().text("so ").wait(&gate)]);
    let limit = Duration::from_secs(5);
    let setup = setup.settings(|settings| settings.turn_timeout = Some(limit));
    let fixture = setup.build().await;
    let running = fixture.start("one");
    gate.reached(1).await;
    fixture
        .clock
        .asleep(|span| span > Duration::from_secs(1))
        .await;
    fixture.clock.advance(limit);
    assert!(!soon(running).await.unwrap().unwrap().success);
    assert_faithful(&fixture).await;
}

#[tokio::test]
async fn first_divergence_is_reported() {
    let backends = RuntimeBackends::in_memory();
    let setup = |tool: &FnTool| Setup::default().backends(backends.clone()).tool(tool);
    let plain = tool("act", |_, _| async {
        ToolExecutionResult::success(json!(1))
    });
    let fixture = setup(&plain).build().await;
    fixture.model.rewrite([
        ScriptedCall::answer("first"),
        ScriptedCall::tools(vec![call("c1", "act", json!({}))]),
        ScriptedCall::answer("second"),
    ]);
    let first = fixture.run("one").await;
    fixture.run("two").await;
    assert_faithful(&fixture).await;

    let careful = plain.clone().policy(ToolPolicy::RequiresApproval);
    let today = setup(&careful).build().await;
    let today = Fixture {
        session: fixture.session,
        ..today
    };
    let report = replayed(&today).await;
    let divergence = report
        .divergence
        .clone()
        .expect("the call needs an approval now");
    let got = divergence
        .got
        .as_ref()
        .map(|event| event.event_type.as_str());
    let expected = divergence
        .expected
        .as_ref()
        .map(|event| event.event_type.as_str());
    assert_eq!(
        (expected, got),
        (Some("tool.completed"), Some("approval.required"))
    );
    assert_eq!(divergence.index, report.events);
    assert_eq!(
        report.reconfigured.len(),
        2,
        "the tools are others in both turns"
    );
    assert!(
        divergence
            .to_string()
            .contains("approval.required came out")
    );

    // The first turn used no tool.
    let until = Replay::of(&today.runtime, today.session).until(first.turn_id);
    assert_eq!(until.run().await.unwrap().divergence, None);
}

#[tokio::test]
async fn live_model_continues_after_the_replay() {
    each_store(async |setup: Setup| {
        let fixture = setup.build().await;
        let runtime = &fixture.runtime;
        let first = fixture.run("one").await;
        fixture.run("two").await;
        let what_if = Replay::of(runtime, fixture.session).until(first.turn_id);
        let report = what_if.run().await.unwrap();
        assert_eq!((report.turns, report.divergence), (1, None));
        let calls = fixture.model.calls();
        let session = soon(what_if.then_live()).await.unwrap();
        assert_eq!(fixture.model.calls(), calls, "a replay calls no model");
        soon(runtime.run_text_turn(session, "what if?"))
            .await
            .unwrap();
        assert_eq!(
            fixture.model.sent(calls),
            ["User: one", "Assistant: ok", "User: what if?"]
        );
        let unknown = Replay::of(runtime, session).until(TurnId::from_seed(9));
        assert!(matches!(
            unknown.run().await,
            Err(AgentLoopError::TurnNotFound { .. })
        ));
        assert!(matches!(
            unknown.then_live().await,
            Err(AgentLoopError::TurnNotFound { .. })
        ));
    })
    .await;
}

#[tokio::test]
async fn pruned_session_cannot_be_replayed() {
    let journal = MemoryJournal::with_retention(Retention {
        max_events: Some(10),
        sink: None,
    });
    let backends = RuntimeBackends::on_journal(std::sync::Arc::new(journal));
    let fixture = Setup::default().backends(backends).build().await;
    fixture.run("one").await;
    fixture.run("two").await;
    let refused = Replay::of(&fixture.runtime, fixture.session).run().await;
    assert!(
        matches!(refused, Err(AgentLoopError::NotReplayable { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn resumed_turn_replays_as_recorded() {
    for recovery in [RecoveryPolicy::Resume, RecoveryPolicy::Interrupt] {
        let journal = SpyJournal::new(MemoryJournal::new());
        let setup =
            with_tools(Setup::default().backends(RuntimeBackends::on_journal(journal.clone())));
        let setup = setup.settings(|settings| settings.recovery = recovery);
        let fixture = setup.build().await;
        let calls = || {
            ScriptedCall::tools(vec![
                call("c1", "good", json!({})),
                call("c2", "bad", json!({})),
            ])
        };
        for appends in 1..4 {
            fixture.model.rewrite([calls(), calls(), calls()]);
            journal.fail_after(appends);
            let _ = fixture.try_run("one").await;
            fixture.model.rewrite([]);
            fixture.run("two").await;
        }
        let names = fixture.events().await;
        let name = match recovery {
            RecoveryPolicy::Resume => "turn.resumed",
            RecoveryPolicy::Interrupt => "turn.interrupt_requested",
        };
        assert!(types(&names).contains(&name), "{:?}", types(&names));
        assert_faithful(&fixture).await;
    }
}

/// Remembered approvals, under the control of the test.
#[derive(Default)]
struct Allowed(std::sync::Mutex<Vec<String>>);

impl windlass_core::remembered_calls::RememberedCalls for Allowed {
    fn allowed_in(&self, _: &windlass_core::turn_environment::TurnEnvironment) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn remembered_approval_does_not_change_the_replay_of_an_approval_request() {
    use windlass_core::message::InputMessage;
    use windlass_core::remembered_calls::call_digest;
    use windlass_core::turn_environment::TurnEnvironment;
    use windlass_core::turn_request::TurnRequest;
    let asked = call("c1", "asks", json!({}));
    let calls = [
        ScriptedCall::tools(vec![asked.clone()]),
        ScriptedCall::answer("first"),
        ScriptedCall::tools(vec![asked.clone()]),
        ScriptedCall::answer("second"),
    ];
    let allowed = std::sync::Arc::new(Allowed::default());
    let setup = with_tools(Setup::new(calls));
    let (model, clock) = (setup.model.clone(), setup.clock.clone());
    let builder = setup.builder().remembered_calls(allowed.clone());
    let runtime = builder.build().await.unwrap();
    let session = runtime.list_sessions().await.unwrap()[0].id;
    let fixture = Fixture {
        runtime,
        session,
        model,
        clock,
    };
    let input = |text: &str| {
        InputMessage::user(text).with_turn_request(TurnRequest {
            environment: Some(TurnEnvironment::new("local", "/")),
            ..TurnRequest::default()
        })
    };
    let waits = soon(fixture.runtime.run_turn(session, input("one")))
        .await
        .unwrap();
    assert_eq!(waits.stop_reason, StopReason::WaitingForApproval);
    let decided = fixture.runtime.decide_tool_call(session, "c1", true);
    soon(soon(decided).await.unwrap().wait()).await.unwrap();
    *allowed.0.lock().unwrap() = vec![call_digest(&asked).to_string()];
    let turn = soon(fixture.runtime.run_turn(session, input("two")))
        .await
        .unwrap();
    assert!(turn.success, "{turn:?}");
    let report = replayed(&fixture).await;
    assert_eq!(report.divergence, None);
    // Nor does it matter that the approval is no longer remembered.
    allowed.0.lock().unwrap().clear();
    let report = replayed(&fixture).await;
    assert_eq!(report.divergence, None);
}
