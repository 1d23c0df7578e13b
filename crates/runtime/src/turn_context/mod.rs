//! The context of a turn: records, layers, capabilities and model, resolved once.

mod capabilities;
mod compaction;
mod deferred;
mod discovered;
mod discovery_cache;
mod masked_tool;
mod offer;
mod output;
mod prompt;
mod records;
mod tool_search;
mod turn_tools;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_core::capabilities::ResolvedCapability;
use windlass_core::capability_types::AgentCapabilityConfig;
use windlass_core::digest::Digest128;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::llm_driver_registry::{LlmCallConfig, LlmDriver};
use windlass_core::llm_models::ModelWithProvider;
use windlass_core::mcp::McpScope;
use windlass_core::message::{Controls, Message};
use windlass_core::network_access::NetworkAccessList;
use windlass_core::runtime_agent::{DEFAULT_MAX_ITERATIONS, RuntimeAgent};
use windlass_core::runtime_context::AssembledTurnContext;
use windlass_core::session::Session;
use windlass_core::turn_environment::TurnEnvironment;
use windlass_core::turn_request::ParentTurn;
use windlass_core::typed_id::{ModelId, SessionId};
use windlass_policy::ApprovalRules;
use windlass_turn::{BackendPlan, CompactionPlan, Thread, TurnPlan};

use crate::agent_backends::RegisteredBackend;
use crate::builder::no_default_model;
use crate::inner::Inner;
use crate::panics::catch_panic_async;
use crate::subagents::{SPAWN_AGENT, SUBAGENTS};
use capabilities::TurnTools;
pub(crate) use capabilities::{Contributions, guarded};
pub(crate) use deferred::SplitTools;
pub(crate) use discovered::Discovery;
use discovered::TurnDiscovery;
pub(crate) use discovery_cache::DiscoveryCache;
pub(crate) use offer::{Offer, Offers};
pub(crate) use output::TurnOutput;
pub use output::check_output_schema;
pub(crate) use records::SessionRecords;
pub(crate) use turn_tools::ToolSetCache;
use turn_tools::{ToolsKey, ToolsRequest};
use windlass_core::lock::lock;

/// The context of a turn. Assembled once per turn and shared by its steps.
pub(crate) struct TurnContext {
    pub(crate) plan: TurnPlan,
    pub(crate) system_prompt: Arc<str>,
    pub(crate) model: ModelWithProvider,
    pub(crate) driver: Arc<dyn LlmDriver>,
    pub(crate) offer: Arc<Offer>,
    /// The schema that the final answer must match.
    pub(crate) output: Option<TurnOutput>,
    /// Settings of the newest model call that differ from the shared ones, and the names of the tools that had been found.
    widened: Mutex<Option<(Vec<String>, Arc<LlmCallConfig>)>>,
    pub(crate) contributions: Contributions,
    pub(crate) locale: Option<String>,
    pub(crate) network_access: Option<NetworkAccessList>,
    pub(crate) tool_timeout: Option<Duration>,
    pub(crate) environment: Option<TurnEnvironment>,
    /// The external agent that executes the turn.
    pub(crate) backend: Option<RegisteredBackend>,
    /// The model that the turn itself requests, by name.
    pub(crate) requested_model: Option<String>,
    /// Owner of the turn; `None` is the operator.
    pub(crate) owner: Option<String>,
    /// The parent's turn, if this is a subagent's.
    pub(crate) parent: Option<ParentTurn>,
    /// Whether its model can start subagents.
    pub(crate) starts_agents: bool,
}

impl TurnContext {
    /// Fails if the turn's model or external agent does not accept images.
    pub(crate) fn check_images(&self) -> Result<()> {
        let refused = |model: &str| AgentLoopError::UnsupportedInput {
            model: model.to_owned(),
            input: "images",
        };
        if let Some(backend) = &self.plan.backend {
            return Err(refused(&backend.name));
        }
        let model = &self.model.model;
        match self.driver.accepts_images(model) {
            Some(false) => Err(refused(model)),
            Some(true) | None => Ok(()),
        }
    }

    /// Returns the system prompt of a call whose answer is not the turn's.
    pub(crate) fn plain_prompt(&self) -> &Arc<str> {
        let output = self.output.as_ref();
        output.map_or(&self.system_prompt, |output| &output.plain_prompt)
    }

