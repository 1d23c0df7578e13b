//! Groups of routes that are not built: their lists are empty, in the right shape.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Tasks by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskCounts {
    /// Waiting.
    pub queued: u64,
    /// Working.
    pub running: u64,
    /// Done.
    pub completed: u64,
    /// Failed.
    pub failed: u64,
    /// Given up.
    pub canceled: u64,
}

/// The answer of `GET /v1/tasks`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskList {
    /// The tasks.
    pub tasks: Vec<Value>,
    /// How many there are.
    pub counts: TaskCounts,
}

/// The answer of `GET /v1/skills`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SkillList {
    /// Where they are.
    pub directory: String,
    /// All places.
    pub directories: Vec<String>,
    /// What could not be read.
    pub warnings: Vec<String>,
    /// The skills.
    pub skills: Vec<Value>,
}

/// The answer of `GET /v1/apps/mcp/servers`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct McpServerList {
    /// The servers.
    pub servers: Vec<Value>,
}

/// The answer of `GET /v1/apps/mcp/tools`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct McpToolList {
    /// The tools.
    pub tools: Vec<Value>,
}

/// The answer of `GET /v1/agent-runs`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentRunList {
    /// The runs.
    pub runs: Vec<Value>,
}
