//! An agent of a session that leaves memory, where the journal is on disk.

use std::sync::Arc;

use windlass_core::backend::BackendSpec;
use windlass_core::llmsim_driver::LlmSimConfig;
use windlass_runtime::{
    AgentBuilder, BackendRequest, HarnessBuilder, InProcessRuntimeBuilder, RuntimeBackends,
    RuntimeSettings, SessionBuilder, SqliteOptions, SqliteStore,
};

use super::fake::{Agent, Fake, Script};
use super::to_agent;
use crate::support::soon;

#[tokio::test]
async fn the_process_goes_with_its_session_and_the_next_one_takes_up_from_disk() {
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
    let fake = Fake::new([Script::says("one"), Script::says("two")]);
    let host = |_: BackendRequest| Ok(BackendSpec::new("test", "/"));
    let runtime = InProcessRuntimeBuilder::new()
        .backends(RuntimeBackends::on_sqlite(&store))
        .llm_sim(LlmSimConfig::fixed("said"))
        .backend(Arc::new(Agent(Arc::clone(&fake))), Arc::new(host))
        .settings(RuntimeSettings {
            idle_sessions: 1,
            idle_time: None,
            ..RuntimeSettings::default()
        })
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