    /// Returns how the model's window is used, even if the history is not compacted automatically.
    pub(crate) fn window_plan(&self) -> CompactionPlan {
        self.plan.compaction.unwrap_or_else(|| {
            let (prompt, config) = (&self.system_prompt, &self.offer.config);
            compaction::plan(Default::default(), self.driver.as_ref(), prompt, config)
        })
    }

    /// Returns the settings of the next model call of a thread, including the deferred tools that the thread has found. Definitions are copied only
    /// when it has found more.
    pub(crate) fn call_config(&self, thread: &Thread) -> Arc<LlmCallConfig> {
        let found = thread.discovered_tools(&self.plan);
        if found.is_empty() && self.output.is_none() {
            return Arc::clone(&self.offer.config);
        }
        let mut widened = lock(&self.widened);
        match &*widened {
            Some((names, config)) if *names == found => Arc::clone(config),
            _ => {
                let config = Arc::new(LlmCallConfig {
                    output_schema: self.output.as_ref().map(|output| output.schema.clone()),
                    ..self.offer.with_found(&found)
                });
                *widened = Some((found, Arc::clone(&config)));
                config
            }
        }
    }
}

/// The options of one turn, from its input and from its caller.
#[derive(Default)]
pub(crate) struct ContextRequest {
    pub(crate) controls: Option<Controls>,
    pub(crate) tool_timeout: Option<Duration>,
    pub(crate) discovery: Discovery,
}

/// A context, with the parts that only previews show.
pub(crate) struct AssembledContext {
    pub(crate) records: SessionRecords,
    pub(crate) context: TurnContext,
    pub(crate) model_id: Option<ModelId>,
}

impl AssembledContext {
    /// Converts the context to its public view.
    pub(crate) fn into_view(self, messages: Vec<Message>) -> AssembledTurnContext {
        let Self {
            records,
            context,
            model_id,
        } = self;
        let runtime_agent = RuntimeAgent {
            tools: context.offer.tools().cloned().collect(),
            system_prompt: context.system_prompt.to_string(),
            model: context.model.model.clone(),
            max_iterations: context.plan.max_iterations,
            temperature: context.offer.config.temperature,
            max_tokens: context.offer.config.max_tokens,
            network_access: context.network_access.clone(),
        };
        AssembledTurnContext {
            harness_chain: records.harness_chain,
            agent: records.agent,
            session: records.session,
            messages,
            runtime_agent,
            model_with_provider: context.model,
            effective_overlay: records.overlay,
            resolved_capability_configs: context
                .contributions
                .capabilities
                .iter()
                .map(config_of)
                .collect(),
            resolved_model_id: model_id,
            resolved_locale: context.locale,
        }
    }
}

fn config_of(resolved: &ResolvedCapability) -> AgentCapabilityConfig {
    AgentCapabilityConfig::with_config(resolved.capability.id(), resolved.config.clone())
}

/// Resolves the context of a session's turn. Capabilities and stores belong to the application, so they may panic.
pub(crate) async fn assemble(
    inner: &Inner,
    session_id: SessionId,
    options: ContextRequest,
) -> Result<AssembledContext> {
    guard(inner, session_id, async {
        let records = SessionRecords::load(inner, session_id).await?;
        resolve(inner, records, options).await
    })
    .await
}

/// Resolves the context of a turn without storing anything.
pub(crate) async fn assemble_preview(
    inner: &Inner,
    session: Session,
    options: ContextRequest,
) -> Result<AssembledContext> {
    let session_id = session.id;
    let resolved = async {
        let records = SessionRecords::for_session(inner, session).await?;
        resolve(inner, records, options).await
    };
    guard(inner, session_id, Box::pin(resolved)).await
}

async fn guard(
    inner: &Inner,
    session_id: SessionId,
    resolving: impl Future<Output = Result<AssembledContext>>,
) -> Result<AssembledContext> {
    let resolved = catch_panic_async(resolving).await.unwrap_or_else(|| {
        Err(AgentLoopError::config(format!(
            "a capability or a store panicked while a turn of session {session_id} was prepared"
        )))
    });
    resolved.map_err(|error| inner.secrets.mask_error(session_id, error))
}

