//! Builds a session.

use chrono::{DateTime, Utc};
use windlass_core::capability_types::AgentCapabilityConfig;
use windlass_core::mcp::ScopedMcpServers;
use windlass_core::network_access::NetworkAccessList;
use windlass_core::session::{Session, SessionStatus};
use windlass_core::session_file::InitialFile;
use windlass_core::tools::ToolDefinition;
use windlass_core::typed_id::{AgentId, HarnessId, ModelId, SessionId};

use super::now;
use crate::setters::record_setters;
use windlass_core::setters;

/// Builds a [`Session`].
///
/// ```
/// use windlass_runtime::{AgentBuilder, HarnessBuilder, SessionBuilder};
/// let harness = HarnessBuilder::new("base", "Be honest.").build();
/// let agent = AgentBuilder::new("sailor", "You sail.").build();
/// let session = SessionBuilder::new(harness.id).agent(agent.public_id).title("A trip").build();
/// assert_eq!(session.title.as_deref(), Some("A trip"));
/// ```
#[derive(Debug, Clone)]
pub struct SessionBuilder {
    record: Session,
    updated_at: Option<DateTime<Utc>>,
}

impl SessionBuilder {
    /// Creates a session on a harness.
    #[must_use]
    pub fn new(harness_id: HarnessId) -> Self {
        let created_at = now();
        let record = Session {
            id: SessionId::new(),
            harness_id,
            agent_id: None,
            title: None,
            locale: None,
            preview: None,
            output_preview: None,
            tags: Vec::new(),
            model_id: None,
            capabilities: Vec::new(),
            tools: Vec::new(),
            mcp_servers: ScopedMcpServers::new(),
            system_prompt: None,
            initial_files: Vec::new(),
            hints: None,
            network_access: None,
            max_iterations: None,
            status: SessionStatus::Started,
            created_at,
            updated_at: created_at,
            started_at: None,
            finished_at: None,
            usage: None,
            parent_session_id: None,
            subagent_name: None,
            subagent_task: None,
            subagent_status: None,
        };
        Self {
            record,
            updated_at: None,
        }
    }

    /// Returns the id that the session will have.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.record.id
    }

    setters! {
        /// Sets the id.
        id(SessionId) |builder, id| builder.record.id = id;
        /// Sets the harness.
        harness(HarnessId) |builder, id| builder.record.harness_id = id;
        /// Sets the agent.
        agent(AgentId) |builder, id| builder.record.agent_id = Some(id);
        /// Sets the title.
        title(impl Into<String>) |builder, title| builder.record.title = Some(title.into());
        /// Sets the language of answers.
        locale(impl Into<String>) |builder, locale| builder.record.locale = Some(locale.into());
        /// Sets the model.
        model_id(ModelId) |builder, id| builder.record.model_id = Some(id);
        /// Adds a client-side tool.
        tool(ToolDefinition) |builder, tool| builder.record.tools.push(tool);
        /// Adds client-side tools.
        tools(impl IntoIterator<Item = ToolDefinition>) |builder, tools| builder.record.tools.extend(tools);
        /// Sets the prompt.
        system_prompt(impl Into<String>) |builder, prompt| builder.record.system_prompt = Some(prompt.into());
        /// Sets the maximum number of model calls per turn.
        max_iterations(usize) |builder, most| builder.record.max_iterations = Some(most);
        /// Sets the status.
        status(SessionStatus) |builder, status| builder.record.status = status;
    }

    record_setters!(Session, "session");
}
