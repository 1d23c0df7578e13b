//! The orderly end of a process, and the state that the next one finds.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use windlass_core::error::AgentLoopError;
use windlass_core::events::{EventData, ToolStatus};
use windlass_core::tools::{ToolDefinition, ToolExecutionResult, ToolResult};
use windlass_core::typed_id::SessionId;
use windlass_runtime::{RuntimeBackends, StopReason};
use windlass_store::MemoryJournal;

use crate::support::{Fixture, FnTool, Gate, ScriptedCall, Setup, call, event, soon, tool, types};

const PATIENCE: Duration = Duration::from_secs(60);

/// A runtime on a journal that previous processes have used.
async fn life(journal: &Arc<MemoryJournal>, setup: Setup, tool: &FnTool) -> Fixture {
    let ask = ToolDefinition::client_side("ask", "asks", json!({"type": "object"}));
    setup
        .tool(tool)
        .backends(RuntimeBackends::on_journal(Arc::clone(journal) as _))
        .session(|session| session.session_id(SessionId::from_seed(7)).agent_tool(ask))
        .build()
        .await
}

fn gated(gate: &Gate) -> FnTool {
    let gate = gate.clone();
    tool("work", move |_, _| {
        let gate = gate.clone();
        async move {
            gate.pass().await;
            ToolExecutionResult::success("done")
        }
    })
}

fn work() -> ScriptedCall {
    ScriptedCall::tools(vec![call("c", "work", json!({}))])
}

async fn shut_down(fixture: &Fixture) {
    soon(fixture.runtime.shutdown(PATIENCE)).await;
}

/// Resumes the turn in the next process, and returns its events up to `last`.
async fn continue_until(fixture: &Fixture, last: &str) {
    let events = fixture.runtime.subscribe_after(fixture.session, 0);
    let mut events = events.await.unwrap();
    fixture.resume().await;
    event(&mut events, last).await;
}

#[tokio::test]
async fn running_tool_is_recorded_and_nothing_new_starts() {
    let (journal, gate) = (Arc::new(MemoryJournal::new()), Gate::shut());
    let tool = gated(&gate);
    let first = life(&journal, Setup::new([work()]), &tool).await;
    let turn = first.start("go");
    gate.reached(1).await;
    let stopping = tokio::spawn({
        let first = first.clone();
        async move { shut_down(&first).await }
    });
    first.clock.asleep_for(PATIENCE).await;
    gate.open();
    stopping.await.unwrap();

    assert!(turn.await.unwrap().is_err());
    assert_eq!(first.model.calls(), 1);
    let events = first.events().await;
    let recorded = types(&events);
    assert!(recorded.contains(&"tool.completed"), "{recorded:?}");
    assert!(!recorded.contains(&"session.idled"), "{recorded:?}");

    let second = life(&journal, Setup::new([]), &tool).await;
    continue_until(&second, "turn.completed").await;
    assert_eq!(tool.runs(), 1);
    second.assert_usable().await;
}

#[tokio::test]
async fn tool_that_exceeds_the_patience_is_abandoned() {
    let (journal, gate) = (Arc::new(MemoryJournal::new()), Gate::shut());
    let tool = gated(&gate);
    let first = life(&journal, Setup::new([work()]), &tool).await;
    let turn = first.start("go");
    gate.reached(1).await;
    let stopping = tokio::spawn({
        let first = first.clone();
        async move { shut_down(&first).await }
    });
    first.clock.asleep_for(PATIENCE).await;
    first.clock.advance(PATIENCE);
    stopping.await.unwrap();
    assert!(turn.await.unwrap().is_err());

    let second = life(&journal, Setup::new([]), &tool).await;
    continue_until(&second, "turn.completed").await;
    let statuses: Vec<_> = second
        .events()
        .await
        .iter()
        .filter_map(|event| match &event.data {
            EventData::ToolCompleted(data) => Some(data.status),
            _ => None,
        })
        .collect();
    assert_eq!((statuses, tool.runs()), (vec![ToolStatus::Unknown], 1));
}

#[tokio::test]
async fn streamed_text_is_recorded_and_the_call_is_repeated() {
    let (journal, gate) = (Arc::new(MemoryJournal::new()), Gate::shut());
    let tool = gated(&gate);
    let halting = ScriptedCall::new().text("half").wait(&gate);
    let first = life(&journal, Setup::new([halting]), &tool).await;
    let turn = first.start("go");
    gate.reached(1).await;
    shut_down(&first).await;
    assert!(turn.await.unwrap().is_err());
    let shown = first.events().await.iter().any(
        |event| matches!(&event.data, EventData::OutputMessageDelta(data) if data.delta == "half"),
    );
    assert!(shown, "{:?}", types(&first.events().await));

    let second = life(&journal, Setup::new([ScriptedCall::answer("whole")]), &tool).await;
    continue_until(&second, "turn.completed").await;
    let answer = second.messages().await.pop().unwrap();
    assert_eq!(answer.text(), Some("whole"));
}