async fn resolve(
    inner: &Inner,
    mut records: SessionRecords,
    options: ContextRequest,
) -> Result<AssembledContext> {
    let session_id = records.session.id;
    records.check_usable()?;
    let controls = options.controls.unwrap_or_default();
    let usable = controls.check_turn_request();
    usable.map_err(|error| AgentLoopError::config(error.to_string()))?;
    let mut request = controls.turn.map(|turn| *turn).unwrap_or_default();
    let environment = request.environment.take();
    let backend = request
        .backend
        .as_deref()
        .map(|name| inner.agents.get(name));
    let backend = backend.transpose()?;
    if let Some(requested) = &request.system_prompt {
        let own = records.overlay.system_prompt.get_or_insert_default();
        let gap = if own.is_empty() { "" } else { "\n\n" };
        own.push_str(gap);
        own.push_str(requested);
    }
    let model_id = controls.model_id.or(records.overlay.default_model_id);
    let mut model = find_model(inner, model_id).await?;
    if let Some(name) = &request.model {
        model.model.clone_from(name);
    }
    let driver = inner.drivers.get(&model)?;
    let locale = controls.locale.or_else(|| records.session.locale.clone());
    let mut contributions = Contributions::collect(inner, &records.overlay, &model.model)?;
    if let Some(environment) = &environment {
        let mut capabilities = contributions.capabilities.iter();
        if !capabilities.all(|resolved| resolved.capability.knows_environment(environment)) {
            let id = environment.environment_id.clone();
            return Err(AgentLoopError::EnvironmentNotFound(id));
        }
    }
    let mut servers = std::mem::take(&mut contributions.mcp_servers);
    servers.extend(records.overlay.mcp_servers.clone());
    let scope = McpScope {
        session_id,
        owner: request.owner.clone(),
        environment: environment.clone(),
        network_access: records.overlay.network_access.clone(),
    };
    // An external agent brings its own tools.
    let discovery = match request.backend {
        Some(_) => Discovery::Skip,
        None => options.discovery,
    };
    let discovered = TurnDiscovery::ask(inner, &servers, &scope, discovery, &contributions).await;
    let found = discovered.found.as_deref();
    let description = found.and_then(|found| found.description.as_ref());
    let environment_texts = [
        description.map(|described| described.text.as_str()),
        found.and_then(|found| found.instructions.as_deref()),
    ];
    let mut system_prompt = prompt::assemble(
        inner,
        session_id,
        &records.overlay,
        &contributions,
        prompt::PromptInputs {
            locale: locale.as_deref(),
            model: &model.model,
            environment: environment_texts,
        },
    )
    .await?;
    let output = TurnOutput::take(&mut request, &mut system_prompt)?;
    let settings = &inner.settings;
    let effort = controls.reasoning.and_then(|reasoning| reasoning.effort);
    let tools_request = ToolsRequest {
        overlay: &records.overlay,
        request: &request,
        model: &model.model,
        effort: effort.as_deref(),
    };
    let key = if contributions.has_definition_hooks() || !discovered.is_cacheable() {
        None
    } else {
        tools_request.key(&contributions, discovered.tools_key(&servers, &scope))?
    };
    // A separate cache, so that many sessions with their own servers do not evict the tools that all others share.
    let cache = if key.as_ref().is_some_and(ToolsKey::is_of_session) {
        &inner.session_tools_cache
    } else {
        &inner.shared_tools_cache
    };
    let tools = match key.as_ref().and_then(|key| cache.get(key)) {
        Some(cached) => cached,
        None => {
            contributions.collect_tools()?;
            discovered.add_tools(inner, &servers, &scope, &mut contributions);
            let tools = Arc::new(tools_request.build(inner, &mut contributions)?);
            if let Some(key) = key {
                cache.insert(key, &tools);
            }
            tools
        }
    };
    contributions.tools = Arc::clone(&tools.registry);
    let offer = Arc::clone(&tools.offer);
    let compaction = compaction::settings(settings.compaction, &contributions)?;
    let compaction = compaction
        .map(|settings| compaction::plan(settings, driver.as_ref(), &system_prompt, &offer.config));
    // Remembered approvals apply to the operator's turns only; a thread that an agent owns always needs approval.
    let remembered = match (&inner.remembered, &environment, &request.owner) {
        (Some(calls), Some(environment), None) => {
            let (calls, environment) = (Arc::clone(calls), environment.clone());
            let read = tokio::task::spawn_blocking(move || calls.allowed_in(&environment)).await;
            Arc::from(read.unwrap_or_default())
        }
        _ => Arc::new([]) as Arc<[String]>,
    };
    let backend_plan = request.backend.as_ref().map(|name| BackendPlan {
        name: name.clone(),
        allows_all: request.approve_all,
    });
    let plan = TurnPlan {
        digest: digest(
            &system_prompt,
            tools.digest,
            &model,
            request.backend.as_deref(),
            (&settings.approvals, &remembered),
            compaction.as_ref(),
        ),
        // An external agent reports its model once it runs.
        model: match &backend_plan {
            Some(backend_plan) => request.model.as_ref().unwrap_or(&backend_plan.name).clone(),
            None => model.model.clone(),
        },
        max_iterations: records
            .overlay
            .max_iterations
            .unwrap_or(DEFAULT_MAX_ITERATIONS),
        tool_names: Arc::clone(&offer.names_in_order),
        deferred: Arc::clone(&offer.deferred_tokens),
        tools: Arc::clone(&offer.specs),
        max_parallel_calls: settings.max_parallel_calls,
        max_pending_calls: settings.max_pending_calls,
        max_waiting_inputs: settings.max_waiting_inputs,
        turn_timeout: settings.turn_timeout,
        needs_output: request.needs_output,
        wait_timeout: settings.wait_timeout,
        limits: settings.limits,
        budgets: match &request.budgets {
            Some(requested) => settings.budgets.narrowed_by(requested),
            None => settings.budgets,
        },
        reserve: settings.reserve,
        backend: backend_plan,
        approvals: Arc::clone(&settings.approvals),
        remembered,
        discovered: discovered.found,
        compaction,
    };
    let spawning = offer.tool(SPAWN_AGENT).map(|tool| tool.hints());
    let starts_agents =
        spawning.is_some_and(|hints| hints.capability_id.as_deref() == Some(SUBAGENTS));
    let context = TurnContext {
        plan,
        system_prompt: system_prompt.into(),
        driver,
        offer,
        output,
        widened: Mutex::default(),
        contributions,
        locale,
        network_access: records.overlay.network_access.clone(),
        tool_timeout: options.tool_timeout.or(settings.tool_timeout),
        environment,
        backend,
        requested_model: request.model,
        owner: request.owner,
        parent: request.parent,
        starts_agents,
        model,
    };
    Ok(AssembledContext {
        records,
        context,
        model_id,
    })
}

