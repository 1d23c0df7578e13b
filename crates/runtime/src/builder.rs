//! The builder of a runtime.

use std::sync::Arc;

use windlass_core::agent::Agent;
use windlass_core::backend::Backend;
use windlass_core::capabilities::Capability;
use windlass_core::egress::EgressService;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::harness::Harness;
use windlass_core::llm_driver_registry::{DriverRegistry, ProviderConfig, ProviderType};
use windlass_core::llm_models::{LlmProviderType, ModelWithDrivers, ModelWithProvider};
use windlass_core::llmsim_driver::{LlmSimConfig, LlmSimDriver};
use windlass_core::mcp::McpConnector;
use windlass_core::platform_definition::PlatformDefinition;
use windlass_core::remembered_calls::RememberedCalls;
use windlass_core::session::Session;
use windlass_core::session_file::InitialFile;
use windlass_core::traits::{SessionFileSystem, SessionFileSystemFactoryContext};
use windlass_core::typed_id::SessionId;
use windlass_store::InMemorySessionFileStore;

use crate::agent_backends::{AgentBackends, BackendHost};
use crate::backends::RuntimeBackends;
use crate::builders::SingleSessionBuilder;
use crate::inner::{ExternalServices, Inner};
use crate::panics::catch_panic_async;
use crate::runtime::InProcessRuntime;
use crate::runtime::open_session;
use crate::settings::{ResumePolicy, RuntimeSettings};
use crate::subagents::{SubagentSettings, Subagents};
use windlass_core::setters;
use windlass_core::{Clock, SystemClock};
use windlass_macros::OpaqueDebug;

/// Model ID of the simulator if no other model is set.
const SIMULATED_MODEL: &str = "llmsim-model";

/// Builds an [`InProcessRuntime`]. Defaults: the built-in capabilities, no driver, and files in memory.
///
/// ```
/// # use windlass_core::llmsim_driver::LlmSimConfig;
/// use windlass_runtime::{AgentBuilder, HarnessBuilder, InProcessRuntimeBuilder, SessionBuilder};
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let harness = HarnessBuilder::new("base", "Be honest.").build();
/// let agent = AgentBuilder::new("sailor", "You sail.").build();
/// let session = SessionBuilder::new(harness.id).agent(agent.public_id).build();
/// let session_id = session.id;
/// let runtime = InProcessRuntimeBuilder::new()
///     .llm_sim(LlmSimConfig::fixed("Ahoy!"))
///     .harness(harness)
///     .agent(agent)
///     .session(session)
///     .seed_text_file(session_id, "/log.md", "Launched.")
///     .build()
///     .await?;
/// assert_eq!(runtime.run_text_turn(session_id, "Hi").await?.response, "Ahoy!");
/// # Ok::<(), windlass_core::AgentLoopError>(())
/// # }).unwrap();
/// ```
#[derive(OpaqueDebug, Default)]
pub struct InProcessRuntimeBuilder {
    platform: PlatformDefinition,
    backends: Option<RuntimeBackends>,
    llm_sim: Option<LlmSimConfig>,
    default_model: Option<ModelWithDrivers>,
    factory_context: SessionFileSystemFactoryContext,
    harnesses: Vec<Harness>,
    agents: Vec<Agent>,
    sessions: Vec<Session>,
    default_session_id: Option<SessionId>,
    files: Vec<(SessionId, InitialFile)>,
    settings: RuntimeSettings,
    clock: Option<Arc<dyn Clock>>,
    external_agents: AgentBackends,
    mcp: Option<Arc<dyn McpConnector>>,
    remembered: Option<Arc<dyn RememberedCalls>>,
    subagents: Option<Subagents>,
    #[cfg(feature = "tools")]
    environments: Vec<windlass_tools::Environments>,
}

