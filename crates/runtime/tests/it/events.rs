//! R36 to R41: recorded events, and reading them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use windlass_core::events::{Event, EventData};
use windlass_core::llm_driver_registry::LlmStreamEvent;
use windlass_core::tools::{ToolDefinition, ToolExecutionResult, ToolPolicy, ToolResult};
use windlass_core::typed_id::SessionId;
use windlass_runtime::{
    EventSink, MemoryJournal, Retention, RuntimeBackends, SessionBuilder, StopReason, TurnOptions,
};

use crate::support::{Fixture, Gate, ScriptedCall, Setup, call, event, soon, tool, types};

#[tokio::test]
async fn r36_every_session_counts_its_events_from_one_without_a_gap() {
    let fixture = Setup::new([]).build().await;
    let harness = fixture
        .runtime
        .session(fixture.session)
        .await
        .unwrap()
        .harness_id;
    let other = SessionId::from_seed(2);
    fixture
        .runtime
        .add_session(SessionBuilder::new(harness).id(other).build())
        .await
        .unwrap();
    for _ in 0..3 {
        let (a, b) = tokio::join!(
            fixture.try_run("a"),
            fixture.runtime.run_text_turn(other, "b")
        );
        assert!(a.unwrap().success && b.unwrap().success);
    }
    for id in [fixture.session, other] {
        let events = fixture.runtime.events_for(id).await.unwrap();
        let numbers: Vec<_> = events.iter().filter_map(|event| event.sequence).collect();
        assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
    }
    assert_eq!(
        fixture.runtime.events().await.unwrap().len(),
        2 * fixture.events().await.len()
    );
}

#[tokio::test]
async fn r37_a_subscriber_sees_text_while_the_turn_runs() {
    let gate = Gate::shut();
    let fixture = Setup::new([ScriptedCall::new()
        .text("one ")
        .wait(&gate)
        .text("two")
        .done()])
    .build()
    .await;
    let mut events = fixture.runtime.subscribe(fixture.session).await.unwrap();
    let turn = fixture.start("go");
    gate.reached(1).await;
    // Text is recorded at most 32 ms after it arrived.
    fixture.clock.asleep_for(Duration::from_millis(32)).await;
    fixture.clock.advance(Duration::from_millis(32));
    let delta = event(&mut events, "output.message.delta").await;
    assert!(matches!(&delta.data, EventData::OutputMessageDelta(data) if data.delta == "one "));
    assert!(!turn.is_finished());
    gate.open();
    let delta = event(&mut events, "output.message.delta").await;
    assert!(matches!(&delta.data, EventData::OutputMessageDelta(data) if data.delta == "two"));
    assert_eq!(soon(turn).await.unwrap().unwrap().response, "one two");
}

#[tokio::test]
async fn r37_stalled_reader_blocks_no_turn_and_loses_nothing() {
    let fixture = Setup::new([]).build().await;
    let mut slow = fixture.runtime.subscribe(fixture.session).await.unwrap();
    for _ in 0..50 {
        assert!(fixture.run("go").await.success);
    }
    let all = fixture.events().await;
    for expected in &all {
        let seen = soon(slow.next()).await.unwrap();
        assert!(Arc::ptr_eq(&seen, expected));
    }
}

#[tokio::test]
async fn r37_subscription_resumes_from_a_cursor_and_ends_with_its_session() {
    let fixture = Setup::new([]).build().await;
    fixture.run("before").await;
    let all = fixture.events().await;
    let mut late = fixture
        .runtime
        .subscribe_after(fixture.session, 3)
        .await
        .unwrap();
    let mut new = fixture.runtime.subscribe(fixture.session).await.unwrap();
    assert_eq!(soon(late.next()).await.unwrap().sequence, Some(4));
    fixture.run("after").await;
    assert_eq!(
        soon(new.next()).await.unwrap().sequence,
        Some(all.len() as u64 + 1)
    );
    for expected in 5..=2 * all.len() as u64 {
        assert_eq!(soon(late.next()).await.unwrap().sequence, Some(expected));
    }
    fixture
        .runtime
        .remove_session(fixture.session)
        .await
        .unwrap();
    assert!(soon(late.next()).await.is_none());
    assert!(soon(late.next()).await.is_none());
}