/// Returns a digest of the configuration: prompt, tools, model, external agent, permissions and compaction limits. It never includes the API key.
fn digest(
    system_prompt: &str,
    tools: Digest128,
    model: &ModelWithProvider,
    backend: Option<&str>,
    (approvals, remembered): (&ApprovalRules, &[String]),
    compaction: Option<&CompactionPlan>,
) -> String {
    let mut text = format!(
        "{tools}\0{}\0{}\0{system_prompt}",
        model.provider_type, model.model
    );
    if let Some(backend) = backend {
        text = format!("{text}\0{backend}");
    }
    if !approvals.is_empty() {
        text = format!("{text}\0{}", Digest128::of_json(approvals));
    }
    for call in remembered {
        text = format!("{text}\0remembered {call}");
    }
    if let Some(plan) = compaction {
        let (window, reserve) = (plan.window_tokens, plan.reserve_tokens);
        let keep_recent = plan.keep_recent_tokens;
        text = format!("{text}\0compaction {window} {reserve} {keep_recent}");
    }
    Digest128::hash(text.as_bytes()).to_string()
}

async fn find_model(inner: &Inner, id: Option<ModelId>) -> Result<ModelWithProvider> {
    let store = &inner.backends.provider_store;
    match id {
        Some(id) => {
            let found = store.get_model_with_provider(id).await?;
            found.ok_or_else(|| AgentLoopError::model_not_available(id.to_string()))
        }
        None => store
            .get_default_model()
            .await?
            .ok_or_else(no_default_model),
    }
}
