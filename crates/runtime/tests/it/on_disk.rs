//! Data on disk after a restart.

use windlass_core::llmsim_driver::LlmSimConfig;
use windlass_core::session::SessionStatus;
use windlass_core::session_file::InitialFile;
use windlass_core::tools::{ToolCall, ToolDefinition, ToolResult};
use windlass_core::typed_id::SessionId;
use windlass_runtime::{
    AgentBuilder, HarnessBuilder, InProcessRuntime, InProcessRuntimeBuilder, RecoveryPolicy,
    ResumePolicy, RuntimeBackends, RuntimeHostAdapter, RuntimeSettings, SecretsKey, SessionBuilder,
    SqliteOptions, SqliteStore, StopReason,
};

struct DataDirectory(tempfile::TempDir);

impl DataDirectory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    async fn store(&self) -> SqliteStore {
        let options = SqliteOptions::new(self.0.path().join("data"))
            .with_secrets_key(SecretsKey::new([7; 32]));
        SqliteStore::open(options).await.unwrap()
    }
}

async fn open(store: &SqliteStore, recovery: RecoveryPolicy) -> InProcessRuntime {
    InProcessRuntimeBuilder::new()
        .backends(RuntimeBackends::on_sqlite(store))
        .llm_sim(script())
        .settings(
            RuntimeSettings::default()
                .recovery(recovery)
                .resume_policy(ResumePolicy::AtStartup),
        )
        .build()
        .await
        .unwrap()
}

fn script() -> LlmSimConfig {
    let call = ToolCall {
        id: "c1".into(),
        name: "ask".into(),
        arguments: serde_json::json!({}),
    };
    LlmSimConfig::fixed("on disk").with_tool_call_sequence(vec![vec![], vec![call], vec![]])
}

async fn add_session(runtime: &InProcessRuntime) -> SessionId {
    let harness = HarnessBuilder::new("h", "prompt").initial_file(InitialFile {
        path: "/notes.txt".into(),
        content: "stored".into(),
        encoding: "text".into(),
        is_readonly: true,
    });
    let harness = harness.build();
    let agent = AgentBuilder::new("a", "agent")
        .tool(ToolDefinition::client_side(
            "ask",
            "Asks.",
            serde_json::json!({"type": "object"}),
        ))
        .build();
    let session = SessionBuilder::new(harness.id)
        .agent(agent.public_id)
        .title("stored")
        .build();
    let id = session.id;
    runtime.add_harness(harness).await.unwrap();
    runtime.add_agent(agent).await.unwrap();
    runtime.add_session(session).await.unwrap();
    id
}

#[tokio::test]
async fn session_with_all_its_data_survives_a_restart() {
    let disk = DataDirectory::new();
    let store = disk.store().await;
    let runtime = open(&store, RecoveryPolicy::Resume).await;
    let id = add_session(&runtime).await;
    runtime.run_text_turn(id, "first").await.unwrap();
    let storage = runtime.storage_store().unwrap();
    storage.set_value(id, "k", "v").await.unwrap();
    storage.set_secret(id, "s", "hidden").await.unwrap();
    let before = runtime.events_for(id).await.unwrap();
    drop((storage, runtime));
    store.close().await;

    let store = disk.store().await;
    let runtime = open(&store, RecoveryPolicy::Resume).await;
    let session = runtime.session(id).await.unwrap();
    assert_eq!(
        (session.title.as_deref(), session.status),
        (Some("stored"), SessionStatus::Idle)
    );
    assert!(session.usage.is_some() && session.started_at.is_some());
    assert_eq!(runtime.events_for(id).await.unwrap(), before);
    assert_eq!(runtime.messages(id).await.unwrap().len(), 2);
    let file = runtime.read_file(id, "/notes.txt").await.unwrap().unwrap();
    assert!(file.is_readonly && file.content.as_deref() == Some("stored"));
    let storage = runtime.storage_store().unwrap();
    assert_eq!(
        storage.get_value(id, "k").await.unwrap().as_deref(),
        Some("v")
    );
    assert_eq!(
        storage.get_secret(id, "s").await.unwrap().as_deref(),
        Some("hidden")
    );
    let context = runtime.load_context(id).await.unwrap();
    assert_eq!(context.runtime_agent.system_prompt, "prompt\n\nagent");
    assert!(runtime.run_text_turn(id, "again").await.is_ok());
}

