//! Builds a session.

use chrono::{DateTime, Utc};
use windlass_core::capability_types::AgentCapabilityConfig;
use windlass_core::mcp::ScopedMcpServers;
use windlass_core::network_access::NetworkAccessList;
use windlass_core::session::{Session, SessionStatus};
use windlass_core::session_file::InitialFile;
use windlass_core::tools::ToolDefinition;
use windlass_core::typed_id::{AgentId, HarnessId, ModelId, SessionId};

use super::{now, setters};

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
        id(SessionId) |session, id| session.id = id;
        /// Sets the harness.
        harness(HarnessId) |session, id| session.harness_id = id;
        /// Sets the agent.
        agent(AgentId) |session, id| session.agent_id = Some(id);
        /// Sets the title.
        title(impl Into<String>) |session, title| session.title = Some(title.into());
        /// Sets the language of answers.
        locale(impl Into<String>) |session, locale| session.locale = Some(locale.into());
        /// Adds a label.
        tag(impl Into<String>) |session, tag| session.tags.push(tag.into());
        /// Adds labels to the session.
        tags(impl IntoIterator<Item = impl Into<String>>) |session, tags| session.tags.extend(tags.into_iter().map(Into::into));
        /// Sets the model.
        model_id(ModelId) |session, id| session.model_id = Some(id);
        /// Enables a capability.
        capability(impl Into<AgentCapabilityConfig>) |session, capability| session.capabilities.push(capability.into());
        /// Enables a capability.
        with_capability(impl Into<AgentCapabilityConfig>) |session, capability| session.capabilities.push(capability.into());
        /// Enables capabilities for this session only.
        capabilities(impl IntoIterator<Item = impl Into<AgentCapabilityConfig>>) |session, all| session.capabilities.extend(all.into_iter().map(Into::into));
        /// Adds a client-side tool.
        tool(ToolDefinition) |session, tool| session.tools.push(tool);
        /// Adds client-side tools.
        tools(impl IntoIterator<Item = ToolDefinition>) |session, tools| session.tools.extend(tools);
        /// Sets the MCP servers.
        mcp_servers(ScopedMcpServers) |session, servers| session.mcp_servers = servers;
        /// Sets the prompt.
        system_prompt(impl Into<String>) |session, prompt| session.system_prompt = Some(prompt.into());
        /// Adds an initial file.
        initial_file(InitialFile) |session, file| session.initial_files.push(file);
        /// Sets the hosts that tools may connect to.
        network_access(NetworkAccessList) |session, list| session.network_access = Some(list);
        /// Sets the maximum number of model calls per turn.
        max_iterations(usize) |session, most| session.max_iterations = Some(most);
        /// Sets the status.
        status(SessionStatus) |session, status| session.status = status;
        /// Sets the creation time.
        created_at(DateTime<Utc>) |session, at| session.created_at = at;
    }

    /// Sets the time of the last change.
    #[must_use]
    pub fn updated_at(mut self, at: DateTime<Utc>) -> Self {
        self.updated_at = Some(at);
        self
    }

    /// Returns the session.
    #[must_use]
    pub fn build(self) -> Session {
        let updated_at = self.updated_at.unwrap_or(self.record.created_at);
        Session {
            updated_at,
            ..self.record
        }
    }
}
