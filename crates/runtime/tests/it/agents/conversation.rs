//! Text, tool calls and permission requests of an external agent.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;
use windlass_core::backend::{
    BackendErrorKind, BackendEvent, BackendUsage, ObservedCall, PermissionRequest,
};
use windlass_core::error::AgentLoopError;
use windlass_core::events::EventData;
use windlass_core::message::InputMessage;
use windlass_core::turn_request::TurnRequest;
use windlass_runtime::{MemoryJournal, RuntimeHostAdapter, StopReason};

use super::fake::{AgentScript, Fake};
use super::{count, failure, life, only_life, run, submit, to_agent, transcript};
use crate::support::{Gate, Setup, soon};

#[tokio::test]
async fn text_and_calls_of_an_external_agent_are_an_ordinary_turn() {
    let script = AgentScript::says("I ")
        .text("look.")
        .call("a")
        .done("a")
        .tell(BackendEvent::Thinking {
            text: "hm".to_owned(),
            parent: None,
        })
        .text("One file.");
    let fake = Fake::new([script]);
    let fixture = only_life(&fake).await;
    let turn = run(&fixture, "what is there?").await;
    assert_eq!((turn.success, turn.response.as_str()), (true, "One file."));
    assert_eq!(
        transcript(&fixture).await,
        [
            "user what is there?",
            "agent I look. [a]",
            "tool_result",
            "agent One file."
        ]
    );
    assert_eq!(fake.opened(), ["new s1"]);
    assert_eq!(fake.prompts(), ["what is there?"]);
    assert_eq!(fixture.model.calls(), 0);
    let session = fixture.runtime.session(fixture.session).await.unwrap();
    assert_eq!(session.usage.unwrap().output_tokens, 3);
    fixture.assert_sound().await;
}

#[tokio::test]
async fn pieces_are_joined_into_chunks() {
    let mut script = AgentScript::default();
    for _ in 0..200 {
        script = script.text("word ");
    }
    let fake = Fake::new([script]);
    let fixture = only_life(&fake).await;
    let turn = run(&fixture, "talk").await;
    assert_eq!(turn.response, "word ".repeat(200));
    assert!(count(&fixture, "output.message.delta").await < 20);
}

fn prints(call_id: &str, text: &str) -> BackendEvent {
    BackendEvent::ToolOutput {
        call_id: call_id.to_owned(),
        text: text.to_owned(),
    }
}

#[tokio::test]
async fn call_output_is_chunked_and_limited() {
    let mut script = AgentScript::default().call("a").call("b");
    for _ in 0..200 {
        script = script.tell(prints("a", "line\n"));
    }
    for _ in 0..1_000 {
        script = script.tell(prints("b", &"y\n".repeat(1_000)));
    }
    // Output of a call that is not open is dropped.
    script = script.tell(prints("c", "lost")).done("a").done("b");
    let fake = Fake::new([script]);
    let fixture = only_life(&fake).await;
    run(&fixture, "go").await;
    let events = fixture.events().await;
    let deltas = |call: &str| -> Vec<String> {
        let deltas = events.iter().filter_map(|event| match &event.data {
            EventData::ToolOutputDelta(data) if data.tool_call_id == call => {
                Some(data.delta.clone())
            }
            _ => None,
        });
        deltas.collect()
    };
    assert_eq!(deltas("a").concat(), "line\n".repeat(200));
    assert!(deltas("a").len() < 20);
    assert!(deltas("b").concat().len() < 300_000);
    assert!(deltas("b").len() < 40);
    assert!(deltas("c").is_empty());
    fixture.assert_sound().await;
}

#[tokio::test]
async fn interrupt_records_buffered_call_output() {
    let gate = Gate::shut();
    let script = AgentScript::default().call("a").tell(prints("a", "so far"));
    let fake = Fake::new([script.wait(&gate)]);
    let fixture = only_life(&fake).await;
    let handle = submit(&fixture, "go").await;
    // It waits for more to be recorded with.
    let span = Duration::from_millis(32);
    fixture.clock.asleep_for(span).await;
    assert_eq!(count(&fixture, "tool.output.delta").await, 0);
    fixture.runtime.cancel_turn(fixture.session).await.unwrap();
    soon(handle.wait()).await.unwrap();
    assert_eq!(count(&fixture, "tool.output.delta").await, 1);
    fixture.assert_sound().await;
}

