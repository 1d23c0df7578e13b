//! With a journal on disk, idle sessions are evicted from memory without any loss.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::llmsim_driver::LlmSimConfig;
use windlass_core::session::SessionStatus;
use windlass_core::tools::{ToolCall, ToolDefinition};
use windlass_core::typed_id::SessionId;
use windlass_runtime::{
    AgentBuilder, HarnessBuilder, InProcessRuntime, InProcessRuntimeBuilder, RuntimeBackends,
    RuntimeSettings, SessionBuilder, SqliteOptions, SqliteStore, StopReason, ThreadQuery,
};

use super::support::{TestClock, soon};

struct Idle {
    runtime: InProcessRuntime,
    store: SqliteStore,
    clock: TestClock,
    sessions: Vec<SessionId>,
    _directory: tempfile::TempDir,
}

/// Creates a runtime on disk with this many sessions; `calls` are the model's calls, turn by turn.
async fn idle(sessions: usize, settings: RuntimeSettings, calls: Vec<Vec<ToolCall>>) -> Idle {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions::new(directory.path().join("data"));
    let store = SqliteStore::open(options).await.unwrap();
    let harness = HarnessBuilder::new("h", "prompt").build();
    let ask = ToolDefinition::client_side("ask", "Asks.", serde_json::json!({"type": "object"}));
    let agent = AgentBuilder::new("a", "agent").tool(ask).build();
    let clock = TestClock::default();
    let sessions: Vec<_> = (0..sessions)
        .map(|n| {
            let session = SessionBuilder::new(harness.id).agent(agent.public_id);
            session.title(format!("session {n}")).build()
        })
        .collect();
    let ids = sessions.iter().map(|session| session.id).collect();
    let runtime = InProcessRuntimeBuilder::new()
        .backends(RuntimeBackends::on_sqlite(&store))
        .llm_sim(LlmSimConfig::fixed("said").with_tool_call_sequence(calls))
        .harness(harness)
        .agent(agent)
        .settings(settings)
        .clock(Arc::new(clock.clone()));
    let runtime = sessions
        .into_iter()
        .fold(runtime, |runtime, session| runtime.session(session));
    Idle {
        runtime: runtime.build().await.unwrap(),
        store,
        clock,
        sessions: ids,
        _directory: directory,
    }
}

/// Waits until at most this many sessions are in memory.
#[track_caller]
fn at_most(idle: &Idle, count: usize) -> impl Future<Output = ()> {
    let runtime = idle.runtime.clone();
    soon(async move {
        while runtime.loaded_sessions() > count {
            tokio::task::yield_now().await;
        }
    })
}

fn keep(idle_sessions: usize, idle_time: Option<Duration>) -> RuntimeSettings {
    RuntimeSettings::default()
        .idle_sessions(idle_sessions)
        .idle_time(idle_time)
}

#[tokio::test]
async fn least_recently_used_sessions_are_evicted_and_reloaded() {
    let idle = idle(12, keep(3, None), Vec::new()).await;
    assert_eq!(
        idle.runtime.loaded_sessions(),
        0,
        "nothing is loaded before it is used"
    );
    for id in &idle.sessions {
        idle.runtime.run_text_turn(*id, "first").await.unwrap();
        assert!(idle.runtime.loaded_sessions() <= 4 + 1);
    }
    let first = idle.sessions[0];
    let turn = idle.runtime.run_text_turn(first, "second").await.unwrap();
    assert!(turn.success);
    let messages = idle.runtime.messages(first).await.unwrap();
    let texts: Vec<_> = messages
        .iter()
        .filter_map(|message| message.text())
        .collect();
    assert_eq!(texts, ["first", "said", "second", "said"]);
    let events = idle.runtime.events_for(first).await.unwrap();
    let numbers: Vec<_> = events.iter().map(|event| event.seq()).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
}

