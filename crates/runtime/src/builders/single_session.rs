//! Builds one session with its own harness and agent.

use windlass_core::agent::Agent;
use windlass_core::capability_types::AgentCapabilityConfig;
use windlass_core::harness::Harness;
use windlass_core::mcp::ScopedMcpServers;
use windlass_core::network_access::NetworkAccessList;
use windlass_core::session::Session;
use windlass_core::session_file::InitialFile;
use windlass_core::tools::ToolDefinition;
use windlass_core::typed_id::{AgentId, HarnessId, ModelId, SessionId};

use super::{AgentBuilder, HarnessBuilder, SessionBuilder, now};
use crate::runtime::own_records;

/// Builds one session with its own harness and agent. Calls may come in any order.
///
/// ```
/// # use windlass_core::llmsim_driver::LlmSimConfig;
/// use windlass_runtime::InProcessRuntimeBuilder;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let runtime = InProcessRuntimeBuilder::new()
///     .llm_sim(LlmSimConfig::echo())
///     .single_session(|session| {
///         session
///             .harness("base", "Be honest.")
///             .agent("sailor", "You sail.")
///             .with_capability("current_time")
///             .session_title("A trip")
///     })
///     .build()
///     .await?;
/// let session = runtime.default_session_id().expect("single_session makes one");
/// assert_eq!(runtime.session(session).await?.title.as_deref(), Some("A trip"));
/// # Ok::<(), windlass_core::AgentLoopError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct SingleSessionBuilder {
    harness: HarnessBuilder,
    agent: AgentBuilder,
    session: SessionBuilder,
}

/// Setters that forward a value to one of the three records.
macro_rules! forward_setters {
    ($($(#[$doc:meta])* $name:ident($ty:ty) => $record:ident.$setter:ident;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, value: $ty) -> Self {
            self.$record = self.$record.$setter(value);
            self
        }
    )*};
}

impl SingleSessionBuilder {
    pub(crate) fn new() -> Self {
        let harness = HarnessBuilder::new("embedded-harness", "");
        let agent = AgentBuilder::new("embedded-agent", "");
        let session = SessionBuilder::new(harness.harness_id()).agent(agent.agent_id());
        Self {
            harness,
            agent,
            session,
        }
    }

    /// Names the harness and sets its prompt.
    #[must_use]
    pub fn harness(mut self, name: impl Into<String>, system_prompt: impl Into<String>) -> Self {
        self.harness = self.harness.name(name).system_prompt(system_prompt);
        self
    }

    /// Names the agent and sets its prompt.
    #[must_use]
    pub fn agent(mut self, name: impl Into<String>, system_prompt: impl Into<String>) -> Self {
        self.agent = self.agent.name(name).system_prompt(system_prompt);
        self
    }

    /// Returns the id that the harness will have.
    #[must_use]
    pub fn harness_id(&self) -> HarnessId {
        self.harness.harness_id()
    }

    /// Returns the id that the agent will have.
    #[must_use]
    pub fn agent_id(&self) -> AgentId {
        self.agent.agent_id()
    }

    forward_setters! {
        /// Enables a capability on the harness.
        with_capability(impl Into<AgentCapabilityConfig>) => harness.capability;
        /// Enables a capability on the harness.
        harness_capability(impl Into<AgentCapabilityConfig>) => harness.capability;
        /// Enables a capability on the agent.
        agent_capability(impl Into<AgentCapabilityConfig>) => agent.capability;
        /// Enables a capability on the session.
        session_capability(impl Into<AgentCapabilityConfig>) => session.capability;
        /// Sets the maximum number of model calls per turn, on the agent.
        agent_max_iterations(usize) => agent.max_iterations;
        /// Sets the maximum number of model calls per turn, on the session.
        session_max_iterations(usize) => session.max_iterations;
        /// Sets the session's title.
        session_title(impl Into<String>) => session.title;
        /// Sets the session's id.
        session_id(SessionId) => session.id;
        /// Sets the session's model.
        session_model_id(ModelId) => session.model_id;
        /// Sets the harness's model.
        harness_default_model_id(ModelId) => harness.default_model_id;
        /// Sets the agent's model.
        agent_default_model_id(ModelId) => agent.default_model_id;
        /// Sets the harness's display name.
        harness_display_name(impl Into<String>) => harness.display_name;
        /// Sets the agent's display name.
        agent_display_name(impl Into<String>) => agent.display_name;
        /// Sets the harness's description.
        harness_description(impl Into<String>) => harness.description;
        /// Sets the agent's description.
        agent_description(impl Into<String>) => agent.description;
        /// Sets the hosts that tools may connect to, on the harness.
        harness_network_access(NetworkAccessList) => harness.network_access;
        /// Sets the hosts that tools may connect to, on the agent.
        agent_network_access(NetworkAccessList) => agent.network_access;
        /// Sets the hosts that tools may connect to, on the session.
        session_network_access(NetworkAccessList) => session.network_access;
        /// Adds a file on the harness.
        harness_initial_file(InitialFile) => harness.initial_file;
        /// Adds a file on the agent.
        agent_initial_file(InitialFile) => agent.initial_file;
        /// Adds a file on the session.
        session_initial_file(InitialFile) => session.initial_file;
        /// Adds a client-side tool, on the agent.
        agent_tool(ToolDefinition) => agent.tool;
        /// Adds a client-side tool, on the session.
        session_tool(ToolDefinition) => session.tool;
        /// Sets the session's MCP servers.
        session_mcp_servers(ScopedMcpServers) => session.mcp_servers;
        /// Sets the language of answers.
        locale(impl Into<String>) => session.locale;
        /// Adds a label to the session.
        tag(impl Into<String>) => session.tag;
    }

    /// Gives the session this ID, and gives its harness and agent the same UUID, so that a later process finds and replaces them.
    pub(crate) fn with_own_records(mut self, id: SessionId) -> Self {
        let (harness_id, agent_id) = own_records(id);
        self.harness = self.harness.id(harness_id);
        self.agent = self.agent.id(agent_id);
        self.session = self
            .session
            .id(id)
            .harness(harness_id)
            .agent(agent_id)
            .created_at(now());
        self
    }

    pub(crate) fn build(self) -> (Harness, Agent, Session) {
        (
            self.harness.build(),
            self.agent.build(),
            self.session.build(),
        )
    }
}