#[tokio::test]
async fn parked_turn_is_unchanged_by_shutdown() {
    let (journal, gate) = (Arc::new(MemoryJournal::new()), Gate::shut());
    let tool = gated(&gate);
    let asking = ScriptedCall::tools(vec![call("a", "ask", json!({}))]);
    let first = life(&journal, Setup::new([asking]), &tool).await;
    let parked = first.run("go").await;
    assert_eq!(parked.stop_reason, StopReason::WaitingForToolResults);
    let before = first.events().await;
    shut_down(&first).await;
    assert_eq!(first.events().await, before);

    let second = life(&journal, Setup::new([]), &tool).await;
    let results = vec![ToolResult::success("a", "yes")];
    let answered = second.runtime.submit_tool_results(second.session, results);
    let turn = soon(answered.await.unwrap().wait()).await.unwrap();
    assert!(turn.success);
}

#[tokio::test]
async fn input_is_refused_after_shutdown_and_events_are_readable() {
    let (journal, gate) = (Arc::new(MemoryJournal::new()), Gate::shut());
    let fixture = life(&journal, Setup::new([]), &gated(&gate)).await;
    fixture.run("go").await;
    let before = fixture.events().await;
    shut_down(&fixture).await;
    shut_down(&fixture).await;
    let late = fixture.try_run("late").await;
    assert!(
        matches!(late, Err(AgentLoopError::ShuttingDown)),
        "{late:?}"
    );
    assert_eq!(fixture.events().await, before);
}

#[tokio::test]
async fn turn_that_makes_progress_survives_many_crashes() {
    let (journal, gate) = (Arc::new(MemoryJournal::new()), Gate::shut());
    let tool = gated(&gate);
    gate.open();
    let lives: u32 = 5;
    for number in 0..lives {
        // The tool has finished; the next model call never does.
        let stuck = Gate::shut();
        let setup = Setup::new([work(), ScriptedCall::new().wait(&stuck)]);
        let fixture = life(&journal, setup, &tool).await;
        match number {
            0 => drop(fixture.runtime.submit(fixture.session, "go").await.unwrap()),
            _ => drop(fixture.resume().await),
        }
        stuck.reached(1).await;
        shut_down(&fixture).await;
    }
    let last = life(&journal, Setup::new([]), &tool).await;
    continue_until(&last, "turn.completed").await;
    assert_eq!(tool.runs(), lives as usize);
}

#[tokio::test]
async fn orderly_stop_is_recorded_and_is_no_crash() {
    let (journal, gate) = (Arc::new(MemoryJournal::new()), Gate::shut());
    let tool = gated(&gate);
    for number in 0..10 {
        let stuck = Gate::shut();
        let setup = Setup::new([ScriptedCall::new().wait(&stuck)]);
        let fixture = life(&journal, setup, &tool).await;
        match number {
            0 => drop(fixture.runtime.submit(fixture.session, "go").await.unwrap()),
            _ => drop(fixture.resume().await),
        }
        stuck.reached(1).await;
        shut_down(&fixture).await;
        let events = fixture.events().await;
        assert_eq!(types(&events).last(), Some(&"turn.released"));
    }
    let last = life(&journal, Setup::new([]), &tool).await;
    let turn = soon(last.resume().await.unwrap().wait()).await.unwrap();
    assert!(turn.success, "{turn:?}");
    last.assert_usable().await;
}

#[tokio::test]
async fn shutdown_does_not_release_a_turn_that_was_not_resumed() {
    let (journal, gate) = (Arc::new(MemoryJournal::new()), Gate::shut());
    let tool = gated(&gate);
    let stuck = Gate::shut();
    let setup = Setup::new([ScriptedCall::new().wait(&stuck)]);
    let first = life(&journal, setup, &tool).await;
    drop(first.runtime.submit(first.session, "go").await.unwrap());
    stuck.reached(1).await;

    // The first process is not shut down, as if it had crashed.
    let second = life(&journal, Setup::new([]), &tool).await;
    second.messages().await;
    let before = second.events().await;
    shut_down(&second).await;
    assert_eq!(second.events().await, before);
}
