//! Subagents.

mod budget;
mod restarts;
mod rules;
mod work;

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::derived_id::child_of_step;
use windlass_core::events::{Event, EventData};
use windlass_core::llm_driver_registry::LlmStreamEvent;
use windlass_core::tools::ToolCall;
use windlass_core::turn_request::TurnRequest;
use windlass_core::typed_id::SessionId;
use windlass_runtime::{RuntimeBackends, SubagentSettings};

use crate::support::{
    Fixture, ScriptedCall, ScriptedModel, Setup, SpyJournal, TestClock, call, soon,
};

/// The session of the user.
const ROOT: SessionId = SessionId::from_seed(7);

/// A call that starts a subagent with this prompt.
fn spawn(id: &str, prompt: &str) -> ToolCall {
    call(id, "spawn_agent", json!({ "prompt": prompt }))
}

/// A runtime whose model can start subagents.
async fn process(setup: Setup, settings: SubagentSettings) -> Fixture {
    let setup = setup.session(|session| session.session_id(ROOT).with_capability("subagents"));
    built(setup, settings).await
}

async fn built(setup: Setup, settings: SubagentSettings) -> Fixture {
    let (model, clock) = (setup.model.clone(), setup.clock.clone());
    let builder = setup.builder().subagents(settings);
    Fixture {
        runtime: builder.build().await.expect("the setup is sound"),
        session: ROOT,
        model,
        clock,
    }
}

/// State that outlives a process: a journal, and the records of sessions, harnesses and agents.
struct SharedDisk {
    journal: Arc<SpyJournal>,
    records: RuntimeBackends,
    clock: TestClock,
    model: ScriptedModel,
}

impl SharedDisk {
    fn new() -> Self {
        Self {
            journal: SpyJournal::new(windlass_runtime::MemoryJournal::new()),
            records: RuntimeBackends::in_memory(),
            clock: TestClock::default(),
            model: ScriptedModel::default(),
        }
    }

    async fn start(&self) -> Fixture {
        let backends = RuntimeBackends::on_journal(Arc::clone(&self.journal) as _)
            .with_session_store(Arc::clone(&self.records.session_store))
            .with_harness_store(Arc::clone(&self.records.harness_store))
            .with_agent_store(Arc::clone(&self.records.agent_store));
        let mut setup = Setup::of(&self.model).backends(backends);
        setup.clock = self.clock.clone();
        process(setup, SubagentSettings::default()).await
    }
}

/// Ends a call with this cost.
fn costing(call: ScriptedCall, usd: f64) -> ScriptedCall {
    use windlass_core::llm_driver_registry::LlmCompletionMetadata;
    call.say(LlmStreamEvent::Done(Box::new(LlmCompletionMetadata {
        prompt_tokens: Some(10),
        completion_tokens: Some(5),
        estimated_cost_usd: Some(usd),
        ..LlmCompletionMetadata::default()
    })))
}

async fn events_of(fixture: &Fixture, session: SessionId) -> Vec<Arc<Event>> {
    let journal = fixture.runtime.journal();
    let page = journal.read(&session.into(), 0, 10_000).await;
    page.unwrap().events
}

/// The agents that the calls of a session have begun, in the order of their beginning.
async fn children(fixture: &Fixture, session: SessionId) -> Vec<SessionId> {
    let events = events_of(fixture, session).await;
    let begun = events.iter().filter_map(|event| match &event.data {
        EventData::SubagentStarted(data) => {
            let step = event.context.exec_id.expect("a call begins it");
            assert_eq!(data.child_session_id, child_of_step(step));
            Some(data.child_session_id)
        }
        _ => None,
    });
    begun.collect()
}

/// The first request of a session.
async fn request_of(fixture: &Fixture, session: SessionId) -> TurnRequest {
    let events = events_of(fixture, session).await;
    let request = events.iter().find_map(|event| match &event.data {
        EventData::InputMessage(data) => data.message.turn_request().cloned(),
        _ => None,
    });
    request.expect("it was asked")
}

/// The results of the calls of a session, in order.
async fn results(fixture: &Fixture, session: SessionId) -> Vec<Value> {
    let messages = fixture.runtime.messages(session).await.unwrap();
    let results = messages.iter().filter_map(|message| {
        let result = message.tool_result_content()?;
        Some(result.result.clone().unwrap_or_default())
    });
    results.collect()
}

/// Waits until a session has a record of a type.
async fn recorded(fixture: &Fixture, session: SessionId, kind: &str) {
    soon(async {
        loop {
            let events = events_of(fixture, session).await;
            if events.iter().any(|event| event.event_type == kind) {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}
