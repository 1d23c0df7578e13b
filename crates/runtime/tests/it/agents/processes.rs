//! Ownership and lifetime of an agent's process.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::backend::BackendErrorKind;
use windlass_runtime::{ForkAt, ForkOptions};

use super::fake::{AgentScript, Fake};
use super::{count, failure, only_life, run, submit, to_agent};
use crate::support::{Gate, ScriptedCall, soon};

async fn gone(fake: &Arc<Fake>) {
    let mut processes = fake.processes.subscribe();
    soon(processes.wait_for(|count| *count == 0)).await.unwrap();
}

#[tokio::test]
async fn a_process_serves_several_turns() {
    let fake = Fake::new(["a", "b", "c"].map(AgentScript::says));
    let fixture = only_life(&fake).await;
    for text in ["a", "b", "c"] {
        assert_eq!(run(&fixture, "more").await.response, text);
    }
    assert_eq!(fake.opened(), ["new s1"]);
    assert_eq!(fake.prompts(), ["more", "more", "more"]);
    assert_eq!(count(&fixture, "backend.established").await, 3);
}

#[tokio::test]
async fn idle_process_is_ended() {
    let fake = Fake::new([AgentScript::says("a"), AgentScript::says("b")]);
    let fixture = only_life(&fake).await;
    run(&fixture, "go").await;
    assert_eq!(*fake.processes.borrow(), 1);
    fixture.clock.advance(Duration::from_secs(601));
    gone(&fake).await;
    // The next turn resumes the session in another process.
    assert_eq!(run(&fixture, "more").await.response, "b");
    assert_eq!(fake.opened(), ["new s1", "resume s1"]);
}

#[tokio::test]
async fn a_process_ends_with_the_runtime_and_with_the_session() {
    let fake = Fake::new([AgentScript::says("a")]);
    let fixture = only_life(&fake).await;
    run(&fixture, "go").await;
    fixture.runtime.shutdown(Duration::ZERO).await;
    assert_eq!(*fake.processes.borrow(), 0);

    let gate = Gate::shut();
    let fake = Fake::new([AgentScript::says("a"), AgentScript::default().wait(&gate)]);
    let fixture = only_life(&fake).await;
    run(&fixture, "go").await;
    let _running = submit(&fixture, "more").await;
    gate.reached(1).await;
    fixture
        .runtime
        .remove_session(fixture.session)
        .await
        .unwrap();
    assert_eq!(*fake.processes.borrow(), 0);
}

#[tokio::test]
async fn unknown_agent_session_is_replaced_with_the_conversation_as_prompt() {
    let fake = Fake::new([
        AgentScript::says("hello"),
        AgentScript::refuses(),
        AgentScript::says("again"),
    ]);
    let fixture = only_life(&fake).await;
    run(&fixture, "hi").await;
    fixture.clock.advance(Duration::from_secs(601));
    gone(&fake).await;
    assert_eq!(run(&fixture, "more").await.response, "again");
    assert_eq!(fake.opened(), ["new s1", "resume s1", "new s2"]);
    let prompt = fake.prompts().pop().unwrap();
    assert!(
        prompt.contains("User: hi") && prompt.contains("Assistant: hello"),
        "{prompt}"
    );
    assert!(prompt.ends_with("more"), "{prompt}");
    assert_eq!(count(&fixture, "backend.notice").await, 1);
    fixture.assert_sound().await;
}

#[tokio::test]
async fn prompt_of_a_crashed_process_is_repeated_to_the_next() {
    let dying = AgentScript::default()
        .silent()
        .fails(BackendErrorKind::Protocol);
    let fake = Fake::new([AgentScript::says("one"), dying, AgentScript::says("three")]);
    let fixture = only_life(&fake).await;
    run(&fixture, "1").await;
    assert!(!run(&fixture, "2").await.success);
    assert_eq!(run(&fixture, "3").await.response, "three");
    assert_eq!(fake.opened(), ["new s1", "new s2"]);
    let prompt = fake.prompts().pop().unwrap();
    assert!(
        prompt.contains("User: 2") && prompt.ends_with('3'),
        "{prompt}"
    );
    fixture.assert_sound().await;
}

#[tokio::test]
async fn fifth_consecutive_abort_fails_the_turn() {
    let fake = Fake::new((0..5).map(|_| AgentScript::aborts()));
    let fixture = only_life(&fake).await;
    assert!(!run(&fixture, "go").await.success);
    assert_eq!(failure(&fixture).await.as_deref(), Some("backend_killed"));
    assert_eq!(fake.opened().len(), 5);

    let scripts = (0..4)
        .map(|_| AgentScript::aborts())
        .chain([AgentScript::says("well")]);
    let fake = Fake::new(scripts);
    let fixture = only_life(&fake).await;
    assert_eq!(run(&fixture, "go").await.response, "well");
    assert_eq!(fake.prompts(), ["go"; 5]);
}

#[tokio::test]
async fn fork_rewind_and_model_turns_resend_the_conversation() {
    let fake = Fake::new(["one", "two", "three", "four"].map(AgentScript::says));
    let fixture = only_life(&fake).await;
    let first = submit(&fixture, "1").await;
    let turn_id = first.turn_id();
    soon(first.wait()).await.unwrap();

    let forked = fixture
        .runtime
        .fork_session(fixture.session, ForkAt::Latest, ForkOptions::new());
    let fork = soon(forked).await.unwrap();
    let handle = fixture.runtime.submit(fork, to_agent("2")).await.unwrap();
    assert_eq!(soon(handle.wait()).await.unwrap().response, "two");
    assert_eq!(fake.opened(), ["new s1", "new s2"]);
    assert!(fake.prompts()[1].contains("Assistant: one"));

    fixture
        .runtime
        .rewind_session(fixture.session, turn_id)
        .await
        .unwrap();
    run(&fixture, "3").await;
    assert_eq!(fake.opened().pop().unwrap(), "new s3");
    assert!(fake.prompts()[2].contains("Assistant: one"));

    // The agent does not know a turn that the model executed.
    fixture
        .model
        .rewrite([ScriptedCall::answer("from the model")]);
    fixture.run("aside").await;
    run(&fixture, "4").await;
    assert_eq!(fake.opened().pop().unwrap(), "new s4");
    assert!(fake.prompts()[3].contains("from the model"));
}

#[tokio::test]
async fn an_agent_that_cannot_start_fails_the_turn() {
    let fake = Fake::new([AgentScript::default()
        .silent()
        .fails(BackendErrorKind::BadInvocation)]);
    let fixture = only_life(&fake).await;
    assert!(!run(&fixture, "go").await.success);
    assert_eq!(
        failure(&fixture).await.as_deref(),
        Some("backend_bad_invocation")
    );
    gone(&fake).await;
}
