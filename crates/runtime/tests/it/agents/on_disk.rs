//! The external agent of a session that is evicted from memory, with a journal on disk.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::backend::{
    BackendEvent, BackendSpec, ObservedCall, ObservedResult, PermissionRequest,
};
use windlass_core::llmsim_driver::LlmSimConfig;
use windlass_runtime::{
    AgentBuilder, BackendRequest, HarnessBuilder, InProcessRuntimeBuilder, RuntimeBackends,
    RuntimeSettings, SessionBuilder, SqliteOptions, SqliteStore,
};

use super::fake::{AgentScript, Fake, FakeBackend};
use super::{life, recorded, run, submit, to_agent, transcript};
use crate::support::{Setup, soon};

#[tokio::test]
async fn evicted_session_ends_its_process_and_resumes_from_disk() {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions::new(directory.path().join("data"));
    let store = SqliteStore::open(options).await.unwrap();
    let harness = HarnessBuilder::new("h", "prompt").build();
    let agent = AgentBuilder::new("a", "agent").build();
    let session = || {
        SessionBuilder::new(harness.id)
            .agent(agent.public_id)
            .build()
    };
    let (first, second) = (session(), session());
    let (id, other) = (first.id, second.id);
    let fake = Fake::new([AgentScript::says("one"), AgentScript::says("two")]);
    let host = |_: BackendRequest| Ok(BackendSpec::new("test", "/"));
    let runtime = InProcessRuntimeBuilder::new()
        .backends(RuntimeBackends::on_sqlite(&store))
        .llm_sim(LlmSimConfig::fixed("said"))
        .backend(Arc::new(FakeBackend(Arc::clone(&fake))), Arc::new(host))
        .settings(RuntimeSettings::default().idle_sessions(1).idle_time(None))
        .harness(harness)
        .agent(agent)
        .session(first)
        .session(second)
        .build()
        .await
        .unwrap();
    let turn = runtime.submit(id, to_agent("1")).await.unwrap();
    assert_eq!(soon(turn.wait()).await.unwrap().response, "one");
    assert_eq!(*fake.processes.borrow(), 1);

    // Others are used, and the session leaves memory.
    let mut processes = fake.processes.subscribe();
    soon(async {
        while *processes.borrow_and_update() > 0 {
            runtime.run_text_turn(other, "hello").await.unwrap();
        }
    })
    .await;

    let turn = runtime.submit(id, to_agent("2")).await.unwrap();
    assert_eq!(soon(turn.wait()).await.unwrap().response, "two");
    assert_eq!(fake.opened(), ["new s1", "resume s1"]);
    assert_eq!(fake.prompts(), ["1", "2"]);
}

#[tokio::test]
async fn deeply_nested_agent_output_is_readable_again() {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions::new(directory.path().join("data"));
    let store = SqliteStore::open(options).await.unwrap();
    let journal = Arc::new(store.journal());
    // The maximum depth of a line that is read.
    let deep = (0..124).fold(json!("in"), |value: Value, _| json!([value]));
    let script = AgentScript::default()
        .tell(BackendEvent::ToolStarted(ObservedCall {
            id: "a".to_owned(),
            name: "Bash".to_owned(),
            arguments: deep.clone(),
            parent: None,
        }))
        .tell(BackendEvent::ToolCompleted(ObservedResult {
            call_id: "a".to_owned(),
            output: deep.clone(),
            is_error: false,
        }))
        .tell(BackendEvent::Permission(PermissionRequest {
            id: "r1".to_owned(),
            call_id: Some("b".to_owned()),
            name: "Bash".to_owned(),
            arguments: deep,
            title: None,
        }))
        .text("done");
    let first = life(&journal, &Fake::new([script]), Setup::new([])).await;
    drop(submit(&first, "go").await);
    recorded(&first, "turn.completed").await;
    first.runtime.shutdown(Duration::ZERO).await;

    let fake = Fake::new([AgentScript::says("well")]);
    let next = life(&journal, &fake, Setup::new([])).await;
    let said = transcript(&next).await;
    assert_eq!(said[..3], ["user go", "agent  [a]", "tool_result"]);
    assert_eq!(run(&next, "more").await.response, "well");
}