#[tokio::test]
async fn secrets_are_masked_in_names_of_calls_and_across_pieces() {
    const SECRET: &str = "sk-0123456789abcdef";
    let helper = |text: &str| BackendEvent::Text {
        text: text.to_owned(),
        message: None,
        parent: Some("a".to_owned()),
    };
    let name = format!("curl -H {SECRET}");
    let script = AgentScript::default()
        .tell(BackendEvent::ToolStarted(ObservedCall {
            id: "a".to_owned(),
            name: name.clone(),
            arguments: Value::Null,
            parent: None,
        }))
        .tell(prints("a", "it is sk-0123"))
        .tell(prints("a", "456789abcdef"))
        .tell(helper("so sk-0123456"))
        .tell(helper("789abcdef"))
        .done("a")
        .tell(BackendEvent::Permission(PermissionRequest {
            id: "r1".to_owned(),
            call_id: None,
            name,
            arguments: Value::Null,
            title: None,
        }))
        .text("done");
    let fake = Fake::new([script]);
    let fixture = only_life(&fake).await;
    let storage = fixture.runtime.storage_store().unwrap();
    let stored = storage.set_secret(fixture.session, "key", SECRET).await;
    stored.unwrap();
    drop(submit(&fixture, "go").await);
    super::recorded(&fixture, "turn.completed").await;
    let events = fixture.events().await;
    let records: Vec<String> = events
        .iter()
        .map(|event| serde_json::to_string(&**event).unwrap())
        .collect();
    let records = records.join("\n");
    assert!(!records.contains("456789"), "{records}");
    for shown in ["it is [secret:key]so [secret:key]", "curl -H [secret:key]"] {
        assert!(records.contains(shown), "{shown} is not in {records}");
    }
}

#[tokio::test]
async fn separate_agent_messages_stay_separate() {
    let piece = |text: &str, message: &str| BackendEvent::Text {
        text: text.to_owned(),
        message: Some(message.to_owned()),
        parent: None,
    };
    let script = AgentScript::default()
        .tell(piece("on", "m1"))
        .tell(piece("e", "m1"))
        .tell(piece("two", "m2"));
    let fake = Fake::new([script]);
    let fixture = only_life(&fake).await;
    assert_eq!(run(&fixture, "count").await.response, "two");
    assert_eq!(
        transcript(&fixture).await,
        ["user count", "agent one", "agent two"]
    );
}

#[tokio::test]
async fn permission_request_parks_the_turn() {
    for is_allowed in [true, false] {
        let script = AgentScript::default()
            .call("a")
            .ask("r1", "a")
            .text("after");
        let fake = Fake::new([script]);
        let fixture = only_life(&fake).await;
        let parked = run(&fixture, "go").await;
        assert_eq!(parked.stop_reason, StopReason::WaitingForApproval);
        let runtime = &fixture.runtime;
        let decided = runtime
            .decide_tool_call(fixture.session, "a", is_allowed)
            .await;
        let turn = soon(decided.unwrap().wait()).await.unwrap();
        assert_eq!(turn.response, "after");
        assert_eq!(
            *fake.answers.lock().unwrap(),
            [("r1".to_owned(), is_allowed)]
        );
        fixture.assert_sound().await;
    }
}

#[tokio::test]
async fn approve_all_turn_does_not_park() {
    let fake = Fake::new([AgentScript::default().ask("r1", "a").text("done")]);
    let fixture = only_life(&fake).await;
    let input = InputMessage::user("go").with_turn_request(TurnRequest {
        backend: Some("fake".to_owned()),
        approve_all: true,
        ..TurnRequest::default()
    });
    let handle = fixture
        .runtime
        .submit(fixture.session, input)
        .await
        .unwrap();
    assert_eq!(soon(handle.wait()).await.unwrap().response, "done");
    assert_eq!(count(&fixture, "approval.required").await, 0);
}

