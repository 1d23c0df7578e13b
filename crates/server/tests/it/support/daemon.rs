//! A daemon on a loopback port, with a fake model and two tools.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass_core::capabilities::Capability;
use windlass_core::llm_driver_registry::{DriverRegistry, ProviderType};
use windlass_core::llm_models::{LlmProviderType, ModelWithProvider};
use windlass_core::tools::{Tool, ToolExecutionResult, ToolHints, ToolPolicy, ToolShape};
use windlass_runtime::{
    HarnessBuilder, InProcessRuntime, InProcessRuntimeBuilder, ManualWorld, RetryPolicy,
    RuntimeSettings,
};
use windlass_server::{Access, MemoryWireStore, Models, Server, Settings, Token};

use super::{Client, FakeModel, Frame, Stream, text};

/// The token of every daemon that has one.
pub(crate) const TOKEN: &str = "a-token-for-tests";

struct Command(&'static str, ToolPolicy);

#[async_trait]
impl Tool for Command {
    fn name(&self) -> &str {
        self.0
    }
    fn description(&self) -> &str {
        "Runs a shell command."
    }
    fn parameters_schema(&self) -> Value {
        json!({"type": "object"})
    }
    fn policy(&self) -> ToolPolicy {
        self.1
    }
    fn hints(&self) -> ToolHints {
        ToolHints::default().with_shape(ToolShape::Command)
    }
    async fn execute(&self, _: Value) -> ToolExecutionResult {
        ToolExecutionResult::Success(json!("hi\n"))
    }
}

struct Commands;

impl Capability for Commands {
    fn id(&self) -> &str {
        "commands"
    }
    fn name(&self) -> &str {
        "Commands"
    }
    fn description(&self) -> &str {
        "Commands for tests."
    }
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        vec![
            Box::new(Command("shell", ToolPolicy::RequiresApproval)),
            Box::new(Command("clock", ToolPolicy::Auto)),
        ]
    }
}

/// What a test wants different.
pub(crate) struct Setup {
    pub(crate) workspace: tempfile::TempDir,
    pub(crate) settings: Box<dyn FnOnce(&mut Settings)>,
    pub(crate) world: Option<Arc<ManualWorld>>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            workspace: tempfile::tempdir().unwrap(),
            settings: Box::new(|_| {}),
            world: None,
        }
    }
}

impl Setup {
    pub(crate) fn settings(change: impl FnOnce(&mut Settings) + 'static) -> Self {
        Self {
            settings: Box::new(change),
            ..Self::default()
        }
    }

    pub(crate) async fn start(self) -> Daemon {
        let model = FakeModel::default();
        let mut drivers = DriverRegistry::new();
        let driver = model.clone();
        drivers.register(ProviderType::LlmSim, move |_, _| Box::new(driver.clone()));
        let harness = HarnessBuilder::new("daemon", "Be brief.")
            .with_capability("commands")
            .with_capability("ask_user")
            .build();
        let mut settings = Settings::new(
            self.workspace.path(),
            harness.id,
            Access::Token(Token::new(TOKEN)),
        );
        settings.models = Models {
            default: "demo-model".to_owned(),
            provider: Some("demo".to_owned()),
            ..Models::default()
        };
        settings.grace = Duration::from_secs(5);
        (self.settings)(&mut settings);
        let mut builder = InProcessRuntimeBuilder::new()
            .driver_registry(drivers)
            .capability(Commands)
            .default_model(ModelWithProvider {
                model: "demo-model".to_owned(),
                provider_type: LlmProviderType::LlmSim,
                api_key: None,
                base_url: None,
            })
            .settings(RuntimeSettings {
                wait_timeout: Some(Duration::from_secs(300)),
                retry: RetryPolicy {
                    max_retries: 0,
                    ..RetryPolicy::default()
                },
                ..RuntimeSettings::default()
            })
            .harness(harness);
        if let Some(world) = self.world {
            builder = builder.world(world);
        }
        let runtime = builder.build().await.unwrap();
        let has_token = matches!(settings.access, Access::Token(_));
        let store = Arc::new(MemoryWireStore::new(100));
        let server = Server::bind(runtime.clone(), settings, store)
            .await
            .unwrap();
        let client = Client {
            address: server.address(),
            token: has_token.then(|| TOKEN.to_owned()),
            headers: Vec::new(),
        };
        let stop = CancellationToken::new();
        let running = tokio::spawn(server.run(stop.clone().cancelled_owned()));
        Daemon {
            client,
            model,
            runtime,
            workspace: self.workspace,
            stop,
            running,
        }
    }
}

/// A daemon that listens.
pub(crate) struct Daemon {
    pub(crate) client: Client,
    pub(crate) model: FakeModel,
    pub(crate) runtime: InProcessRuntime,
    pub(crate) workspace: tempfile::TempDir,
    pub(crate) stop: CancellationToken,
    pub(crate) running: tokio::task::JoinHandle<()>,
}

impl Daemon {
    pub(crate) async fn start() -> Self {
        Setup::default().start().await
    }

    /// Makes a thread and returns its path.
    pub(crate) async fn thread(&self, body: Value) -> String {
        let thread = self.client.post("/v1/threads", body).await.expect(201);
        format!("/v1/threads/{}", text(&thread["id"]))
    }

    /// Starts a turn and returns its path.
    pub(crate) async fn turn(&self, thread: &str, body: Value) -> String {
        let answer = self
            .client
            .post(&format!("{thread}/turns"), body)
            .await
            .expect(201);
        format!("{thread}/turns/{}", text(&answer["turn"]["id"]))
    }

    pub(crate) async fn events(&self, thread: &str, since: u64) -> Stream {
        self.client
            .stream(&format!("{thread}/events?since_seq={since}"))
            .await
    }

    /// Says something, and returns the events up to the end of the turn.
    pub(crate) async fn say(&self, thread: &str, prompt: &str) -> Vec<Frame> {
        let since = self.detail(thread).await["latest_seq"].as_u64().unwrap();
        let mut events = self.events(thread, since).await;
        self.turn(thread, json!({ "prompt": prompt })).await;
        events.until("turn.completed").await
    }

    pub(crate) async fn detail(&self, thread: &str) -> Value {
        self.client.get(thread).await.expect(200)
    }
}