impl InProcessRuntimeBuilder {
    /// Creates a builder with the defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// Sets the model that is used if no record or input names one. Drivers that come with it serve providers that have no other driver.
    #[must_use]
    pub fn default_model(mut self, model: impl Into<ModelWithDrivers>) -> Self {
        self.default_model = Some(model.into());
        self
    }
    /// Makes a session that is added later the default one.
    pub(crate) fn default_session(mut self, session_id: SessionId) -> Self {
        self.default_session_id = Some(session_id);
        self
    }
    /// Returns whether a default model is set.
    #[cfg(feature = "sqlite")]
    pub(crate) fn has_model(&self) -> bool {
        self.default_model.is_some() || self.llm_sim.is_some()
    }
    setters! {
        /// Sets the platform: capabilities, drivers, files and network.
        platform_definition(PlatformDefinition) |builder, platform| builder.platform = platform;
        /// Sets the store backends.
        backends(RuntimeBackends) |builder, backends| builder.backends = Some(backends);
        /// Uses the simulator. It is also the model if no default model is set.
        llm_sim(LlmSimConfig) |builder, config| builder.llm_sim = Some(config);
        /// Sets values for the platform's file system factory.
        session_file_system_factory_context(SessionFileSystemFactoryContext) |builder, context| builder.factory_context = context;
        /// Sets the platform's egress service, through which tools access the network.
        egress_service(Arc<dyn EgressService>) |builder, egress| builder.platform.set_egress_service(egress);
        /// Replaces the platform's drivers.
        driver_registry(DriverRegistry) |builder, drivers| *builder.platform.driver_registry_mut() = drivers;
        /// Adds a harness.
        harness(Harness) |builder, harness| builder.harnesses.push(harness);
        /// Adds an agent.
        agent(Agent) |builder, agent| builder.agents.push(agent);
        /// Adds a session.
        session(Session) |builder, session| builder.sessions.push(session);
        /// Sets timeouts, limits and retries.
        settings(RuntimeSettings) |builder, settings| builder.settings = settings;
        /// Sets the connector to MCP servers; without one, the servers in records are ignored. Their tools are discovered before a turn begins and
        /// recorded with it. [`InProcessRuntime::shutdown`] closes its connections.
        mcp(Arc<dyn McpConnector>) |builder, connector| builder.mcp = Some(connector);
        /// Sets the store of approvals that outlive a turn. Without it, every such call needs approval again in the next turn. Turns that have an owner
        /// never consult it.
        remembered_calls(Arc<dyn RememberedCalls>) |builder, calls| builder.remembered = Some(calls);
        /// Sets when turns that a previous process left open are resumed. The default is [`ResumePolicy::OnDemand`].
        resume_policy(ResumePolicy) |builder, resume_policy| builder.settings.resume_policy = resume_policy;
        /// Sets the source of time and new IDs. Default: [`SystemClock`].
        clock(Arc<dyn Clock>) |builder, clock| builder.clock = Some(clock);
    }