#[tokio::test]
async fn steered_message_is_accepted_or_becomes_the_next_prompt() {
    for is_taken in [true, false] {
        let gate = Gate::shut();
        let first = AgentScript::says("first").wait(&gate).call("a").done("a");
        let fake = Fake::new([first, AgentScript::says("second")]);
        fake.takes_steers.store(is_taken, Ordering::SeqCst);
        let fixture = only_life(&fake).await;
        let handle = submit(&fixture, "go").await;
        gate.reached(1).await;
        let steered = fixture
            .runtime
            .steer(fixture.session, to_agent("more"))
            .await;
        drop(steered.unwrap());
        soon(async {
            while fake.steers.lock().unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        gate.open();
        let turn = soon(handle.wait()).await.unwrap();
        let said = transcript(&fixture).await;
        if is_taken {
            assert_eq!(fake.prompts(), ["go"]);
            assert_eq!(count(&fixture, "backend.steered").await, 1);
            assert!(said.contains(&"user more".to_owned()), "{said:?}");
        } else {
            assert_eq!(turn.response, "second");
            assert_eq!(fake.prompts(), ["go", "more"]);
            assert_eq!(said.last().unwrap(), "agent second");
        }
        assert_eq!(fake.opened(), ["new s1"], "one process serves both");
        fixture.assert_sound().await;
    }
}

#[tokio::test]
async fn interrupt_retains_text_and_process() {
    let gate = Gate::shut();
    let fake = Fake::new([
        AgentScript::says("half").call("a").wait(&gate),
        AgentScript::says("next"),
    ]);
    let fixture = only_life(&fake).await;
    let handle = submit(&fixture, "go").await;
    gate.reached(1).await;
    super::recorded(&fixture, "tool.started").await;
    fixture.runtime.cancel_turn(fixture.session).await.unwrap();
    let turn = soon(handle.wait()).await.unwrap();
    assert_eq!(turn.stop_reason, StopReason::Cancelled);
    assert_eq!(run(&fixture, "again").await.response, "next");
    assert_eq!(fake.opened(), ["new s1"]);
    assert_eq!(fake.prompts(), ["go", "again"]);
    // The usage of the interrupted run arrives too late for it, and is booked with the next.
    let session = fixture.runtime.session(fixture.session).await.unwrap();
    assert_eq!(session.usage.unwrap().output_tokens, 5);
    fixture.assert_sound().await;
}

#[tokio::test]
async fn failure_names_its_cause_and_the_session_stays_usable() {
    let fake = Fake::new([
        AgentScript::default().fails(BackendErrorKind::Auth),
        AgentScript::says("now"),
    ]);
    let fixture = only_life(&fake).await;
    let turn = run(&fixture, "go").await;
    assert!(!turn.success);
    assert_eq!(failure(&fixture).await.as_deref(), Some("backend_auth"));
    assert_eq!(run(&fixture, "again").await.response, "now");
    fixture.assert_usable().await;
}

#[tokio::test]
async fn unknown_agent_is_refused() {
    let fixture = only_life(&Fake::new([])).await;
    let input = InputMessage::user("go").with_turn_request(TurnRequest {
        backend: Some("unknown".to_owned()),
        ..TurnRequest::default()
    });
    let refused = fixture.runtime.submit(fixture.session, input).await;
    let Err(AgentLoopError::Configuration(why)) = refused else {
        panic!("the turn is taken")
    };
    assert!(why.contains("unknown") && why.contains("fake"), "{why}");
    assert!(fixture.events().await.is_empty());
}

#[tokio::test]
async fn endless_answer_is_split_into_bounded_messages() {
    let mut script = AgentScript::default();
    for _ in 0..10 {
        script = script.text("0123456789");
    }
    let fake = Fake::new([script]);
    let setup = Setup::new([]).settings(|settings| settings.max_answer_bytes = 25);
    let fixture = life(&Arc::new(MemoryJournal::new()), &fake, setup).await;
    run(&fixture, "talk").await;
    let said = transcript(&fixture).await;
    assert_eq!(said.len(), 6, "{said:?}");
    fixture.assert_sound().await;
}

#[tokio::test]
async fn interrupted_run_is_charged_once() {
    for reported in [Some(1), None] {
        let gate = Gate::shut();
        let mut first = AgentScript::says("half");
        if let Some(output_tokens) = reported {
            first = first.tell(BackendEvent::Usage(BackendUsage {
                output_tokens,
                ..BackendUsage::default()
            }));
        }
        let fake = Fake::new([first.call("a").wait(&gate), AgentScript::says("next")]);
        let fixture = only_life(&fake).await;
        let handle = submit(&fixture, "go").await;
        gate.reached(1).await;
        super::recorded(&fixture, "tool.started").await;
        fixture.runtime.cancel_turn(fixture.session).await.unwrap();
        soon(handle.wait()).await.unwrap();
        let used = async || {
            let session = fixture.runtime.session(fixture.session).await.unwrap();
            session.usage.map(|usage| usage.output_tokens)
        };
        assert_eq!(used().await, reported.map(|_| 1));
        run(&fixture, "again").await;
        // The interrupted run used 2 in all, the next one 3.
        assert_eq!(used().await, Some(5));
    }
}

#[tokio::test]
async fn recorded_agent_output_is_limited() {
    let piece = "0123456789".repeat(10);
    let outputs: [fn(AgentScript, &str) -> AgentScript; 3] = [
        |script, piece| script.text(piece),
        |script, piece| {
            script.tell(BackendEvent::Thinking {
                text: piece.to_owned(),
                parent: None,
            })
        },
        |script, piece| script.tell(prints("a", piece)),
    ];
    for output in outputs {
        let mut script = AgentScript::default().call("a");
        for _ in 0..1000 {
            script = output(script, &piece);
        }
        let fake = Fake::new([script, AgentScript::says("hello again")]);
        let setup = Setup::new([]).settings(|settings| settings.backend_output_bytes = 10_000);
        let fixture = life(&Arc::new(MemoryJournal::new()), &fake, setup).await;
        let turn = run(&fixture, "talk").await;
        assert_eq!(turn.error_code.as_deref(), Some("backend_output_limit"));
        let usage = turn.usage.unwrap();
        assert_eq!(
            usage.output_tokens, 2,
            "the usage of the stopped agent is booked"
        );
        let events = fixture.events().await;
        let sizes = events
            .iter()
            .map(|event| serde_json::to_vec(&**event).unwrap().len());
        let recorded: usize = sizes.sum();
        assert!(recorded < 60_000, "{recorded}");
        // The process and its session are still there.
        run(&fixture, "again").await;
        assert_eq!(fake.opened().len(), 1);
        fixture.assert_sound().await;
    }
}
