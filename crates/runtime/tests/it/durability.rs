//! Records are durable before they are visible, and work continues after a failure of the journal or the process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use windlass_core::agent::Agent;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::{Event, EventData, EventRequest, ToolStatus};
use windlass_core::message::{InputMessage, Message};
use windlass_core::message_retriever::MessageRetriever;
use windlass_core::tools::{
    SideEffectClass, ToolDefinition, ToolExecutionResult, ToolHints, ToolPolicy, ToolResult,
};
use windlass_core::traits::{AgentStore, EventEmitter};
use windlass_core::typed_id::{AgentId, EventId, MessageId, SessionId};
use windlass_runtime::{
    EventBus, Journal, MemoryJournal, RuntimeAgentStore, RuntimeBackends, RuntimeMessageStore,
    StopReason,
};
use windlass_store::StreamKey;

use crate::support::{
    Fixture, FnTool, Gate, ScriptedCall, Setup, SpyJournal, TestClock, call, event, roles, soon,
    tool, types,
};

fn hello() -> FnTool {
    tool("hello", |_, _| async {
        ToolExecutionResult::success("hello")
    })
}

fn hello_call() -> ScriptedCall {
    ScriptedCall::tools(vec![call("c", "hello", json!({}))])
}

async fn on_spy(calls: impl IntoIterator<Item = ScriptedCall>) -> (Fixture, Arc<SpyJournal>) {
    let journal = SpyJournal::new(MemoryJournal::new());
    let fixture = Setup::new(calls)
        .tool(&hello())
        .backends(RuntimeBackends::on_journal(Arc::clone(&journal) as _))
        .build()
        .await;
    (fixture, journal)
}

#[tokio::test]
async fn a_plain_turn_is_two_commits_and_a_one_tool_turn_four() {
    let (fixture, journal) = on_spy([]).await;
    fixture.run("plain").await;
    assert_eq!(journal.appends(), 2);
    fixture.model.then(hello_call());
    fixture.run("with a tool").await;
    assert_eq!(journal.appends(), 2 + 4);
}

#[tokio::test]
async fn subscription_survives_temporary_read_failures() {
    let (fixture, journal) = on_spy([]).await;
    fixture.run("go").await;
    let written = fixture.events().await;
    let mut events = fixture
        .runtime
        .subscribe_after(fixture.session, 0)
        .await
        .unwrap();
    journal.fail_reads(2);
    let reading = tokio::spawn(async move {
        let mut seen = Vec::new();
        for _ in 0..written.len() {
            seen.push(events.next().await.expect("the session is there"));
        }
        assert_eq!(seen, written);
    });
    for _ in 0..2 {
        let pause = Duration::from_millis(250);
        fixture.clock.asleep_for(pause).await;
        fixture.clock.forget();
        fixture.clock.advance(pause);
    }
    soon(reading).await.unwrap();
}

