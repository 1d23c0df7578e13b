//! Subagents at work: concurrency, answers, and cancellation.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use serde_json::json;
use windlass_core::error::Result;
use windlass_core::events::EventData;
use windlass_core::session::{Session, SubagentStatus};
use windlass_core::tools::{ToolExecutionResult, ToolPolicy};
use windlass_core::traits::{SessionMutator, SessionStore};
use windlass_runtime::{RuntimeSessionStore, SessionProgress, StopReason, SubagentSettings};
use windlass_store::InMemorySessionStore;

use super::*;
use crate::support::{Gate, tool};

#[tokio::test]
async fn concurrent_subagents_return_answers_in_order() {
    let gate = Gate::shut();
    let fixture = process(Setup::new([]), SubagentSettings::default()).await;
    let calls = ["a", "b", "c"].map(|name| spawn(name, name));
    fixture.model.when("go", ScriptedCall::tools(calls.into()));
    fixture.model.when("go", ScriptedCall::answer("all done"));
    for name in ["a", "b", "c"] {
        let answer = ScriptedCall::new()
            .wait(&gate)
            .text(&format!("I am {name}"))
            .done();
        fixture.model.when(name, answer);
    }
    let turn = fixture.start("go");
    // None of them ends before all have begun.
    gate.reached(3).await;
    gate.open();
    let turn = soon(turn).await.unwrap().unwrap();
    assert_eq!((turn.success, &*turn.response), (true, "all done"));
    let results = results(&fixture, ROOT).await;
    let answers: Vec<_> = results.iter().map(|result| &result["answer"]).collect();
    assert_eq!(answers, ["I am a", "I am b", "I am c"]);
    let begun = children(&fixture, ROOT).await;
    assert_eq!(begun.len(), 3);
    for result in &results {
        let child: SessionId = result["session_id"].as_str().unwrap().parse().unwrap();
        assert!(begun.contains(&child));
        let session = fixture.runtime.session(child).await.unwrap();
        assert_eq!(session.parent_session_id, Some(ROOT));
        assert_eq!(session.subagent_status, Some(SubagentStatus::Completed));
        let parent = request_of(&fixture, child).await.parent.unwrap();
        assert_eq!((parent.session_id, parent.depth), (ROOT, 1));
        assert_eq!(parent.turn_id, turn.turn_id);
        assert_eq!(child_of_step(parent.exec_id), child);
    }
    let ended = events_of(&fixture, ROOT).await;
    let ended = ended
        .iter()
        .filter(|event| matches!(&event.data, EventData::SubagentCompleted(data) if data.success));
    assert_eq!(ended.count(), 3);
    fixture.assert_sound().await;
}

#[tokio::test]
async fn concurrent_subagents_are_limited() {
    let (first, second) = (Gate::shut(), Gate::shut());
    let settings = SubagentSettings {
        at_once: 2,
        ..SubagentSettings::default()
    };
    let fixture = process(Setup::new([]), settings).await;
    let calls = ["a", "b", "c"].map(|name| spawn(name, name));
    fixture.model.when("go", ScriptedCall::tools(calls.into()));
    for name in ["a", "b"] {
        let answer = ScriptedCall::new().wait(&first).text(name).done();
        fixture.model.when(name, answer);
    }
    fixture
        .model
        .when("c", ScriptedCall::new().wait(&second).text("c").done());
    let turn = fixture.start("go");
    first.reached(2).await;
    assert_eq!(children(&fixture, ROOT).await.len(), 2);
    first.open();
    second.reached(1).await;
    second.open();
    assert!(soon(turn).await.unwrap().unwrap().success);
    assert_eq!(children(&fixture, ROOT).await.len(), 3);
}

#[tokio::test]
async fn long_answer_is_shortened_and_failure_is_reported() {
    let settings = SubagentSettings {
        answer_bytes: 100,
        ..SubagentSettings::default()
    };
    let fixture = process(Setup::new([]), settings).await;
    let calls = vec![spawn("1", "long"), spawn("2", "broken")];
    fixture.model.when("go", ScriptedCall::tools(calls));
    let long = format!("begin{}end", "x".repeat(1_000_000));
    fixture.model.when("long", ScriptedCall::answer(&long));
    let error = windlass_core::error::AgentLoopError::config("no such model");
    fixture.model.when("broken", ScriptedCall::refused(error));
    assert!(fixture.run("go").await.success);
    let results = results(&fixture, ROOT).await;
    let answer = results[0]["answer"].as_str().unwrap();
    assert!(answer.starts_with("begin") && answer.ends_with("end"));
    assert!(answer.len() < 200, "{}", answer.len());
    let error = results[1]["error"].as_str().unwrap();
    assert!(
        error.contains("failed") && error.contains("no such model"),
        "{error}"
    );
    // The whole answer is in the agent's own session.
    let child = children(&fixture, ROOT).await[0];
    let messages = fixture.runtime.messages(child).await.unwrap();
    assert_eq!(messages[1].text(), Some(&*long));
}

