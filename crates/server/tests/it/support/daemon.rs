//! A daemon on a loopback port, with a fake model and two tools.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass_core::in_memory::InMemoryLlmProviderStore;
use windlass_core::llm_driver_registry::{DriverRegistry, ProviderType};
use windlass_core::llm_models::{LlmProviderType, ModelWithProvider};
use windlass_core::typed_id::{HarnessId, ModelId};
use windlass_runtime::{
    HarnessBuilder, InProcessRuntime, InProcessRuntimeBuilder, ManualClock, RetryPolicy,
    RuntimeBackends, RuntimeSettings, SqliteOptions, SqliteRetention, SqliteStore,
    SubagentSettings,
};
use windlass_server::{
    Access, ApiServer, HostWireStore, InProcess, JobSettings, Models, Settings, Token, WireStore,
};
use windlass_store::{MemoryJournal, MemoryRunLog};
use windlass_tools::ShellSettings;

use super::tools::Commands;
use super::{Client, FakeModel, Frame, QueryLog, Stream, Tap, text};

/// The operator's token of test daemons.
pub(crate) const TOKEN: &str = "a-token-for-tests";

/// The ID of the second configured model.
pub(crate) fn other_model() -> ModelId {
    ModelId::from_seed(2)
}

/// A test's changes to the default setup.
pub(crate) struct Setup {
    pub(crate) workspace: tempfile::TempDir,
    pub(crate) settings: Box<dyn FnOnce(&mut Settings)>,
    pub(crate) runtime: Box<dyn FnOnce(&mut RuntimeSettings)>,
    pub(crate) clock: Option<Arc<ManualClock>>,
    pub(crate) store: Arc<dyn WireStore>,
    /// The journal, unless the data is on disk; `store` has its records.
    pub(crate) journal: Arc<MemoryJournal>,
    /// The data directory; `None` stores everything in memory.
    pub(crate) data: Option<PathBuf>,
    /// Whether the agent has file and shell tools.
    pub(crate) has_tools: bool,
    /// Whether the model can start subagents.
    pub(crate) starts_agents: bool,
    /// Whether [`other_model`] is configured.
    pub(crate) has_other_model: bool,
    /// Counts reads of the journal.
    pub(crate) tap: Option<Arc<Tap>>,
    /// Logs the queries of the read model.
    pub(crate) query_log: Option<Arc<QueryLog>>,
    /// Retention policy of the store.
    pub(crate) retention: SqliteRetention,
}

impl Default for Setup {
    fn default() -> Self {
        let journal = Arc::new(MemoryJournal::new());
        let runs = Arc::new(MemoryRunLog::default());
        let store = HostWireStore::new(journal.host_records(), runs, 100);
        Self {
            workspace: tempfile::tempdir().unwrap(),
            settings: Box::new(|_| {}),
            runtime: Box::new(|_| {}),
            clock: None,
            store: Arc::new(store),
            journal,
            data: None,
            has_tools: false,
            starts_agents: false,
            has_other_model: true,
            tap: None,
            query_log: None,
            retention: SqliteRetention::default(),
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

    /// Boxed because the future contains the builders and is large.
    pub(crate) fn start(self) -> std::pin::Pin<Box<dyn Future<Output = TestDaemon>>> {
        Box::pin(self.started())
    }

    async fn started(mut self) -> TestDaemon {
        let mut opened = None;
        let mut backends = match &self.data {
            None => RuntimeBackends::on_memory(&self.journal),
            Some(data) => {
                let options = SqliteOptions::new(data).with_retention(self.retention);
                let store = SqliteStore::open(options).await.unwrap();
                let records = Arc::new(store.host_records());
                let wire = HostWireStore::new(records, Arc::new(store.runs()), 100);
                self.store = Arc::new(wire.with_upkeep(Arc::new(store.clone())));
                let backends = RuntimeBackends::on_sqlite(&store);
                opened = Some(store);
                backends
            }
        };
        if let Some(tap) = &self.tap {
            backends.journal = tap.before(backends.journal);
        }
        if let (Some(query_log), Some(queries)) = (&self.query_log, &mut backends.queries) {
            *queries = query_log.before(Arc::clone(queries));
        }
        let demo = |name: &str| ModelWithProvider {
            model: name.to_owned(),
            provider_type: LlmProviderType::LlmSim,
            api_key: None,
            base_url: None,
        };
        let providers = InMemoryLlmProviderStore::new();
        if self.has_other_model {
            providers
                .add_model(other_model(), demo("other-model"))
                .await;
        }
        backends = backends.with_provider_store(Arc::new(providers));
        let model = FakeModel::default();
        let mut drivers = DriverRegistry::new();
        let driver = model.clone();
        drivers.register(ProviderType::LlmSim, move |_, _| Box::new(driver.clone()));
        let mut harness = HarnessBuilder::new("daemon", "Be brief.")
            .with_capability("commands")
            .with_capability("ask_user");
        if self.has_tools {
            harness = harness.with_capability("files").with_capability("shell");
        }
        if self.starts_agents {
            harness = harness.with_capability("subagents");
        }
        let mut harness = harness.build();
        harness.id = HarnessId::from_seed(1);
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
        settings.jobs = Some(JobSettings::default());
        (self.settings)(&mut settings);
        let parent = self.data.as_deref().and_then(std::path::Path::parent);
        let scratch = parent.unwrap_or(self.workspace.path());
        let mut runtime_settings = RuntimeSettings::default()
            .wait_timeout(Some(Duration::from_secs(300)))
            .retry(RetryPolicy {
                max_retries: 0,
                ..RetryPolicy::default()
            });
        (self.runtime)(&mut runtime_settings);
        let mut builder = InProcessRuntimeBuilder::new()
            .backends(backends)
            .environments(&settings.environments, ShellSettings::default())
            .driver_registry(drivers)
            .capability(Commands {
                gate: model.gate(),
                scratch: scratch.to_owned(),
            })
            .default_model(demo("demo-model"))
            .settings(runtime_settings)
            .harness(harness);
        if self.starts_agents {
            builder = builder.subagents(SubagentSettings::default());
        }
        if let Some(clock) = self.clock {
            builder = builder.clock(clock);
        }
        let runtime = builder.build().await.unwrap();
        let has_token = matches!(settings.access, Access::Token(_));
        let server = ApiServer::bind(runtime.clone(), settings, self.store)
            .await
            .unwrap();
        let client = Client {
            address: server.address().unwrap(),
            token: has_token.then(|| TOKEN.to_owned()),
            headers: Vec::new(),
        };
        let api = server.in_process().api();
        let stop = CancellationToken::new();
        let running = tokio::spawn(server.run(stop.clone().cancelled_owned()));
        TestDaemon {
            client,
            api,
            model,
            runtime,
            workspace: self.workspace,
            stop,
            running,
            opened,
        }
    }
}

/// A running daemon.
pub(crate) struct TestDaemon {
    pub(crate) client: Client,
    /// The API without a transport, with the operator's rights.
    pub(crate) api: InProcess,
    pub(crate) model: FakeModel,
    pub(crate) runtime: InProcessRuntime,
    pub(crate) workspace: tempfile::TempDir,
    pub(crate) stop: CancellationToken,
    pub(crate) running: tokio::task::JoinHandle<()>,
    /// The store, if the data is on disk.
    pub(crate) opened: Option<SqliteStore>,
}

impl TestDaemon {
    pub(crate) async fn start() -> Self {
        Setup::default().start().await
    }

    /// Creates a thread and returns its path.
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

    /// Starts a turn, and returns its events up to its end.
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