#[tokio::test]
async fn listing_loads_no_session() {
    let idle = idle(6, keep(0, Some(Duration::from_secs(60))), Vec::new()).await;
    for id in &idle.sessions[..5] {
        idle.runtime.run_text_turn(*id, "first").await.unwrap();
        idle.clock.advance(Duration::from_secs(1));
    }
    idle.runtime
        .run_text_turn(idle.sessions[1], "again")
        .await
        .unwrap();
    let loaded = idle.runtime.loaded_sessions();
    let page = idle
        .runtime
        .session_summaries(ThreadQuery::first(2))
        .await
        .unwrap();
    let shown: Vec<_> = page
        .entries
        .iter()
        .map(|entry| {
            (
                entry.session.title.clone().unwrap(),
                entry.session.status,
                entry.thread.turns,
            )
        })
        .collect();
    let expected = [("session 1", 2), ("session 4", 1)];
    assert_eq!(
        shown,
        expected.map(|(title, turns)| (title.to_owned(), SessionStatus::Idle, turns))
    );
    let rest = ThreadQuery {
        after: page.next,
        ..ThreadQuery::first(9)
    };
    let rest = idle.runtime.session_summaries(rest).await.unwrap();
    assert_eq!((rest.entries.len(), rest.next), (3, None));
    let quiet = idle
        .runtime
        .session_summary(idle.sessions[5])
        .await
        .unwrap();
    assert!(quiet.is_none(), "nothing has happened in it");
    let all = idle.runtime.list_sessions().await.unwrap();
    let rested = all
        .iter()
        .filter(|session| session.status == SessionStatus::Idle);
    assert_eq!(rested.count(), 5);
    let ids: Vec<SessionId> = all.iter().map(|session| session.id).collect();
    assert_eq!(idle.runtime.session_ids().await.unwrap(), ids);
    assert!(idle.runtime.loaded_sessions() <= loaded);
}

#[tokio::test]
async fn idle_sessions_are_evicted_after_the_idle_time() {
    let span = Duration::from_secs(60);
    let idle = idle(3, keep(100, Some(span)), Vec::new()).await;
    for id in &idle.sessions {
        idle.runtime.run_text_turn(*id, "first").await.unwrap();
    }
    idle.clock.asleep_for(span).await;
    assert_eq!(idle.runtime.loaded_sessions(), 3);
    idle.clock.advance(span);
    at_most(&idle, 0).await;
    let turn = idle.runtime.run_text_turn(idle.sessions[2], "again").await;
    assert!(turn.unwrap().success);
    assert_eq!(
        idle.runtime.messages(idle.sessions[2]).await.unwrap().len(),
        4
    );
    assert!(idle.store.verify().await.unwrap().findings.is_empty());
}

#[tokio::test]
async fn long_conversations_are_unloaded_and_reloaded() {
    let settings = keep(100, None).idle_bytes(64 * 1024);
    let idle = idle(3, settings, Vec::new()).await;
    let long = "x".repeat(50_000);
    for id in &idle.sessions[..2] {
        idle.runtime.run_text_turn(*id, &long).await.unwrap();
    }
    let short = idle.sessions[2];
    idle.runtime.run_text_turn(short, "short").await.unwrap();
    let unload_after = Duration::from_secs(2);
    idle.clock.asleep_for(unload_after).await;
    assert_eq!(idle.runtime.loaded_sessions(), 3);
    idle.clock.advance(unload_after);
    at_most(&idle, 2).await;
    let messages = idle.runtime.messages(idle.sessions[0]).await.unwrap();
    let texts: Vec<_> = messages.iter().filter_map(|it| it.text()).collect();
    assert_eq!(texts, [long.as_str(), "said"]);
}

#[tokio::test]
async fn parked_turn_stays_in_memory_and_its_deadline_fires() {
    let call = ToolCall {
        id: "c1".into(),
        name: "ask".into(),
        arguments: serde_json::json!({}),
    };
    let span = Duration::from_secs(60);
    let settings = keep(0, Some(span)).wait_timeout(Some(Duration::from_secs(900)));
    let idle = idle(4, settings, vec![vec![], vec![call], vec![]]).await;
    let waits = idle.sessions[0];
    idle.runtime.run_text_turn(waits, "first").await.unwrap();
    let parked = idle.runtime.run_text_turn(waits, "ask").await.unwrap();
    assert_eq!(parked.stop_reason, StopReason::WaitingForToolResults);
    for id in &idle.sessions[1..] {
        let turn = idle.runtime.run_text_turn(*id, "first").await;
        assert!(turn.unwrap().success);
    }
    idle.clock.asleep_for(span).await;
    idle.clock.advance(span);
    at_most(&idle, 1).await;
    assert_eq!(
        idle.runtime.loaded_sessions(),
        1,
        "the one that waits is there"
    );
    let mut events = idle.runtime.subscribe(waits).await.unwrap();
    idle.clock.advance(Duration::from_secs(900));
    let timeout = soon(async {
        loop {
            let event = events.next().await.unwrap();
            if event.event_type == "tool.call_timeout" {
                return event;
            }
        }
    });
    timeout.await;
}