#[tokio::test]
async fn cancelling_a_turn_stops_its_subagents() {
    let gate = Gate::shut();
    let fixture = process(Setup::new([]), SubagentSettings::default()).await;
    let calls = vec![spawn("1", "deep"), spawn("2", "flat")];
    fixture.model.when("go", ScriptedCall::tools(calls));
    fixture
        .model
        .when("deep", ScriptedCall::tools(vec![spawn("3", "deepest")]));
    for name in ["flat", "deepest"] {
        let stuck = ScriptedCall::new().text("half").wait(&gate);
        fixture.model.when(name, stuck);
    }
    let turn = fixture.start("go");
    gate.reached(2).await;
    fixture.runtime.cancel_turn(ROOT).await.unwrap();
    let turn = soon(turn).await.unwrap().unwrap();
    assert_eq!(turn.stop_reason, StopReason::Cancelled);
    let mut all = children(&fixture, ROOT).await;
    assert_eq!(all.len(), 2);
    for child in all.clone() {
        all.extend(children(&fixture, child).await);
    }
    assert_eq!(all.len(), 3);
    for child in all {
        recorded(&fixture, child, "turn.cancelled").await;
        let of_child = Fixture {
            session: child,
            ..fixture.clone()
        };
        recorded(&fixture, child, "session.idled").await;
        of_child.assert_sound().await;
    }
    fixture.assert_sound().await;
    let open = fixture.runtime.journal().open(None, 9).await.unwrap();
    assert!(open.is_empty(), "{open:?}");
}

