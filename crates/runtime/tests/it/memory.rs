//! R42 to R49: how much is retained, how often stores and drivers are called, and that nothing leaks.
//!
//! The measurements of R43, R47 and R49 are in `bench/`; these tests only count operations and never measure time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use serde_json::json;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::EventData;
use windlass_core::llm_driver_registry::LlmStreamEvent;
use windlass_core::llmsim_driver::LlmSimConfig;
use windlass_core::session::Session;
use windlass_core::tools::ToolExecutionResult;
use windlass_core::traits::{SessionFileSystem, SessionMutator, SessionStorageStore, SessionStore};
use windlass_core::typed_id::{ModelId, SessionId};
use windlass_runtime::{
    InMemorySessionFileStore, InMemorySessionStorageStore, InMemorySessionStore,
    InProcessRuntimeBuilder, MemoryJournal, RuntimeBackends, RuntimeHostAdapter,
    RuntimeSessionStore, SessionBuilder,
};

use crate::support::{
    Bundle, Fixture, ScriptedCall, Setup, SpyJournal, call, scripted_model, tool,
};

async fn event_bytes(fixture: &Fixture) -> usize {
    let events = fixture.events().await;
    events
        .iter()
        .map(|event| serde_json::to_string(&**event).unwrap().len())
        .sum()
}

#[tokio::test]
async fn r42_the_log_grows_linearly_with_the_turns() {
    let echo = tool("echo", |_, _| async { ToolExecutionResult::success("hi") });
    let fixture = Setup::new([]).tool(&echo).build().await;
    let mut bytes = Vec::new();
    for _ in 0..2 {
        for n in 0..40 {
            fixture.model.then(ScriptedCall::tools(vec![call(
                &format!("c{n}"),
                "echo",
                json!({}),
            )]));
            fixture.model.then(ScriptedCall::answer(
                "a reply of an ordinary length, as such replies go",
            ));
            fixture.run("a message from the user to the agent").await;
        }
        bytes.push(event_bytes(&fixture).await);
    }
    assert!(bytes[1] * 10 <= bytes[0] * 22, "{bytes:?}");
}

/// Sessions in memory; counts the reads.
#[derive(Default)]
struct CountingSessions {
    inner: InMemorySessionStore,
    asked: AtomicUsize,
}

#[async_trait]
impl SessionStore for CountingSessions {
    async fn get_session(&self, id: SessionId) -> Result<Option<Session>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.inner.get_session(id).await
    }
}
#[async_trait]
impl SessionMutator for CountingSessions {
    async fn update_session_title(&self, id: SessionId, title: String) -> Result<Session> {
        self.inner.update_session_title(id, title).await
    }
}
#[async_trait]
impl RuntimeSessionStore for CountingSessions {
    async fn add_session(&self, session: Session) -> Result<()> {
        self.inner.add_session(session).await;
        Ok(())
    }
}

#[tokio::test]
async fn r43_work_per_turn_is_constant() {
    // CPU time is measured by the benchmarks; this counts store reads, journal reads and appends, and bytes.
    let sessions = Arc::new(CountingSessions::default());
    let journal = SpyJournal::new(MemoryJournal::new());
    let backends = RuntimeBackends::on_journal(Arc::clone(&journal) as _)
        .with_session_store(Arc::clone(&sessions) as _);
    let fixture = Setup::new([]).backends(backends).build().await;
    let work = || {
        (
            sessions.asked.load(Ordering::SeqCst),
            journal.reads(),
            journal.appends(),
        )
    };
    let mut costs = Vec::new();
    for n in 0..200 {
        let before = work();
        fixture.run("go").await;
        let after = work();
        if n > 0 {
            costs.push((after.0 - before.0, after.1 - before.1, after.2 - before.2));
        }
    }
    assert!(costs.iter().all(|cost| *cost == costs[0]), "{costs:?}");
    assert_eq!((costs[0].1, costs[0].2), (0, 2));
}