/// Leaves a turn behind that waits for its client.
async fn with_waiting_turn(disk: &DataDirectory) -> SessionId {
    let store = disk.store().await;
    let runtime = open(&store, RecoveryPolicy::Resume).await;
    let id = add_session(&runtime).await;
    runtime.run_text_turn(id, "first").await.unwrap();
    let parked = runtime.run_text_turn(id, "ask").await.unwrap();
    assert_eq!(parked.stop_reason, StopReason::WaitingForToolResults);
    drop(runtime);
    store.close().await;
    id
}

#[tokio::test]
async fn parked_turn_survives_a_restart_and_continues() {
    let disk = DataDirectory::new();
    let id = with_waiting_turn(&disk).await;
    let store = disk.store().await;
    let runtime = open(&store, RecoveryPolicy::Resume).await;
    assert_eq!(
        runtime.session(id).await.unwrap().status,
        SessionStatus::WaitingForToolResults
    );
    let results = vec![ToolResult::success("c1", "answer")];
    let turn = runtime
        .submit_tool_results(id, results)
        .await
        .unwrap()
        .wait()
        .await
        .unwrap();
    assert!(turn.success, "{turn:?}");
}

#[tokio::test]
async fn interrupt_policy_cancels_turns_of_a_previous_process() {
    let disk = DataDirectory::new();
    let id = with_waiting_turn(&disk).await;
    let store = disk.store().await;
    let runtime = open(&store, RecoveryPolicy::Interrupt).await;
    let types: Vec<_> = runtime
        .events_for(id)
        .await
        .unwrap()
        .iter()
        .map(|event| event.event_type.clone())
        .collect();
    assert_eq!(
        types[types.len() - 2..],
        ["turn.cancelled", "session.idled"]
    );
    assert!(runtime.run_text_turn(id, "again").await.unwrap().success);
}

#[cfg(feature = "tools")]
#[tokio::test]
async fn agent_cannot_read_its_own_journal() {
    use windlass_core::llmsim_driver::{SimToolCall, SimTurn};
    use windlass_runtime::Conversation;
    use windlass_runtime::tools::{Environment, Environments, Policy, ShellSettings};

    let root = tempfile::tempdir().unwrap();
    let calls = ["data/windlass.db", "log.md"].map(|path| {
        let call = SimToolCall::new("read", serde_json::json!({ "path": path }));
        SimTurn::ToolCalls(vec![call])
    });
    let mut turns = calls.to_vec();
    turns.push(SimTurn::Assistant("read".into()));
    std::fs::write(root.path().join("log.md"), "Launched.").unwrap();
    let local = Environment::new("local", root.path(), Policy::default()).unwrap();
    let environments = Environments::with_default(local);
    let mut chat = Conversation::builder()
        .simulator(LlmSimConfig::scripted(turns))
        .with_runtime(|runtime| runtime.environments(&environments, ShellSettings::default()))
        .capability("files")
        .on_disk(root.path().join("data"))
        .start()
        .await
        .unwrap();
    chat.say("What is there?").await.unwrap();
    let messages = chat.messages().await.unwrap();
    let results: Vec<_> = messages
        .iter()
        .filter_map(|message| message.tool_result_content())
        .collect();
    assert!(results[0].error.is_some(), "{results:?}");
    assert_eq!(results[1].result.as_ref().unwrap()["content"], "Launched.");
}

#[tokio::test]
async fn conversation_with_tools_is_readable_without_them() {
    use windlass_core::llmsim_driver::{SimToolCall, SimTurn};
    use windlass_runtime::{Conversation, tool_fn};

    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let pay = || {
        let schema = serde_json::json!({ "type": "object" });
        tool_fn("pay", "Pays", schema, |_, _| async { Ok("paid") }).requires_approval()
    };
    let call = SimToolCall::new("pay", serde_json::json!({}));
    let script = LlmSimConfig::scripted(vec![SimTurn::ToolCalls(vec![call])]);
    let builder = Conversation::builder().simulator(script).tool(pay());
    let mut chat = builder.on_disk(&data).named("dock").start().await.unwrap();
    let waiting = chat.say("Pay.").await.unwrap();
    assert_eq!(waiting.to_string(), "(waits for an approval of pay {})");
    chat.close().await;

    let builder = Conversation::builder().simulator(LlmSimConfig::fixed("Hello."));
    let chats = builder.on_disk(&data).open().await.unwrap();
    let mut chat = chats.get(SessionId::from_name("dock")).await.unwrap();
    let refused = chat.refuse(&waiting.pending[0]).await.unwrap();
    assert!(refused.pending.is_empty(), "{refused}");
}
