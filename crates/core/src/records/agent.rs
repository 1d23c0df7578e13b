//! A named persona on top of a harness.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use windlass_macros::omit_none;

use crate::capability_types::AgentCapabilityConfig;
use crate::events::TokenUsage;
use crate::mcp::ScopedMcpServers;
use crate::network_access::NetworkAccessList;
use crate::session_file::InitialFile;
use crate::tool_types::ToolDefinition;
use crate::typed_id::{AgentId, ModelId};

/// Whether an agent may be used; the same cases as of a harness.
pub use crate::harness::HarnessStatus as AgentStatus;

/// A named persona.
#[omit_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Agent {
    /// Identifies the agent.
    #[serde(rename = "id")]
    pub public_id: AgentId,
    /// The addressable name.
    pub name: String,
    /// The name to show.
    pub display_name: Option<String>,
    /// The purpose of the agent.
    pub description: Option<String>,
    /// The prompt it contributes.
    pub system_prompt: String,
    /// The model, unless the session names one.
    pub default_model_id: Option<ModelId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The capabilities it enables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<AgentCapabilityConfig>,
    /// The files that its sessions start with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub initial_files: Vec<InitialFile>,
    /// The hosts that tools may connect to.
    pub network_access: Option<NetworkAccessList>,
    /// The limit of model calls in a turn.
    pub max_iterations: Option<usize>,
    /// Tools that the client runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolDefinition>,
    /// MCP servers by name.
    #[serde(
        default,
        rename = "mcpServers",
        skip_serializing_if = "ScopedMcpServers::is_empty"
    )]
    pub mcp_servers: ScopedMcpServers,
    #[serde(default)]
    pub status: AgentStatus,
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
    /// Total usage of its sessions.
    pub usage: Option<TokenUsage>,
}
