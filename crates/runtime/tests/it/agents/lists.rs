//! Lists and traces of turns of external agents.

use std::sync::Arc;

use windlass_core::backend::BackendSpec;
use windlass_core::items::{ItemKind, TurnLog};
use windlass_core::runs::{RunRecord, TurnTrace};
use windlass_runtime::{BackendRequest, RuntimeBackends};
use windlass_store::StreamKey;

use super::fake::{AgentScript, Fake, FakeBackend};
use super::{run, submit};
use crate::support::{Fixture, Setup, soon};

async fn listed(fake: &Arc<Fake>) -> Fixture {
    let setup = Setup::new([]).backends(RuntimeBackends::in_memory());
    let (model, clock) = (setup.model.clone(), setup.clock.clone());
    let host = |_: BackendRequest| Ok(BackendSpec::new("test", "/"));
    let agent = Arc::new(FakeBackend(Arc::clone(fake)));
    let builder = setup.builder().backend(agent, Arc::new(host));
    let runtime = builder.build().await.unwrap();
    Fixture {
        session: runtime.default_session_id().unwrap(),
        runtime,
        model,
        clock,
    }
}

#[tokio::test]
async fn turn_of_an_external_agent_is_listed() {
    let script = AgentScript::says("I look.")
        .call("a")
        .ask("r1", "a")
        .done("a");
    let fake = Fake::new([script.text("Done.")]);
    let fixture = listed(&fake).await;
    let queries = fixture.runtime.queries().unwrap();
    let stream = StreamKey::from(fixture.session);

    let parked = submit(&fixture, "look").await;
    let turn_id = parked.turn_id();
    soon(parked.wait()).await.unwrap();
    assert_eq!(queries.waits(Some(&stream)).await.unwrap().len(), 1);

    let decided = fixture
        .runtime
        .decide_tool_call(fixture.session, "a", true)
        .await;
    soon(decided.unwrap().wait()).await.unwrap();
    assert!(queries.waits(Some(&stream)).await.unwrap().is_empty());
    let row = queries.turn(&stream, turn_id).await.unwrap().unwrap();
    let view = &row.view;
    assert_eq!(view.outline.backend.as_deref(), Some("fake"));
    assert_eq!(view.outline.model.as_deref(), Some("fake-1"));
    assert_eq!(view.usage.unwrap().output_tokens, 3);
    assert_eq!((view.iterations, view.tool_call_count), (1, 1));

    let log = TurnLog::fold(&fixture.events().await);
    let items = log.items_of(turn_id).map(|item| item.kind);
    assert_eq!(
        items.collect::<Vec<_>>(),
        [
            ItemKind::UserMessage,
            ItemKind::AgentMessage,
            ItemKind::ToolCall,
            ItemKind::AgentMessage
        ]
    );
    assert!(
        log.items_of(turn_id)
            .any(|item| item.tool().is_some_and(|tool| tool.is_observed))
    );
}

#[tokio::test]
async fn trace_of_an_external_agent_has_answer_and_usage() {
    let fake = Fake::new([AgentScript::says("All is well.")]);
    let fixture = listed(&fake).await;
    run(&fixture, "how is it?").await;
    let events = fixture.events().await;
    let turn_id = events
        .iter()
        .find_map(|event| event.context.turn_id)
        .unwrap();
    let mut trace = TurnTrace::new(turn_id, "agent");
    let records = events.iter().filter_map(|event| trace.apply(event));
    let answered = records
        .filter_map(|record| match record {
            RunRecord::ModelTurn(turn) => Some(turn),
            _ => None,
        })
        .collect::<Vec<_>>();
    assert_eq!(answered.len(), 1);
    assert_eq!(answered[0].assistant_text, "All is well.");
    assert_eq!(answered[0].model_id, "fake-1");
    assert!(answered[0].token_usage.is_some());
}
