//! Builds an agent.

use chrono::{DateTime, Utc};
use windlass_core::agent::{Agent, AgentStatus};
use windlass_core::capability_types::AgentCapabilityConfig;
use windlass_core::mcp::ScopedMcpServers;
use windlass_core::network_access::NetworkAccessList;
use windlass_core::session_file::InitialFile;
use windlass_core::tools::ToolDefinition;
use windlass_core::typed_id::{AgentId, ModelId};

use super::now;
use crate::setters::record_setters;
use windlass_core::setters;

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
        id(AgentId) |builder, id| builder.record.public_id = id;
        /// Sets the addressable name.
        name(impl Into<String>) |builder, name| builder.record.name = name.into();
        /// Sets the display name.
        display_name(impl Into<String>) |builder, name| builder.record.display_name = Some(name.into());
        /// Sets the description.
        description(impl Into<String>) |builder, text| builder.record.description = Some(text.into());
        /// Sets the prompt.
        system_prompt(impl Into<String>) |builder, prompt| builder.record.system_prompt = prompt.into();
        /// Sets the model.
        default_model_id(ModelId) |builder, id| builder.record.default_model_id = Some(id);
        /// Sets the maximum number of model calls per turn.
        max_iterations(usize) |builder, most| builder.record.max_iterations = Some(most);
        /// Adds a client-side tool.
        tool(ToolDefinition) |builder, tool| builder.record.tools.push(tool);
        /// Adds client-side tools.
        tools(impl IntoIterator<Item = ToolDefinition>) |builder, tools| builder.record.tools.extend(tools);
        /// Sets the status; sessions can use active agents only.
        status(AgentStatus) |builder, status| builder.record.status = status;
    }

    record_setters!(Agent, "agent");
}
