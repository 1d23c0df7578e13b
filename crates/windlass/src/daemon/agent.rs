//! The daemon's runtime and the agent in it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;
use windlass_core::HarnessStore;
use windlass_core::digest::Digest128;
use windlass_core::in_memory::InMemoryLlmProviderStore;
use windlass_core::llm_driver_registry::{DriverRegistry, ProviderType};
use windlass_core::llm_models::{LlmProviderType, ModelWithProvider};
use windlass_core::llmsim_driver::LlmSimConfig;
use windlass_core::named_secrets::NamedSecrets;
use windlass_core::typed_id::{HarnessId, ModelId};
use windlass_models::KnownProvider;
use windlass_runtime::{
    HarnessBuilder, InProcessRuntime, InProcessRuntimeBuilder, RecoveryPolicy, RuntimeBackends,
    RuntimeSettings, SqliteStore,
};
use windlass_server::{ModelProvider, Models, ProjectApprovals};
use windlass_tools::RepositoryCapability;

use super::prompt::{self, AgentPrompt};
use super::tools::DaemonTools;
use super::{budget, mcp, runtime_config, subagents, web};
use crate::backends::{ConfiguredBackend, TurnBackendHost};
use crate::config::{Config, UnknownModels};
use crate::model::demonstration::{self, Demonstration};
use crate::model::{self, Choice};

/// How long a turn waits for an approval or an answer.
pub(crate) const WAIT: Duration = Duration::from_secs(300);
/// Maximum number of calls of a thread that wait for a client.
pub(crate) const PENDING_CALLS: usize = 128;
/// Maximum number of inputs that wait for a running turn.
pub(crate) const WAITING_INPUTS: usize = 128;
/// With more tools of MCP servers or of one capability than this, the model finds them by a search.
pub(crate) const DEFER_ABOVE: usize = 24;
/// Fixed, because threads of earlier daemons refer to this harness.
const HARNESS: HarnessId = HarnessId::from_seed(0x0077_696e_646c_6173_735f_6461_656d_6f6e);

/// Everything the agent is built from.
pub(crate) struct DaemonAgent<'a> {
    pub(crate) config: &'a Config,
    pub(crate) tools: DaemonTools<'a>,
    pub(crate) model: Option<&'a str>,
    pub(crate) recovery: RecoveryPolicy,
    /// Stored approvals of projects.
    pub(crate) remembered: ProjectApprovals,
    /// External agents that can run turns instead of this one.
    pub(crate) backends: Vec<ConfiguredBackend>,
    /// Secrets that tools insert into commands and requests.
    pub(crate) secrets: NamedSecrets,
}

/// The runtime, with the handles that the server needs.
pub(crate) struct BuiltAgent {
    pub(crate) runtime: InProcessRuntime,
    pub(crate) harness_id: HarnessId,
    pub(crate) models: Models,
    /// The registry for further models; `None` if no provider is configured.
    pub(crate) providers: Option<Arc<InMemoryLlmProviderStore>>,
    /// Whether nothing is configured, so that the demonstration answers.
    pub(crate) is_demonstration: bool,
}