#[tokio::test]
async fn r44_deltas_grow_linearly_with_the_reply() {
    let mut bytes = Vec::new();
    for pieces in [1_000, 2_000] {
        let piece = "0123456789".repeat(10);
        let answer = (0..pieces)
            .fold(ScriptedCall::new(), |answer, _| answer.text(&piece))
            .done();
        let fixture = Setup::new([answer]).build().await;
        assert_eq!(fixture.run("go").await.response.len(), pieces * 100);
        let events = fixture.events().await;
        let deltas = events
            .iter()
            .filter(|event| matches!(event.data, EventData::OutputMessageDelta(_)));
        bytes.push(
            deltas
                .map(|event| serde_json::to_string(&**event).unwrap().len())
                .sum::<usize>(),
        );
    }
    assert!(bytes[1] * 10 <= bytes[0] * 22, "{bytes:?}");
}

#[tokio::test]
async fn r45_configuration_is_resolved_once_per_turn_and_history_is_shared() {
    let echo = tool("echo", |_, _| async { ToolExecutionResult::success("hi") });
    let bundle = Bundle::new("counting").tool(&echo);
    let fixture = Setup::new(
        (0..5).map(|n| ScriptedCall::tools(vec![call(&format!("c{n}"), "echo", json!({}))])),
    )
    .bundle(&bundle)
    .build()
    .await;
    for expected_calls in [6, 7] {
        let before = bundle.tools_asked.load(Ordering::SeqCst);
        fixture.run("go").await;
        assert_eq!(bundle.tools_asked.load(Ordering::SeqCst) - before, 1);
        assert_eq!(fixture.model.calls(), expected_calls);
    }
    let requests = fixture.model.requests();
    for pair in requests.windows(2) {
        let same = pair[0].history.iter().zip(pair[1].history.iter());
        assert!(
            same.into_iter().all(|(a, b)| Arc::ptr_eq(a, b)),
            "a message was copied"
        );
    }
    assert!(Arc::ptr_eq(&requests[0].config, &requests[5].config));
    assert!(Arc::ptr_eq(
        &requests[0].system_prompt,
        &requests[5].system_prompt
    ));
}

#[tokio::test]
async fn r46_a_driver_is_made_once_per_model_configuration() {
    let models = Arc::new(windlass_core::in_memory::InMemoryLlmProviderStore::new());
    let elsewhere = windlass_core::llm_models::ModelWithProvider {
        base_url: Some("http://elsewhere".into()),
        ..scripted_model()
    };
    models.add_model(ModelId::from_seed(1), elsewhere).await;
    let fixture = Setup::new([])
        .backends(RuntimeBackends::in_memory().with_provider_store(models))
        .build()
        .await;
    for _ in 0..5 {
        fixture.run("go").await;
    }
    assert_eq!((fixture.model.calls(), fixture.model.made()), (5, 1));
    let harness = fixture
        .runtime
        .session(fixture.session)
        .await
        .unwrap()
        .harness_id;
    let other = SessionBuilder::new(harness)
        .model_id(ModelId::from_seed(1))
        .build();
    let id = other.id;
    fixture.runtime.add_session(other).await.unwrap();
    for _ in 0..2 {
        fixture.runtime.run_text_turn(id, "go").await.unwrap();
    }
    assert_eq!((fixture.model.calls(), fixture.model.made()), (7, 2));
}

#[tokio::test]
async fn r47_other_sessions_add_no_cost() {
    // The cost is measured by the bench. This test checks that other sessions are neither read nor changed.
    let fixture = Setup::new([]).build().await;
    let (files, storage) = (
        fixture.runtime.file_store(),
        fixture.runtime.storage_store().unwrap(),
    );
    let (mine, others) = (fixture.session, (1..50).map(SessionId::from_seed));
    for other in others.clone() {
        files
            .write_file(other, "/dir/theirs", "needle", "text")
            .await
            .unwrap();
        storage.set_value(other, "theirs", "1").await.unwrap();
    }
    files
        .write_file(mine, "/dir/mine", "needle", "text")
        .await
        .unwrap();
    storage.set_value(mine, "mine", "1").await.unwrap();
    let listed = files.list_directory(mine, "/dir").await.unwrap();
    assert_eq!(
        listed
            .iter()
            .map(|file| file.name.as_str())
            .collect::<Vec<_>>(),
        ["mine"]
    );
    assert_eq!(
        files.grep_files(mine, "needle", None).await.unwrap().len(),
        1
    );
    assert_eq!(storage.list_keys(mine).await.unwrap().len(), 1);
    assert!(files.delete_file(mine, "/dir", true).await.unwrap());
    for other in others {
        assert!(
            files
                .read_file(other, "/dir/theirs")
                .await
                .unwrap()
                .is_some()
        );
    }
}