#[tokio::test]
async fn r38_event_pages_are_exact_and_shared() {
    let fixture = Setup::new([]).build().await;
    fixture.run("go").await;
    let all = fixture.events().await;
    let mut cursor = 0;
    let mut paged = Vec::new();
    loop {
        let page = fixture
            .runtime
            .events_since(fixture.session, cursor, 3)
            .await
            .unwrap();
        assert!(page.len() <= 3);
        let Some(last) = page.last() else { break };
        cursor = last.seq();
        paged.extend(page);
    }
    assert_eq!(paged.len(), all.len());
    assert!(paged.iter().zip(&all).all(|(a, b)| Arc::ptr_eq(a, b)));
    assert!(
        fixture
            .runtime
            .events_since(fixture.session, u64::MAX, 10)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(
        fixture
            .runtime
            .events_since(fixture.session, 0, 0)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn r38_all_events_come_in_the_order_in_which_they_were_recorded() {
    let fixture = Setup::new([]).build().await;
    let harness = fixture
        .runtime
        .session(fixture.session)
        .await
        .unwrap()
        .harness_id;
    let other = SessionId::from_seed(2);
    fixture
        .runtime
        .add_session(SessionBuilder::new(harness).id(other).build())
        .await
        .unwrap();
    fixture.run("a").await;
    fixture.runtime.run_text_turn(other, "b").await.unwrap();
    fixture.run("c").await;
    let all = fixture.runtime.events().await.unwrap();
    let third = all.len() / 3;
    let owners: Vec<_> = all.iter().map(|event| event.session_id == other).collect();
    assert!(
        owners
            .iter()
            .enumerate()
            .all(|(n, other)| *other == (n / third == 1))
    );
}

#[tokio::test]
async fn r39_the_order_of_a_turn_is_as_documented() {
    let fixture = Setup::new([
        ScriptedCall::new()
            .text("let me see")
            .say(LlmStreamEvent::ToolCalls(vec![call(
                "c",
                "echo",
                json!({}),
            )]))
            .done(),
        ScriptedCall::answer("done"),
    ])
    .tool(&tool("echo", |_, _| async {
        ToolExecutionResult::success("hi")
    }))
    .build()
    .await;
    fixture.run("go").await;
    let events = fixture.events().await;
    assert_eq!(
        types(&events),
        [
            "turn.started",
            "input.message",
            "session.activated",
            "reason.started",
            "output.message.started",
            "output.message.delta",
            "llm.generation",
            "output.message.completed",
            "reason.completed",
            "act.started",
            "tool.started",
            "tool.completed",
            "act.completed",
            "reason.started",
            "output.message.started",
            "output.message.delta",
            "llm.generation",
            "output.message.completed",
            "reason.completed",
            "turn.completed",
            "session.idled",
        ]
    );
    assert!(
        events
            .iter()
            .all(|event| event.event_type == event.data.event_type())
    );
}

#[tokio::test]
async fn r39_a_parked_turn_ends_once_and_only_after_it_was_resumed() {
    let fixture = varied().await;
    let events = fixture.events().await;
    let requested = types(&events)
        .iter()
        .position(|name| *name == "tool.call_requested")
        .unwrap();
    let turn = events[requested].context.turn_id;
    let ends: Vec<_> = events
        .iter()
        .enumerate()
        .filter(|(_, event)| event.context.turn_id == turn && event.data.ends_turn())
        .map(|(n, _)| n)
        .collect();
    assert_eq!(ends.len(), 1);
    assert!(ends[0] > requested);
    fixture.assert_sound().await;
}

/// A session with most kinds of events.
async fn varied() -> Fixture {
    let gate = Gate::shut();
    let ask = ToolDefinition::client_side("ask", "asks", json!({"type": "object"}));
    let chatty = tool("chatty", |_, context| async move {
        context.emit_progress("chatty", "half").await;
        context.emit_tool_output("chatty", "line", "stdout").await;
        ToolExecutionResult::success("done")
    });
    let risky = tool("risky", |_, _| async {
        ToolExecutionResult::success("done")
    })
    .policy(ToolPolicy::RequiresApproval);
    let fixture = Setup::new([
        ScriptedCall::new()
            .say(LlmStreamEvent::ThinkingDelta("hm".into()))
            .say(LlmStreamEvent::ThinkingSignature("sig".into()))
            .say(LlmStreamEvent::ToolCalls(vec![
                call("a", "ask", json!({})),
                call("b", "chatty", json!({})),
                call("r", "risky", json!({})),
            ]))
            .done(),
        ScriptedCall::answer("thanks"),
        ScriptedCall::refused(windlass_core::error::AgentLoopError::llm("broken")),
        ScriptedCall::new().text("half").wait(&gate).done(),
    ])
    .tool(&chatty)
    .tool(&risky)
    .session(|session| session.agent_tool(ask))
    .build()
    .await;
    let (runtime, session) = (&fixture.runtime, fixture.session);
    assert_eq!(
        fixture.run("park").await.stop_reason,
        StopReason::WaitingForApproval
    );
    runtime.steer(session, "by the way").await.unwrap();
    runtime.decide_tool_call(session, "r", true).await.unwrap();
    let handle = runtime
        .submit_tool_results(session, vec![ToolResult::success("a", 1)])
        .await
        .unwrap();
    assert!(soon(handle.wait()).await.unwrap().success);
    assert_eq!(fixture.run("fail").await.stop_reason, StopReason::Failed);
    let turn = fixture.start("cancel");
    gate.reached(1).await;
    let queued = runtime.submit(session, "queued").await.unwrap();
    runtime.cancel_turn(session).await.unwrap();
    assert_eq!(
        soon(turn).await.unwrap().unwrap().stop_reason,
        StopReason::Cancelled
    );
    assert!(soon(queued.wait()).await.unwrap().success);
    fixture
}

#[tokio::test]
async fn r40_every_event_of_a_varied_session_survives_its_json() {
    let fixture = varied().await;
    let events = fixture.events().await;
    for event in &events {
        let text = serde_json::to_string(&**event).unwrap();
        let back: Event = serde_json::from_str(&text).unwrap();
        assert_eq!(back, **event);
    }
    let mut kinds = types(&events);
    kinds.sort_unstable();
    kinds.dedup();
    assert!(kinds.len() >= 25, "{kinds:?}");
}

#[derive(Default)]
struct Archive(Mutex<Vec<u64>>);

impl EventSink for Archive {
    fn retire(&self, events: &[Arc<Event>]) {
        self.0
            .lock()
            .unwrap()
            .extend(events.iter().map(|event| event.seq()));
    }
}

#[tokio::test]
async fn r41_retention_is_bounded_and_older_events_go_to_the_sink() {
    let archive = Arc::new(Archive::default());
    let retention = Retention {
        max_events: Some(15),
        sink: Some(Arc::clone(&archive) as _),
    };
    let journal = Arc::new(MemoryJournal::with_retention(retention));
    let fixture = Setup::new([])
        .backends(RuntimeBackends::on_journal(journal))
        .build()
        .await;
    let mut from_start = fixture
        .runtime
        .subscribe_after(fixture.session, 0)
        .await
        .unwrap();
    for _ in 0..10 {
        assert!(fixture.run("go").await.success);
    }
    let stored = fixture.events().await;
    assert_eq!(stored.len(), 15);
    let last = stored.last().unwrap().seq();
    let archived = archive.0.lock().unwrap().clone();
    assert_eq!(archived, (1..=last - 15).collect::<Vec<_>>());
    // A reader from the start gets a gap with its range, and then the retained events.
    let gap = soon(from_start.next()).await.unwrap();
    let EventData::JournalPruned(range) = &gap.data else {
        panic!("{gap:?}")
    };
    assert_eq!((range.first_sequence, range.last_sequence), (1, last - 15));
    assert_eq!(gap.sequence, None);
    for expected in &stored {
        assert_eq!(
            soon(from_start.next()).await.unwrap().sequence,
            expected.sequence
        );
    }
    // The conversation itself is still complete.
    assert_eq!(fixture.messages().await.len(), 20);
    assert!(fixture.run("again").await.success);
}

#[tokio::test]
async fn r41_open_turn_is_not_pruned() {
    let retention = Retention {
        max_events: Some(1),
        sink: None,
    };
    let journal = Arc::new(MemoryJournal::with_retention(retention));
    let ask = ToolDefinition::client_side("ask", "asks", json!({"type": "object"}));
    let fixture = Setup::new([ScriptedCall::tools(vec![call("c", "ask", json!({}))])])
        .backends(RuntimeBackends::on_journal(journal))
        .session(|session| session.agent_tool(ask))
        .build()
        .await;
    assert_eq!(
        fixture.run("park").await.stop_reason,
        StopReason::WaitingForToolResults
    );
    assert_eq!(fixture.events().await[0].event_type, "turn.started");
    fixture.runtime.cancel_turn(fixture.session).await.unwrap();
    assert_eq!(fixture.events().await.len(), 1);
}

#[tokio::test]
async fn an_observer_sees_its_own_turn_from_start_to_end_and_no_other() {
    let fixture = Setup::new([]).build().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let observer = {
        let seen = Arc::clone(&seen);
        move |event: &Event| {
            seen.lock()
                .unwrap()
                .push((event.context.turn_id, event.event_type.clone()))
        }
    };
    let options = TurnOptions {
        on_event: Some(Arc::new(observer)),
        ..TurnOptions::default()
    };
    let turn = fixture
        .runtime
        .run_turn_with(fixture.session, "mine", options)
        .await
        .unwrap();
    fixture.run("not mine").await;
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.len() * 2, fixture.events().await.len());
    assert!(seen.iter().all(|(of, _)| *of == Some(turn.turn_id)));
    assert_eq!(seen[0].1, "turn.started");
    assert_eq!(seen.last().unwrap().1, "session.idled");
}

#[tokio::test]
async fn handle_has_the_first_event_of_its_own_turn() {
    let gate = Gate::shut();
    let fixture = Setup::new([ScriptedCall::new().wait(&gate).text("first").done()])
        .build()
        .await;
    let (runtime, session) = (&fixture.runtime, fixture.session);
    let handles = [
        runtime.submit(session, "first").await.unwrap(),
        runtime.submit(session, "waits").await.unwrap(),
    ];
    let first = Arc::clone(handles[0].first_event().unwrap());
    assert!(handles[1].first_event().is_none(), "it has not begun");
    let queued = handles[1].queued_event().unwrap();
    assert_eq!(queued.context.turn_id, Some(handles[1].turn_id()));
    assert!(handles[0].queued_event().is_none(), "it does not wait");
    assert_eq!(first.context.turn_id, Some(handles[0].turn_id()));
    gate.open();
    for handle in handles {
        handle.wait().await.unwrap();
    }
    let compaction = runtime.compact(session, "long").await.unwrap();
    let began = Arc::clone(compaction.first_event().unwrap());
    assert_eq!(began.context.turn_id, Some(compaction.turn_id()));
    compaction.wait().await.unwrap();
    let events = fixture.events().await;
    for event in [first, began] {
        assert_eq!(event.event_type, "turn.started");
        assert!(events.contains(&event), "as it was recorded");
    }
}