impl DaemonAgent<'_> {
    /// Builds the runtime on a store. When this returns, open turns of earlier processes are running again.
    pub(crate) async fn on(self, store: &SqliteStore) -> anyhow::Result<BuiltAgent> {
        let mut harness = HarnessBuilder::new("daemon", "")
            .with_capability(prompt::NAME)
            .with_capability("ask_user")
            .with_capability("plan")
            .with_capability("files")
            .with_capability("shell");
        if web::is_enabled(self.config) {
            harness = harness.with_capability(web::NAME);
        }
        if self.config.repository.instructions != Some(false) {
            harness = harness.with_capability(RepositoryCapability::ID);
        }
        let backends = self.backends.iter().map(|backend| backend.name.as_str());
        let starts = subagents::settings(&self.config.subagents, backends);
        if starts.is_some() {
            harness = harness.with_capability(subagents::NAME);
        }
        let mut harness = harness.build();
        harness.id = HARNESS;
        let stored = store.records().get_harness_chain(HARNESS).await?.pop();
        if let Some(stored) = &stored {
            (harness.created_at, harness.updated_at) = (stored.created_at, stored.updated_at);
        }
        // Every write is an fsync that delays the start, so an unchanged harness is not written.
        let is_unchanged = serde_json::to_value(&harness)? == serde_json::to_value(&stored)?;
        let changed = Some(harness).filter(|_| !is_unchanged);
        let limits = &self.config.limits;
        let settings = RuntimeSettings::default()
            .wait_timeout(Some(limits.wait_seconds.map_or(WAIT, Duration::from_secs)))
            .max_pending_calls(Some(limits.pending_calls.unwrap_or(PENDING_CALLS)))
            .max_waiting_inputs(Some(limits.waiting_inputs.unwrap_or(WAITING_INPUTS)))
            .recovery(self.recovery)
            .approvals(Arc::new(runtime_config::approvals(self.config)?))
            .compaction(runtime_config::compaction(&self.config.compaction))
            .budgets(budget::budgets(&self.config.budget)?)
            .reserve(budget::reserve(&self.config.budget)?)
            .defer_above(Some(DEFER_ABOVE))
            .secrets(self.secrets.clone());
        let settings = runtime_config::with_limits_of(settings, self.config);
        let providers = Arc::new(InMemoryLlmProviderStore::new());
        let mut backends =
            RuntimeBackends::on_sqlite(store).with_provider_store(Arc::clone(&providers) as _);
        if let Some(limit) = budget::daily_limit(&self.config.budget, store)? {
            backends = backends.with_daily_limit(limit);
        }
        let mut builder = InProcessRuntimeBuilder::new()
            .backends(backends)
            .settings(settings)
            .environments(self.tools.environments, self.tools.shell.clone())
            .capability(AgentPrompt::new(
                self.config,
                self.tools.environments,
                &self.tools.shell,
            ));
        let remembered = self.remembered;
        let remembered = remembered.in_environments(self.tools.environments.clone());
        builder = builder.remembered_calls(Arc::new(remembered));
        if web::is_enabled(self.config) {
            let (pages, egress) = web::tool_and_egress(self.config, self.tools.environments)?;
            builder = builder.capability(pages).egress_service(Arc::new(egress));
        }
        if let Some(starts) = starts {
            builder = builder.subagents(starts);
        }
        let (environments, shell) = (self.tools.environments, self.tools.shell);
        let variable = |name: &str| std::env::var(name).ok();
        let builder = match mcp::client(self.config, environments, &shell, &self.secrets, variable)?
        {
            Some(client) => builder.mcp(client),
            None => builder,
        };
        let builder = self.backends.into_iter().fold(builder, |builder, backend| {
            let driver = Arc::clone(&backend.backend);
            let host = TurnBackendHost {
                backend,
                environments: environments.clone(),
                shell: shell.clone(),
            };
            builder.backend(driver, Arc::new(host))
        });
        let builder = match changed {
            Some(harness) => builder.harness(harness),
            None => builder,
        };
        let choice = model::choose(self.model, self.config, variable)?;
        let is_named = self.model.is_some() || self.config.model.is_some();
        let registry = matches!(choice, Choice::Real(_)).then(|| Arc::clone(&providers));
        let is_demonstration = matches!(choice, Choice::Demonstration) && !is_named;
        let unknown = unknown_models(self.config.unknown_models);
        let usable = model::providers(self.config, variable)?;
        let (builder, models) = match choice {
            Choice::Real(model) => {
                let further = model::further(self.model, self.config, variable)?;
                let provider = model::provider_name(model.provider_type);
                let qualified = format!("{provider}/{}", model.model);
                let named = std::iter::once((qualified, model.clone())).chain(further);
                let models = Models {
                    default: model.model.clone(),
                    provider: Some(provider),
                    known: register(&providers, named).await,
                    providers: register_providers(&providers, usable).await,
                    unknown,
                    ..Models::default()
                };
                let builder = builder
                    .driver_registry(model::drivers(self.config)?)
                    .default_model(model);
                (builder, models)
            }
            Choice::Simulator => {
                let models = Models {
                    providers: unusable(usable, demonstration::NAME),
                    unknown,
                    ..Models::default()
                };
                (builder.llm_sim(LlmSimConfig::echo()), models)
            }
            Choice::Demonstration => {
                let models = Models {
                    default: demonstration::NAME.to_owned(),
                    providers: unusable(usable, model::SIMULATOR),
                    is_demonstration: true,
                    unknown,
                    ..Models::default()
                };
                let mut drivers = DriverRegistry::new();
                drivers.register(ProviderType::LlmSim, |_, _| Box::new(Demonstration));
                let model = ModelWithProvider {
                    model: demonstration::NAME.to_owned(),
                    provider_type: LlmProviderType::LlmSim,
                    api_key: None,
                    base_url: None,
                };
                (
                    builder.driver_registry(drivers).default_model(model),
                    models,
                )
            }
        };
        Ok(BuiltAgent {
            runtime: builder.build().await?,
            harness_id: HARNESS,
            models,
            providers: registry,
            is_demonstration,
        })
    }
}