#[tokio::test]
async fn r49_removed_session_leaves_nothing() {
    // That the memory comes back is the bench's; here: there is nothing to find any more.
    let (files, storage) = (
        Arc::new(InMemorySessionFileStore::new()),
        Arc::new(InMemorySessionStorageStore::new()),
    );
    let journal = Arc::new(MemoryJournal::new());
    let backends = RuntimeBackends::on_journal(Arc::clone(&journal) as _)
        .with_file_system(Arc::clone(&files) as _)
        .with_storage_store(Arc::clone(&storage) as _);
    let runtime = InProcessRuntimeBuilder::new()
        .llm_sim(LlmSimConfig::sequence(vec![
            "first".into(),
            "second".into(),
        ]))
        .backends(backends)
        .single_session(|session| session)
        .build()
        .await
        .unwrap();
    let id = runtime.default_session_id().unwrap();
    let record = runtime.session(id).await.unwrap();
    assert_eq!(
        runtime.run_text_turn(id, "hi").await.unwrap().response,
        "first"
    );
    files.write_file(id, "/f", "x", "text").await.unwrap();
    storage.set_value(id, "k", "v").await.unwrap();
    storage.set_secret(id, "s", "v").await.unwrap();
    runtime.remove_session(id).await.unwrap();
    assert!(runtime.events().await.unwrap().is_empty());
    assert!(files.read_file(id, "/f").await.unwrap().is_none());
    assert!(storage.list_keys(id).await.unwrap().is_empty());
    assert!(storage.list_secrets(id).await.unwrap().is_empty());
    let stream = windlass_store::StreamKey::from(id);
    assert!(
        !windlass_runtime::Journal::remove(&*journal, &stream)
            .await
            .unwrap(),
        "the stream is still there"
    );
    for gone in [
        runtime.messages(id).await.map(drop),
        runtime.events_for(id).await.map(drop),
        runtime.read_file(id, "/f").await.map(drop),
        runtime.remove_session(id).await,
    ] {
        assert!(matches!(gone, Err(AgentLoopError::SessionNotFound(gone)) if gone == id));
    }
    // A session under the old id is a new one: the simulator begins its script again.
    runtime.add_session(record).await.unwrap();
    assert!(runtime.messages(id).await.unwrap().is_empty());
    let turn = runtime.run_text_turn(id, "hi").await.unwrap();
    assert_eq!(turn.response, "first");
    assert_eq!(runtime.events_for(id).await.unwrap()[0].sequence, Some(1));
}

#[tokio::test]
async fn r49_a_session_can_be_removed_by_a_caller_that_does_not_wait() {
    let fixture = Setup::new([]).build().await;
    fixture.run("hi").await;
    for polls in 0..4 {
        let harness = fixture
            .runtime
            .session(fixture.session)
            .await
            .unwrap()
            .harness_id;
        let session = SessionBuilder::new(harness).build();
        let id = session.id;
        fixture.runtime.add_session(session).await.unwrap();
        fixture.runtime.run_text_turn(id, "hi").await.unwrap();
        let removing = {
            let runtime = fixture.runtime.clone();
            tokio::spawn(async move { runtime.remove_session(id).await })
        };
        for _ in 0..polls {
            tokio::task::yield_now().await;
        }
        removing.abort();
        let _ = removing.await;
        // It is either all there or all gone, at the latest after another try.
        match fixture.runtime.remove_session(id).await {
            Ok(()) | Err(AgentLoopError::SessionNotFound(_)) => {}
            Err(other) => panic!("after {polls}: {other}"),
        }
        crate::support::soon(async {
            while fixture.runtime.session(id).await.is_ok() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    fixture.assert_usable().await;
}

#[tokio::test]
async fn thinking_is_stored_with_its_message_and_sent_back() {
    let fixture = Setup::new([ScriptedCall::new()
        .say(LlmStreamEvent::ThinkingDelta("I wonder".into()))
        .say(LlmStreamEvent::ThinkingSignature("sig".into()))
        .text("well")
        .done()])
    .build()
    .await;
    fixture.run("go").await;
    fixture.run("on").await;
    let sent = fixture.model.requests()[1].to_llm_messages();
    assert_eq!(sent[2].thinking.as_deref(), Some("I wonder"));
    assert_eq!(sent[2].thinking_signature.as_deref(), Some("sig"));
}