#[tokio::test]
async fn journal_failure_at_the_start_is_an_error_without_acknowledgement() {
    let (fixture, journal) = on_spy([]).await;
    journal.fail_after(0);
    match fixture.try_run("lost").await {
        Err(AgentLoopError::StoreUnavailable(text)) => {
            assert!(text.contains("the disk is full"), "{text}")
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(fixture.model.calls(), 0);
    assert!(fixture.events().await.is_empty());
    fixture.assert_usable().await;
    journal.fail_after(0);
    let refused = fixture.runtime.submit(fixture.session, "lost").await;
    assert!(matches!(refused, Err(AgentLoopError::StoreUnavailable(_))));
    fixture.assert_usable().await;
}

#[tokio::test]
async fn journal_failure_at_any_commit_loses_nothing_and_the_turn_continues() {
    for failing in 0..4 {
        let (fixture, journal) = on_spy([hello_call()]).await;
        journal.fail_after(failing);
        let heard = fixture.try_run("go").await;
        assert!(
            matches!(heard, Err(AgentLoopError::StoreUnavailable(_))),
            "{failing}: {heard:?}"
        );
        // The next call wakes the thread: the old turn completes before the new one.
        fixture.model.rewrite([]);
        assert!(fixture.run("next").await.success, "{failing}");
        fixture.assert_sound().await;
        let events = fixture.events().await;
        let ended = types(&events)
            .iter()
            .filter(|name| **name == "turn.completed")
            .count();
        assert_eq!(
            ended,
            if failing == 0 { 1 } else { 2 },
            "{failing}: {:?}",
            types(&events)
        );
    }
}

#[tokio::test]
async fn session_claimed_by_another_owner_is_refused_once_and_reclaimed() {
    let journal = Arc::new(MemoryJournal::new());
    let fixture = Setup::new([])
        .backends(RuntimeBackends::on_journal(Arc::clone(&journal) as _))
        .build()
        .await;
    fixture.run("mine").await;
    journal
        .claim(&StreamKey::from(fixture.session))
        .await
        .unwrap();
    let before = fixture.events().await.len();
    match fixture.try_run("fenced").await {
        Err(AgentLoopError::StoreUnavailable(text)) => {
            assert!(text.contains("another writer"), "{text}")
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(fixture.events().await.len(), before);
    fixture.assert_usable().await;
}

/// One process: everything that runs in it ends with it.
pub(crate) struct Life(Option<tokio::runtime::Runtime>);

impl Life {
    pub(crate) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        Self(Some(runtime.unwrap()))
    }
    pub(crate) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.as_ref().unwrap().block_on(future)
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.0
            .take()
            .unwrap()
            .shutdown_timeout(Duration::from_secs(10));
    }
}

/// State that outlives a process.
#[derive(Clone)]
struct ProcessDisk {
    journal: Arc<MemoryJournal>,
    clock: TestClock,
}

impl ProcessDisk {
    fn new() -> Self {
        Self {
            journal: Arc::new(MemoryJournal::new()),
            clock: TestClock::default(),
        }
    }
    async fn start(&self, mut setup: Setup, tools: &[FnTool]) -> Fixture {
        setup.clock = self.clock.clone();
        let setup = tools.iter().fold(setup, Setup::tool);
        let ask = ToolDefinition::client_side("ask", "asks", json!({"type": "object"}));
        setup
            .backends(RuntimeBackends::on_journal(Arc::clone(&self.journal) as _))
            .session(|session| session.session_id(SessionId::from_seed(7)).agent_tool(ask))
            .build()
            .await
    }
}

#[test]
fn conversation_continues_in_another_process() {
    let disk = ProcessDisk::new();
    Life::new().run(async {
        assert!(
            disk.start(Setup::new([]), &[])
                .await
                .run("before")
                .await
                .success
        );
    });
    Life::new().run(async {
        let fixture = disk.start(Setup::new([]), &[]).await;
        assert_eq!(roles(&fixture.messages().await), ["user", "agent"]);
        fixture.run("after").await;
        assert_eq!(
            fixture.model.sent(0),
            ["User: before", "Assistant: ok", "User: after"]
        );
        fixture.assert_usable().await;
    });
}

/// A tool that counts its runs and, in the first process, never ends.
fn stuck(gate: &Gate, side_effects: SideEffectClass) -> FnTool {
    let gate = gate.clone();
    tool("stuck", move |_, _| {
        let gate = gate.clone();
        async move {
            gate.pass().await;
            ToolExecutionResult::success("done")
        }
    })
    .hints(ToolHints::default().with_side_effect_class(side_effects))
}

#[test]
fn after_a_crash_only_repeatable_tools_run_again() {
    for (side_effects, again) in [
        (SideEffectClass::Pure, true),
        (SideEffectClass::Idempotent, true),
        (SideEffectClass::AtMostOnce, false),
    ] {
        let (disk, gate) = (ProcessDisk::new(), Gate::shut());
        let tools = [stuck(&gate, side_effects)];
        let life = Life::new();
        life.run(async {
            let setup = Setup::new([ScriptedCall::tools(vec![call("c", "stuck", json!({}))])]);
            let fixture = disk.start(setup, &tools).await;
            drop(fixture.runtime.submit(fixture.session, "go").await.unwrap());
            gate.reached(1).await;
        });
        drop(life);
        gate.open();
        Life::new().run(async {
            let fixture = disk.start(Setup::new([]), &tools).await;
            let mut events = fixture
                .runtime
                .subscribe_after(fixture.session, 0)
                .await
                .unwrap();
            fixture.resume().await;
            event(&mut events, "turn.completed").await;
            assert_eq!(
                tools[0].runs(),
                if again { 2 } else { 1 },
                "{side_effects:?}"
            );
            let status = fixture
                .events()
                .await
                .iter()
                .find_map(|event| match &event.data {
                    EventData::ToolCompleted(data) => Some(data.status),
                    _ => None,
                });
            let expected = if again {
                ToolStatus::Success
            } else {
                ToolStatus::Unknown
            };
            assert_eq!(status, Some(expected));
            fixture.assert_usable().await;
        });
    }
}

#[test]
fn turn_fails_after_repeated_crashes() {
    let (disk, gate) = (ProcessDisk::new(), Gate::shut());
    let tools = [stuck(&gate, SideEffectClass::Pure)];
    for life in 0..3 {
        Life::new().run(async {
            let setup = Setup::new([ScriptedCall::tools(vec![call("c", "stuck", json!({}))])]);
            let fixture = disk.start(setup, &tools).await;
            match life {
                0 => drop(fixture.runtime.submit(fixture.session, "go").await.unwrap()),
                _ => drop(fixture.resume().await),
            }
            gate.reached(life + 1).await;
        });
    }
    Life::new().run(async {
        let fixture = disk.start(Setup::new([]), &tools).await;
        let failed = soon(fixture.resume().await.unwrap().wait()).await.unwrap();
        assert_eq!(failed.stop_reason, StopReason::Failed);
        assert_eq!(failed.error_code.as_deref(), Some("crashed"));
        assert_eq!(tools[0].runs(), 3);
        fixture.assert_usable().await;
    });
}

#[test]
fn parked_turn_can_be_answered_in_another_process() {
    let disk = ProcessDisk::new();
    // The second call is of the same class: it waits for the first one's approval, and needs its own.
    let risky = tool("risky", |_, _| async {
        ToolExecutionResult::success("done")
    })
    .policy(ToolPolicy::RequiresApproval);
    let tools = [risky.clone()];
    Life::new().run(async {
        let calls = vec![call("a", "ask", json!({})), call("r", "risky", json!({}))];
        let setup = Setup::new([ScriptedCall::tools(calls)])
            .settings(|settings| settings.max_parallel_calls = 1);
        let fixture = disk.start(setup, &tools).await;
        assert_eq!(
            fixture.run("go").await.stop_reason,
            StopReason::WaitingForApproval
        );
    });
    Life::new().run(async {
        let fixture = disk.start(Setup::new([]), &tools).await;
        // The first request that this process gets.
        let half = fixture
            .runtime
            .submit_tool_results(fixture.session, vec![ToolResult::success("a", 1)]);
        let half = soon(soon(half).await.unwrap().wait()).await.unwrap();
        assert_eq!(half.stop_reason, StopReason::WaitingForApproval);
        let handle = fixture
            .runtime
            .decide_tool_call(fixture.session, "r", true)
            .await
            .unwrap();
        assert!(soon(handle.wait()).await.unwrap().success);
        assert_eq!((fixture.model.calls(), risky.runs()), (1, 1));
        let events = fixture.events().await;
        let resumed = types(&events).into_iter();
        let resumed = resumed.filter(|name| *name == "turn.resumed").count();
        assert_eq!(resumed, 1, "{:?}", types(&events));
        fixture.assert_usable().await;
    });
}

#[test]
fn last_answer_resumes_the_turn_in_a_new_process() {
    let disk = ProcessDisk::new();
    Life::new().run(async {
        let setup = Setup::new([ScriptedCall::tools(vec![call("a", "ask", json!({}))])]);
        assert_eq!(
            disk.start(setup, &[]).await.run("go").await.stop_reason,
            StopReason::WaitingForToolResults
        );
    });
    Life::new().run(async {
        let fixture = disk
            .start(Setup::new([ScriptedCall::answer("thanks")]), &[])
            .await;
        let answer = fixture
            .runtime
            .submit_tool_results(fixture.session, vec![ToolResult::success("a", 1)]);
        let turn = soon(soon(answer).await.unwrap().wait()).await.unwrap();
        assert_eq!((turn.success, turn.response.as_str()), (true, "thanks"));
        assert_eq!(fixture.model.calls(), 1);
        let events = fixture.events().await;
        let reasons = types(&events)
            .iter()
            .filter(|name| **name == "reason.started")
            .count();
        assert_eq!(reasons, 2, "{:?}", types(&events));
        fixture.assert_usable().await;
    });
}

#[test]
fn queued_input_has_its_turn_in_another_process() {
    let (disk, gate) = (ProcessDisk::new(), Gate::shut());
    let life = Life::new();
    life.run(async {
        let fixture = disk
            .start(
                Setup::new([ScriptedCall::new().text("half").wait(&gate)]),
                &[],
            )
            .await;
        fixture
            .runtime
            .submit(fixture.session, "first")
            .await
            .unwrap();
        gate.reached(1).await;
        fixture
            .runtime
            .submit(fixture.session, "second")
            .await
            .unwrap();
    });
    drop(life);
    Life::new().run(async {
        let fixture = disk
            .start(
                Setup::new([ScriptedCall::answer("whole"), ScriptedCall::answer("next")]),
                &[],
            )
            .await;
        assert!(fixture.run("third").await.success);
        assert_eq!(fixture.model.sent(0), ["User: first"]);
        assert_eq!(
            fixture.model.sent(1),
            ["User: first", "Assistant: whole", "User: second"]
        );
        fixture.assert_usable().await;
    });
}

/// An embedder's own stores of messages and events.
#[derive(Default)]
struct Copies {
    messages: Mutex<Vec<Message>>,
    events: Mutex<Vec<EventRequest>>,
    trouble: Mutex<Option<Trouble>>,
}

#[derive(Clone, Copy)]
enum Trouble {
    Fails,
    Panics,
    Hangs,
}

impl Copies {
    async fn trouble(&self) -> Result<()> {
        let trouble = *self.trouble.lock().unwrap();
        match trouble {
            Some(Trouble::Hangs) => std::future::pending().await,
            None => Ok(()),
            Some(Trouble::Fails) => Err(AgentLoopError::store("scripted")),
            Some(Trouble::Panics) => panic!("scripted"),
        }
    }
}

#[async_trait]
impl MessageRetriever for Copies {
    async fn get(&self, _: SessionId, _: MessageId) -> Result<Option<Message>> {
        unreachable!("copies are never read")
    }
    async fn load(&self, _: SessionId) -> Result<Vec<Message>> {
        unreachable!("copies are never read")
    }
}
#[async_trait]
impl RuntimeMessageStore for Copies {
    async fn add_input_message(&self, _: SessionId, _: InputMessage) -> Result<Message> {
        unreachable!("only whole messages are copied")
    }
    async fn store_message(&self, _: SessionId, message: Message) -> Result<()> {
        self.trouble().await?;
        self.messages.lock().unwrap().push(message);
        Ok(())
    }
}
#[async_trait]
impl EventEmitter for Copies {
    async fn emit(&self, request: EventRequest) -> Result<Event> {
        self.trouble().await?;
        self.events.lock().unwrap().push(request.clone());
        Ok(request.into_event(EventId::from_seed(1), None))
    }
}
impl EventBus for Copies {}

async fn mirrored() -> (Fixture, Arc<Copies>) {
    let copies = Arc::new(Copies::default());
    let backends = RuntimeBackends::in_memory()
        .with_message_store(Arc::clone(&copies) as _)
        .with_event_bus(Arc::clone(&copies) as _);
    let fixture = Setup::new([hello_call()])
        .tool(&hello())
        .backends(backends)
        .build()
        .await;
    (fixture, copies)
}

#[tokio::test]
async fn embedder_stores_get_copies_in_order() {
    let (fixture, copies) = mirrored().await;
    fixture.run("go").await;
    fixture.run("on").await;
    let copied = copies.messages.lock().unwrap().clone();
    assert_eq!(copied, fixture.messages().await);
    let copied: Vec<_> = copies
        .events
        .lock()
        .unwrap()
        .iter()
        .map(|event| event.event_type.clone())
        .collect();
    assert_eq!(copied, types(&fixture.events().await));
}

#[tokio::test]
async fn failing_embedder_store_loses_only_its_copies() {
    for trouble in [Trouble::Fails, Trouble::Panics] {
        let (fixture, copies) = mirrored().await;
        *copies.trouble.lock().unwrap() = Some(trouble);
        assert!(fixture.run("go").await.success);
        *copies.trouble.lock().unwrap() = None;
        fixture.assert_usable().await;
        assert_eq!(copies.messages.lock().unwrap().len(), 2);
    }
}

#[tokio::test]
async fn hanging_embedder_store_stalls_no_turn() {
    let (fixture, copies) = mirrored().await;
    *copies.trouble.lock().unwrap() = Some(Trouble::Hangs);
    let patience = Duration::from_secs(1);
    let turn = fixture.start("go");
    fixture.clock.asleep_for(patience).await;
    fixture.clock.advance(patience);
    assert!(turn.await.unwrap().unwrap().success);
    assert!(copies.messages.lock().unwrap().is_empty());

    // The store is tried again after a pause, and copying continues from there.
    *copies.trouble.lock().unwrap() = None;
    fixture.run("still alone").await;
    assert!(copies.messages.lock().unwrap().is_empty());
    fixture.clock.advance(Duration::from_secs(60));
    fixture.assert_usable().await;
    assert_eq!(copies.messages.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn repeated_answer_after_the_end_gets_the_same_result() {
    let ask = ToolDefinition::client_side("ask", "asks", json!({"type": "object"}));
    let fixture = Setup::new([
        ScriptedCall::tools(vec![call("a", "ask", json!({}))]),
        ScriptedCall::answer("thanks"),
    ])
    .session(|session| session.agent_tool(ask))
    .build()
    .await;
    fixture.run("go").await;
    let results = || vec![ToolResult::success("a", 1)];
    let first = fixture
        .runtime
        .submit_tool_results(fixture.session, results())
        .await
        .unwrap();
    let first = soon(first.wait()).await.unwrap();
    let again = fixture
        .runtime
        .submit_tool_results(fixture.session, results())
        .await
        .unwrap();
    assert_eq!(again.turn_id(), first.turn_id);
    assert_eq!(soon(again.wait()).await.unwrap(), first);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn repeated_answer_to_an_earlier_turn_gets_that_turns_result() {
    let ask = ToolDefinition::client_side("ask", "asks", json!({"type": "object"}));
    let gate = Gate::shut();
    let fixture = Setup::new([
        ScriptedCall::tools(vec![call("a", "ask", json!({}))]),
        ScriptedCall::answer("thanks"),
        ScriptedCall::answer("another"),
        ScriptedCall::new().wait(&gate).text("a third").done(),
    ])
    .session(|session| session.agent_tool(ask))
    .build()
    .await;
    let (runtime, session) = (&fixture.runtime, fixture.session);
    fixture.run("go").await;
    let mut events = runtime.subscribe_after(session, 0).await.unwrap();
    let requested = event(&mut events, "tool.call_requested").await;
    let step = requested.context.exec_id.unwrap().to_string();
    let answered = async || {
        let results = vec![ToolResult::success(&step, 1)];
        runtime.submit_tool_results(session, results).await.unwrap()
    };
    let first = soon(answered().await.wait()).await.unwrap();
    assert_eq!(first.response, "thanks");

    fixture.run("something else").await;
    assert_eq!(soon(answered().await.wait()).await.unwrap(), first);
    let running = fixture.start("and more");
    gate.reached(1).await;
    assert_eq!(soon(answered().await.wait()).await.unwrap(), first);
    gate.open();
    assert_eq!(soon(running).await.unwrap().unwrap().response, "a third");
}

#[tokio::test]
async fn turn_resumes_automatically_after_a_journal_failure() {
    let (fixture, journal) = on_spy([hello_call()]).await;
    // The journal accepts the input and its turn, and fails after that; it also fails the first retry.
    journal.fail_after(2);
    let heard = fixture.try_run("go").await;
    assert!(matches!(heard, Err(AgentLoopError::StoreUnavailable(_))));
    for again in 0..2 {
        if again == 0 {
            journal.fail_after(0);
        }
        let pause = Duration::from_secs(5 << again);
        fixture.clock.asleep_for(pause).await;
        fixture.clock.forget();
        fixture.clock.advance(pause);
    }
    let mut events = fixture
        .runtime
        .subscribe_after(fixture.session, 0)
        .await
        .unwrap();
    let ended = async {
        loop {
            let event = events.next().await.expect("the session is there");
            if event.event_type == "turn.completed" {
                break;
            }
        }
    };
    soon(ended).await;
    fixture.assert_sound().await;
    // No process has crashed.
    let events = fixture.events().await;
    assert!(!types(&events).contains(&"turn.failed"));
}

/// Lets the next retry of a faulted thread begin.
async fn let_it_retry(fixture: &Fixture, pause: Duration) {
    fixture.clock.asleep_for(pause).await;
    fixture.clock.forget();
    fixture.clock.advance(pause);
}

#[tokio::test]
async fn a_queued_input_resumes_after_a_store_failure_without_another_message() {
    let gate = Gate::shut();
    let (fixture, journal) = on_spy([ScriptedCall::new().text("one").wait(&gate).done()]).await;
    let first = fixture.start("first");
    gate.reached(1).await;
    let queued = fixture.runtime.submit(fixture.session, "second").await;
    queued.unwrap();
    let events = fixture.runtime.subscribe_after(fixture.session, 0);
    let mut events = events.await.unwrap();
    // The journal accepts the end of the first turn, but not the beginning of the second.
    journal.fail_after(1);
    gate.open();
    soon(first).await.unwrap().unwrap();
    let_it_retry(&fixture, Duration::from_secs(5)).await;
    for _ in 0..2 {
        event(&mut events, "turn.completed").await;
    }
    fixture.assert_sound().await;
}

#[tokio::test]
async fn temporary_read_failure_is_no_crash() {
    let (fixture, journal) = on_spy([]).await;
    journal.fail_after(1);
    assert!(fixture.try_run("go").await.is_err());
    for _ in 0..5 {
        journal.fail_reads(1);
        let unreadable = fixture.runtime.resume_open_turn(fixture.session);
        let unreadable = soon(unreadable).await;
        assert!(
            matches!(unreadable, Err(AgentLoopError::StoreUnavailable(_))),
            "{:?}",
            unreadable.err()
        );
        journal.fail_after(2);
        let turn = fixture.resume().await.unwrap();
        assert!(soon(turn.wait()).await.is_err());
    }
    let turn = soon(fixture.resume().await.unwrap().wait()).await.unwrap();
    assert!(turn.success, "{turn:?}");
    fixture.assert_usable().await;
}

/// A store of agents that fails on demand.
struct FailingAgents {
    agents: Arc<dyn RuntimeAgentStore>,
    failures: AtomicUsize,
}

#[async_trait]
impl AgentStore for FailingAgents {
    async fn get_agent(&self, id: AgentId) -> Result<Option<Agent>> {
        let (set, get) = (Ordering::SeqCst, Ordering::SeqCst);
        let fails = |left: usize| left.checked_sub(1);
        match self.failures.fetch_update(set, get, fails) {
            Ok(_) => Err(AgentLoopError::StoreUnavailable(
                "disk I/O error".to_owned(),
            )),
            Err(_) => self.agents.get_agent(id).await,
        }
    }
}

#[async_trait]
impl RuntimeAgentStore for FailingAgents {
    async fn add_agent(&self, agent: Agent) -> Result<()> {
        self.agents.add_agent(agent).await
    }
}

async fn on_failing_agents(
    calls: impl IntoIterator<Item = ScriptedCall>,
) -> (Fixture, Arc<SpyJournal>, Arc<FailingAgents>) {
    let journal = SpyJournal::new(MemoryJournal::new());
    let backends = RuntimeBackends::on_journal(Arc::clone(&journal) as _);
    let agents = Arc::new(FailingAgents {
        agents: Arc::clone(&backends.agent_store),
        failures: AtomicUsize::new(0),
    });
    let backends = backends.with_agent_store(Arc::clone(&agents) as _);
    let fixture = Setup::new(calls).backends(backends).build().await;
    (fixture, journal, agents)
}

#[tokio::test]
async fn store_failure_during_context_assembly_is_retried() {
    let (fixture, journal, agents) = on_failing_agents([]).await;
    journal.fail_after(1);
    assert!(fixture.try_run("go").await.is_err());
    agents.failures.store(4, Ordering::SeqCst);
    for pause in [5, 10, 20, 30, 30] {
        let_it_retry(&fixture, Duration::from_secs(pause)).await;
    }
    let events = fixture.runtime.subscribe_after(fixture.session, 0);
    event(&mut events.await.unwrap(), "turn.completed").await;
    fixture.assert_sound().await;
    assert_eq!(agents.failures.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn store_failure_before_a_queued_turn_does_not_fail_it() {
    let gate = Gate::shut();
    let (fixture, _, agents) =
        on_failing_agents([ScriptedCall::new().text("one").wait(&gate).done()]).await;
    let first = fixture.start("first");
    gate.reached(1).await;
    let queued = fixture.runtime.submit(fixture.session, "second").await;
    let queued = queued.unwrap();
    agents.failures.store(1, Ordering::SeqCst);
    gate.open();
    soon(first).await.unwrap().unwrap();
    assert!(soon(queued.wait()).await.is_err(), "the store has failed");
    let events = fixture.runtime.subscribe_after(fixture.session, 0);
    let mut events = events.await.unwrap();
    let_it_retry(&fixture, Duration::from_secs(5)).await;
    for _ in 0..2 {
        event(&mut events, "turn.completed").await;
    }
    assert!(!types(&fixture.events().await).contains(&"turn.failed"));
}