pub(super) fn unknown_models(configured: UnknownModels) -> windlass_server::UnknownModels {
    match configured {
        UnknownModels::DefaultProvider => windlass_server::UnknownModels::ToDefaultProvider,
        UnknownModels::Refuse => windlass_server::UnknownModels::Refuse,
    }
}

/// Registers models under their names, with and without the provider prefix.
pub(super) async fn register(
    providers: &InMemoryLlmProviderStore,
    models: impl IntoIterator<Item = (String, ModelWithProvider)>,
) -> BTreeMap<String, ModelId> {
    let mut known = BTreeMap::new();
    for (name, model) in models {
        let id = id_of(&name);
        known.entry(model.model.clone()).or_insert(id);
        known.insert(name, id);
        providers.add_model(id, model).await;
    }
    known
}

/// Registers each usable provider, for models that are not configured by name.
pub(super) async fn register_providers(
    store: &InMemoryLlmProviderStore,
    usable: Vec<(&'static KnownProvider, Option<ModelWithProvider>)>,
) -> BTreeMap<String, ModelProvider> {
    let mut providers = BTreeMap::new();
    for (known, usable) in usable {
        let mut provider = unusable_provider(known);
        if let Some(model) = usable {
            let id = id_of(&format!("{}/", known.name));
            store.add_model(id, model).await;
            provider.id = Some(id);
        }
        providers.insert(known.name.to_owned(), provider);
    }
    for built_in in [model::SIMULATOR, demonstration::NAME] {
        providers.insert(built_in.to_owned(), ModelProvider::default());
    }
    providers
}

/// Lists the providers of a daemon that can use none of them, and a built-in model.
fn unusable(
    providers: Vec<(&'static KnownProvider, Option<ModelWithProvider>)>,
    built_in: &str,
) -> BTreeMap<String, ModelProvider> {
    let providers = providers.into_iter();
    let providers = providers.map(|(known, _)| (known.name.to_owned(), unusable_provider(known)));
    let built_in = (built_in.to_owned(), ModelProvider::default());
    providers.chain([built_in]).collect()
}

fn unusable_provider(known: &KnownProvider) -> ModelProvider {
    let variables = known.key_variables.iter();
    ModelProvider {
        id: None,
        key_variables: variables.map(ToString::to_string).collect(),
    }
}

/// Derives the ID from the name, so that it is the same in every process: resumed turns refer to their model by ID.
fn id_of(name: &str) -> ModelId {
    let digest = Digest128::hash(name.as_bytes()).to_string();
    ModelId::from_uuid(Uuid::try_parse(&digest).unwrap_or_default())
}
