//! One conversation, as a record.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_macros::omit_none;

use crate::capability_types::AgentCapabilityConfig;
use crate::events::TokenUsage;
use crate::mcp::ScopedMcpServers;
use crate::network_access::NetworkAccessList;
use crate::session_file::InitialFile;
use crate::tool_types::ToolDefinition;
use crate::typed_id::{AgentId, HarnessId, ModelId, SessionId};

text_enum! {
    /// The activity of a session.
    #[derive(Default)]
    SessionStatus {
        /// No turn yet.
        #[default]
        Started = "started",
        /// A turn is running.
        Active = "active",
        /// No turn is running.
        Idle = "idle",
        /// The turn is parked.
        WaitingForToolResults = "waiting_for_tool_results",
        /// Its turns do not start.
        Paused = "paused",
    }
}

/// The state of a child session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubagentStatus {
    /// It is being created.
    Spawning,
    Running,
    /// It is done.
    Completed,
    Failed,
    /// It was cancelled.
    Cancelled,
    /// It used up its model calls.
    MaxIterationsReached,
}

/// One conversation with its event log.
#[omit_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Session {
    /// Identifies the session.
    pub id: SessionId,
    /// The harness that provides the base configuration.
    pub harness_id: HarnessId,
    /// The session's agent.
    pub agent_id: Option<AgentId>,
    /// The name to show.
    pub title: Option<String>,
    /// The language to answer in.
    pub locale: Option<String>,
    /// The beginning of the first input.
    pub preview: Option<String>,
    /// The beginning of the last answer.
    pub output_preview: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The model, unless an input names one.
    pub model_id: Option<ModelId>,
    /// The capabilities it enables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<AgentCapabilityConfig>,
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
    /// The prompt it contributes.
    pub system_prompt: Option<String>,
    /// The files it starts with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub initial_files: Vec<InitialFile>,
    /// Anything else, by name.
    pub hints: Option<HashMap<String, Value>>,
    /// The hosts that tools may connect to.
    pub network_access: Option<NetworkAccessList>,
    /// The limit of model calls in a turn.
    pub max_iterations: Option<usize>,
    #[serde(default)]
    pub status: SessionStatus,
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
    /// When its first turn started.
    pub started_at: Option<DateTime<Utc>>,
    /// When it was closed.
    pub finished_at: Option<DateTime<Utc>>,
    /// Total usage of its turns.
    pub usage: Option<TokenUsage>,
    /// The parent session.
    pub parent_session_id: Option<SessionId>,
    /// Its name in that session.
    pub subagent_name: Option<String>,
    /// The task of a child session.
    pub subagent_task: Option<String>,
    /// The state of a child session.
    pub subagent_status: Option<SubagentStatus>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability_types::CapabilityStatus;

    #[test]
    fn r35_status_serialises_to_its_display_text() {
        use CapabilityStatus::{Available, ComingSoon, Deprecated};
        use SessionStatus::{Active, Idle, Paused, Started, WaitingForToolResults};
        for status in [Started, Active, Idle, WaitingForToolResults, Paused] {
            assert_eq!(serde_json::to_value(status).unwrap(), status.to_string());
        }
        for status in [Available, ComingSoon, Deprecated] {
            assert_eq!(serde_json::to_value(status).unwrap(), status.to_string());
        }
    }
}
