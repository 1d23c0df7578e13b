//! Builds an agent.

use chrono::{DateTime, Utc};
use windlass_core::agent::{Agent, AgentStatus};
use windlass_core::capability_types::AgentCapabilityConfig;
use windlass_core::mcp::ScopedMcpServers;
use windlass_core::network_access::NetworkAccessList;
use windlass_core::session_file::InitialFile;
use windlass_core::tools::ToolDefinition;
use windlass_core::typed_id::{AgentId, ModelId};

use super::{now, setters};

/// Builds an [`Agent`].
///
/// ```
/// use windlass_runtime::AgentBuilder;
/// let agent = AgentBuilder::new("sailor", "You sail.")
///     .description("Sails boats.")
///     .capability("current_time")
///     .max_iterations(8)
///     .build();
/// assert_eq!((agent.name.as_str(), agent.max_iterations), ("sailor", Some(8)));
/// ```
#[derive(Debug, Clone)]
pub struct AgentBuilder {
    record: Agent,
    updated_at: Option<DateTime<Utc>>,
}

impl AgentBuilder {
    /// Creates an agent with a name and a prompt.
    #[must_use]
    pub fn new(name: impl Into<String>, system_prompt: impl Into<String>) -> Self {
        let created_at = now();
        let record = Agent {
            public_id: AgentId::new(),
            name: name.into(),
            display_name: None,
            description: None,
            system_prompt: system_prompt.into(),
            default_model_id: None,
            tags: Vec::new(),
            capabilities: Vec::new(),
            initial_files: Vec::new(),
            network_access: None,
            max_iterations: None,
            tools: Vec::new(),
            mcp_servers: ScopedMcpServers::new(),
            status: AgentStatus::Active,
            created_at,
            updated_at: created_at,
            usage: None,
        };
        Self {
            record,
            updated_at: None,
        }
    }

    /// Returns the id that the agent will have.
    #[must_use]
    pub fn agent_id(&self) -> AgentId {
        self.record.public_id
    }

    setters! {
        /// Sets the id.
        id(AgentId) |agent, id| agent.public_id = id;
        /// Sets the addressable name.
        name(impl Into<String>) |agent, name| agent.name = name.into();
        /// Sets the display name.
        display_name(impl Into<String>) |agent, name| agent.display_name = Some(name.into());
        /// Sets the description.
        description(impl Into<String>) |agent, text| agent.description = Some(text.into());
        /// Sets the prompt.
        system_prompt(impl Into<String>) |agent, prompt| agent.system_prompt = prompt.into();
        /// Sets the model.
        default_model_id(ModelId) |agent, id| agent.default_model_id = Some(id);
        /// Adds a label.
        tag(impl Into<String>) |agent, tag| agent.tags.push(tag.into());
        /// Adds labels to the agent.
        tags(impl IntoIterator<Item = impl Into<String>>) |agent, tags| agent.tags.extend(tags.into_iter().map(Into::into));
        /// Enables a capability.
        capability(impl Into<AgentCapabilityConfig>) |agent, capability| agent.capabilities.push(capability.into());
        /// Enables a capability.
        with_capability(impl Into<AgentCapabilityConfig>) |agent, capability| agent.capabilities.push(capability.into());
        /// Enables capabilities for every session of the agent.
        capabilities(impl IntoIterator<Item = impl Into<AgentCapabilityConfig>>) |agent, all| agent.capabilities.extend(all.into_iter().map(Into::into));
        /// Adds an initial file of its sessions.
        initial_file(InitialFile) |agent, file| agent.initial_files.push(file);
        /// Sets the hosts that tools may connect to.
        network_access(NetworkAccessList) |agent, list| agent.network_access = Some(list);
        /// Sets the maximum number of model calls per turn.
        max_iterations(usize) |agent, most| agent.max_iterations = Some(most);
        /// Adds a client-side tool.
        tool(ToolDefinition) |agent, tool| agent.tools.push(tool);
        /// Adds client-side tools.
        tools(impl IntoIterator<Item = ToolDefinition>) |agent, tools| agent.tools.extend(tools);
        /// Sets the MCP servers.
        mcp_servers(ScopedMcpServers) |agent, servers| agent.mcp_servers = servers;
        /// Sets the status; sessions can use active agents only.
        status(AgentStatus) |agent, status| agent.status = status;
        /// Sets the creation time.
        created_at(DateTime<Utc>) |agent, at| agent.created_at = at;
    }

    /// Sets the time of the last change.
    #[must_use]
    pub fn updated_at(mut self, at: DateTime<Utc>) -> Self {
        self.updated_at = Some(at);
        self
    }

    /// Returns the agent.
    #[must_use]
    pub fn build(self) -> Agent {
        let updated_at = self.updated_at.unwrap_or(self.record.created_at);
        Agent {
            updated_at,
            ..self.record
        }
    }
}