    /// Adds a capability to the platform.
    #[must_use]
    pub fn capability<C: Capability + 'static>(mut self, capability: C) -> Self {
        self.platform.capability_registry_mut().register(capability);
        self
    }
    /// Adds the capabilities `files` and `shell`, which work in these environments.
    ///
    /// ```
    /// # use serde_json::json;
    /// # use windlass_core::llmsim_driver::{LlmSimConfig, SimToolCall, SimTurn};
    /// use windlass_runtime::tools::{Environment, Environments, Policy, ShellSettings};
    /// use windlass_runtime::Conversation;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let directory = tempfile::tempdir()?;
    /// # let root = directory.path();
    /// # std::fs::write(root.join("log.md"), "Launched.")?;
    /// # let call = SimToolCall::new("read", json!({ "path": "log.md" }));
    /// # let script = LlmSimConfig::scripted(vec![SimTurn::ToolCalls(vec![call]), SimTurn::Assistant("She is launched.".into())]);
    /// let local = Environment::new("local", root, Policy::read_only())?;
    /// let environments = Environments::with_default(local);
    /// let mut chat = Conversation::builder()
    ///     .simulator(script)
    ///     .with_runtime(|runtime| runtime.environments(&environments, ShellSettings::default()))
    ///     .capability("files")
    ///     .start()
    ///     .await?;
    /// assert_eq!(chat.say("What does the log say?").await?.text, "She is launched.");
    /// # let messages = chat.messages().await?;
    /// # let read = messages.iter().find_map(|message| message.tool_result_content()).unwrap();
    /// # assert_eq!(read.result.as_ref().unwrap()["content"], "Launched.");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    #[cfg(feature = "tools")]
    #[must_use]
    pub fn environments(
        mut self,
        environments: &windlass_tools::Environments,
        shell: windlass_tools::ShellSettings,
    ) -> Self {
        let registry = self.platform.capability_registry_mut();
        windlass_tools::register(registry, environments, shell);
        self.environments.push(environments.clone());
        self
    }
    /// Hides a directory from the tools of all environments, such as the one with the journal.
    #[cfg(all(feature = "tools", feature = "sqlite"))]
    pub(crate) fn hide(&self, directory: &std::path::Path) {
        for environments in &self.environments {
            environments.hide(directory);
        }
    }
    /// Adds a session with its own harness and agent, and makes it the default one.
    #[must_use]
    pub fn single_session<F: FnOnce(SingleSessionBuilder) -> SingleSessionBuilder>(
        mut self,
        f: F,
    ) -> Self {
        let (harness, agent, session) = f(SingleSessionBuilder::new()).build();
        self.default_session_id = Some(session.id);
        self.harness(harness).agent(agent).session(session)
    }
    /// Adds a text file to a session.
    #[must_use]
    pub fn seed_text_file(
        mut self,
        session_id: SessionId,
        path: impl Into<String>,
        content: impl Into<String>,
    ) -> Self {
        self.files.push((session_id, text_file(path, content)));
        self
    }
    /// Adds an external agent that can execute turns, and the host that specifies how it is started. A turn selects it by its name
    /// ([`TurnRequest::backend`](windlass_core::turn_request::TurnRequest::backend)).
    #[must_use]
    pub fn backend(mut self, backend: Arc<dyn Backend>, host: Arc<dyn BackendHost>) -> Self {
        self.external_agents.register(backend, host);
        self
    }
    /// Adds the capability `subagents`: the models of sessions that enable it can start subagents, each in its own session.
    #[must_use]
    pub fn subagents(mut self, settings: SubagentSettings) -> Self {
        let subagents = Subagents::new(settings);
        self.subagents = Some(subagents.clone());
        self.capability(subagents)
    }
    /// Builds the runtime, and validates everything that sessions depend on.
    ///
    /// Turns that a previous process left open are not resumed unless [`ResumePolicy::AtStartup`] is set. To resume them later, call
    /// [`InProcessRuntime::resume_open_turns`].
    pub async fn build(mut self) -> Result<InProcessRuntime> {
        let backends = self
            .backends
            .take()
            .unwrap_or_else(RuntimeBackends::in_memory);
        if let Some(config) = self.llm_sim.take() {
            self.platform
                .driver_registry_mut()
                .register(ProviderType::LlmSim, move |_, _| {
                    Box::new(LlmSimDriver::new(config.clone()))
                });
            self.default_model
                .get_or_insert_with(|| simulated_model().into());
        }
        if let Some(ModelWithDrivers { model, drivers }) = self.default_model.take() {
            let registry = self.platform.driver_registry_mut();
            registry.add_missing(drivers);
            registry.check(&ProviderConfig::from(&model))?;
            backends.provider_store.set_default_model(model).await?;
        } else if backends.provider_store.get_default_model().await?.is_none() {
            return Err(no_default_model());
        }
        let files = self.file_system(&backends).await?;
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock));
        let inner = Inner::new(
            self.platform,
            backends,
            files,
            self.settings,
            clock,
            ExternalServices {
                agents: self.external_agents,
                mcp: self.mcp,
                remembered: self.remembered,
            },
            self.default_session_id,
        );
        if let Some(subagents) = self.subagents {
            subagents.attach(&inner);
        }
        for harness in self.harnesses {
            inner.backends.harness_store.add_harness(harness).await?;
        }
        for agent in self.agents {
            inner.backends.agent_store.add_agent(agent).await?;
        }
        for session in self.sessions {
            open_session(&inner, session).await?;
        }
        for (session_id, file) in self.files {
            inner.files.seed_initial_file(session_id, &file).await?;
        }
        let resume_policy = inner.settings.resume_policy;
        let runtime = InProcessRuntime { inner };
        if resume_policy == ResumePolicy::AtStartup {
            runtime.resume_open_turns().await?;
        }
        Ok(runtime)
    }

    async fn file_system(&self, backends: &RuntimeBackends) -> Result<Arc<dyn SessionFileSystem>> {
        if let Some(files) = &backends.file_system {
            return Ok(Arc::clone(files));
        }
        let factory = self.platform.session_file_system_factory();
        if factory.is_disabled() {
            return Ok(Arc::new(InMemorySessionFileStore::new()));
        }
        let creating = factory.create_session_file_system(self.factory_context.clone());
        catch_panic_async(creating).await.unwrap_or_else(|| {
            let name = factory.name();
            Err(AgentLoopError::config(format!(
                "the session file system factory {name} panicked"
            )))
        })
    }
}

fn simulated_model() -> ModelWithProvider {
    ModelWithProvider {
        model: SIMULATED_MODEL.to_owned(),
        provider_type: LlmProviderType::LlmSim,
        api_key: None,
        base_url: None,
    }
}

/// The error of a runtime that has neither a default model nor a simulator.
pub(crate) fn no_default_model() -> AgentLoopError {
    AgentLoopError::config("no default model is set; set one with `default_model` or use `llm_sim`")
}

/// A writable text file.
pub(crate) fn text_file(path: impl Into<String>, content: impl Into<String>) -> InitialFile {
    InitialFile {
        path: path.into(),
        content: content.into(),
        encoding: "text".to_owned(),
        is_readonly: false,
    }
}