#[tokio::test]
async fn parked_subagent_is_pending_in_its_own_session() {
    let careful = tool("careful", |_, _| async {
        ToolExecutionResult::success("done")
    })
    .policy(ToolPolicy::RequiresApproval);
    let setup = Setup::new([]).tool(&careful);
    let fixture = process(setup, SubagentSettings::default()).await;
    let calls = vec![spawn("1", "child")];
    fixture.model.when("go", ScriptedCall::tools(calls));
    fixture.model.when("go", ScriptedCall::answer("fine"));
    let asks = vec![call("c", "careful", json!({}))];
    fixture
        .model
        .when("child", ScriptedCall::tools(asks.clone()));
    fixture.model.when("child", ScriptedCall::tools(asks));
    fixture.model.when("child", ScriptedCall::answer("allowed"));
    let turn = fixture.start("go");
    recorded(&fixture, ROOT, "subagent.started").await;
    let child = children(&fixture, ROOT).await[0];
    for round in 1..=2 {
        soon(async {
            loop {
                let events = events_of(&fixture, child).await;
                let asked = events
                    .iter()
                    .filter(|event| event.event_type == "approval.required");
                if asked.count() == round {
                    return;
                }
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(careful.runs(), round - 1);
        let decided = fixture.runtime.decide_tool_call(child, "c", true);
        drop(soon(decided).await.unwrap());
    }
    let turn = soon(turn).await.unwrap().unwrap();
    assert_eq!((turn.success, &*turn.response), (true, "fine"));
    assert_eq!(results(&fixture, ROOT).await[0]["answer"], "allowed");
}

#[tokio::test]
async fn cancelled_or_removed_subagent_is_a_tool_result() {
    for is_removed in [false, true] {
        let gate = Gate::shut();
        let fixture = process(Setup::new([]), SubagentSettings::default()).await;
        fixture
            .model
            .when("go", ScriptedCall::tools(vec![spawn("1", "child")]));
        fixture
            .model
            .when("go", ScriptedCall::answer("then I do it"));
        fixture
            .model
            .when("child", ScriptedCall::new().text("half").wait(&gate));
        let turn = fixture.start("go");
        gate.reached(1).await;
        let child = children(&fixture, ROOT).await[0];
        if is_removed {
            fixture.runtime.remove_session(child).await.unwrap()
        } else {
            fixture.runtime.cancel_turn(child).await.unwrap()
        }
        let turn = soon(turn).await.unwrap().unwrap();
        assert_eq!((turn.success, &*turn.response), (true, "then I do it"));
        let result = &results(&fixture, ROOT).await[0];
        assert!(result["error"].is_string(), "{result}");
        fixture.assert_sound().await;
    }
}

#[tokio::test]
async fn client_turn_in_a_subagent_session_does_not_affect_the_parent() {
    let fixture = process(Setup::new([]), SubagentSettings::default()).await;
    fixture
        .model
        .when("go", ScriptedCall::tools(vec![spawn("1", "child")]));
    fixture.model.when("child", ScriptedCall::answer("mine"));
    fixture.model.when("child", ScriptedCall::answer("yours"));
    assert!(fixture.run("go").await.success);
    let child = children(&fixture, ROOT).await[0];
    let turn = soon(fixture.runtime.run_text_turn(child, "more")).await;
    assert_eq!(turn.unwrap().response, "yours");
    assert_eq!(results(&fixture, ROOT).await[0]["answer"], "mine");
}

#[tokio::test]
async fn turn_with_subagents_can_be_replayed() {
    let fixture = process(Setup::new([]), SubagentSettings::default()).await;
    fixture
        .model
        .when("go", ScriptedCall::tools(vec![spawn("1", "child")]));
    assert!(fixture.run("go").await.success);
    let calls = fixture.model.calls();
    let replay = windlass_runtime::Replay::of(&fixture.runtime, ROOT);
    let report = replay.run().await.unwrap();
    assert!(report.divergence.is_none(), "{:?}", report.divergence);
    assert_eq!(fixture.model.calls(), calls);
    assert_eq!(fixture.runtime.list_sessions().await.unwrap().len(), 2);
}

/// Sessions of which each that works for another is renamed as soon as it was read.
#[derive(Default)]
struct Renaming {
    sessions: InMemorySessionStore,
    names: AtomicUsize,
}

#[async_trait]
impl SessionStore for Renaming {
    async fn get_session(&self, session_id: SessionId) -> Result<Option<Session>> {
        let session = self.sessions.get_session(session_id).await?;
        if session
            .as_ref()
            .is_some_and(|it| it.parent_session_id.is_some())
        {
            let n = self.names.fetch_add(1, Ordering::SeqCst) + 1;
            self.update_session_title(session_id, format!("name {n}"))
                .await?;
        }
        Ok(session)
    }
}

#[async_trait]
impl SessionMutator for Renaming {
    async fn update_session_title(&self, session_id: SessionId, title: String) -> Result<Session> {
        self.sessions.update_session_title(session_id, title).await
    }
}

#[async_trait]
impl RuntimeSessionStore for Renaming {
    async fn add_session(&self, session: Session) -> Result<()> {
        self.sessions.add_session(session).await;
        Ok(())
    }
    async fn note_progress(&self, session_id: SessionId, progress: SessionProgress) -> Result<()> {
        self.sessions.note_progress(session_id, progress).await
    }
    async fn set_subagent_status(
        &self,
        session_id: SessionId,
        status: SubagentStatus,
    ) -> Result<bool> {
        let sessions = &self.sessions;
        sessions.set_subagent_status(session_id, status).await
    }
}

#[tokio::test]
async fn end_of_a_subagent_overwrites_no_other_session_change() {
    let sessions = Arc::new(Renaming::default());
    let backends = RuntimeBackends::in_memory().with_session_store(Arc::clone(&sessions) as _);
    let setup = Setup::new([ScriptedCall::tools(vec![spawn("a", "work")])]).backends(backends);
    let fixture = process(setup, SubagentSettings::default()).await;
    fixture.model.when("work", ScriptedCall::answer("done"));
    assert!(fixture.run("go").await.success);
    let [child] = children(&fixture, ROOT).await[..] else {
        panic!("one agent was started")
    };
    let names = sessions.names.load(Ordering::SeqCst);
    let session = sessions.sessions.get_session(child).await.unwrap().unwrap();
    assert_eq!(session.subagent_status, Some(SubagentStatus::Completed));
    assert_eq!(session.title, Some(format!("name {names}")));
}
