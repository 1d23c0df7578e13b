//! Turns that an external agent executes, as an application uses them.

mod conversation;
mod fake;
mod lists;
#[cfg(feature = "sqlite")]
mod on_disk;
mod processes;
mod restarts;
mod spending;
mod subagents;
mod work;

use std::sync::Arc;
use std::time::Duration;

use windlass_core::backend::BackendSpec;
use windlass_core::events::EventData;
use windlass_core::message::InputMessage;
use windlass_core::turn_request::TurnRequest;
use windlass_core::typed_id::SessionId;
use windlass_runtime::{
    BackendHost, BackendRequest, Journal, MemoryJournal, RuntimeBackends, TurnHandle, TurnResult,
};

use crate::support::{Fixture, Setup, soon};
use fake::{Fake, FakeBackend};

/// A process on the journal of earlier ones, with the agent of them all.
async fn life<J: Journal + 'static>(journal: &Arc<J>, fake: &Arc<Fake>, setup: Setup) -> Fixture {
    let host = |request: BackendRequest| {
        let mut spec = BackendSpec::new("test", "/");
        spec.model = request.model;
        Ok(spec)
    };
    life_with(journal, fake, setup, Arc::new(host)).await
}

async fn life_with<J: Journal + 'static>(
    journal: &Arc<J>,
    fake: &Arc<Fake>,
    setup: Setup,
    host: Arc<dyn BackendHost>,
) -> Fixture {
    let setup = setup
        .backends(RuntimeBackends::on_journal(Arc::clone(journal) as _))
        .session(|session| session.session_id(SessionId::from_seed(7)));
    let (model, clock) = (setup.model.clone(), setup.clock.clone());
    let agent = Arc::new(FakeBackend(Arc::clone(fake)));
    let builder = setup.builder().backend(agent, host);
    let runtime = builder.build().await.unwrap();
    Fixture {
        session: SessionId::from_seed(7),
        runtime,
        model,
        clock,
    }
}

async fn only_life(fake: &Arc<Fake>) -> Fixture {
    life(&Arc::new(MemoryJournal::new()), fake, Setup::new([])).await
}

fn to_agent(text: &str) -> InputMessage {
    InputMessage::user(text).with_turn_request(TurnRequest {
        backend: Some("fake".to_owned()),
        ..TurnRequest::default()
    })
}

async fn submit(fixture: &Fixture, text: &str) -> TurnHandle {
    let submitted = fixture.runtime.submit(fixture.session, to_agent(text));
    soon(submitted).await.unwrap()
}

async fn run(fixture: &Fixture, text: &str) -> TurnResult {
    let handle = submit(fixture, text).await;
    soon(handle.wait()).await.unwrap()
}

/// The conversation in short lines.
async fn transcript(fixture: &Fixture) -> Vec<String> {
    let messages = fixture.messages().await;
    let lines = messages.iter().map(|message| {
        let calls = message.tool_calls();
        let calls = calls.iter().map(|call| format!(" [{}]", call.id));
        let text = message.text().unwrap_or_default();
        format!("{} {text}{}", message.role, calls.collect::<String>())
    });
    lines.map(|line| line.trim_end().to_owned()).collect()
}

/// How many events of a type there are.
async fn count(fixture: &Fixture, kind: &str) -> usize {
    let events = fixture.events().await;
    events
        .iter()
        .filter(|event| event.event_type == kind)
        .count()
}

/// Waits until the journal has an event of a type.
async fn recorded(fixture: &Fixture, kind: &str) {
    soon(async {
        while count(fixture, kind).await == 0 {
            if kind.ends_with(".delta") {
                fixture.clock.advance(Duration::from_millis(32));
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// How the last turn failed.
async fn failure(fixture: &Fixture) -> Option<String> {
    let events = fixture.events().await;
    events.iter().rev().find_map(|event| match &event.data {
        EventData::TurnFailed(data) => data.error_code.clone(),
        _ => None,
    })
}
