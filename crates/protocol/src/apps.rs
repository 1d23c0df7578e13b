//! Skills and MCP servers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A skill of the workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SkillEntry {
    /// Name, unique in its list.
    pub name: String,
    /// What it is for, in the words of who wrote it.
    pub description: String,
    /// Path of its `SKILL.md`.
    pub path: Option<String>,
    /// `native`: it is a folder of the workspace.
    pub source: String,
    /// Whether models can see and load the skill.
    pub enabled: bool,
    /// Whether it comes with the daemon.
    pub is_bundled: bool,
}

/// The answer of `GET /v1/skills`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SkillList {
    /// Where they are looked for first.
    pub directory: String,
    /// All directories that were searched for skills.
    pub directories: Vec<String>,
    /// What could not be read.
    pub warnings: Vec<String>,
    /// Skills by name, disabled ones included.
    pub skills: Vec<SkillEntry>,
}

/// The body of `POST /v1/skills/{name}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SwitchSkill {
    /// Whether models can see and load the skill.
    pub enabled: bool,
}

/// The answer of `POST /v1/skills/{name}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SwitchedSkill {
    /// Name of the skill.
    pub name: String,
    /// Whether models can see and load the skill.
    pub enabled: bool,
}

/// An MCP server of the operator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct McpServerEntry {
    /// Name, unique in its list.
    pub name: String,
    /// Whether threads have it: always, here.
    pub enabled: bool,
    /// Whether turns fail without it: never, here.
    pub required: bool,
    /// Its program; arguments and variables are not shown.
    pub command: Option<String>,
    /// Where it is, without a login and a query; headers are not shown.
    pub url: Option<String>,
    /// Whether the daemon is connected to it.
    pub connected: bool,
    /// The tools that are taken of it; empty is all.
    pub enabled_tools: Vec<String>,
    /// The tools that are not.
    pub disabled_tools: Vec<String>,
}

/// The answer of `GET /v1/apps/mcp/servers`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct McpServerList {
    /// Configured servers by name.
    pub servers: Vec<McpServerEntry>,
}

/// A tool of an MCP server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct McpToolEntry {
    /// Name of the server in the configuration.
    pub server: String,
    /// What the server calls it.
    pub name: String,
    /// What models call it.
    pub prefixed_name: String,
    /// What the server says of it.
    pub description: Option<String>,
    /// What it takes.
    pub input_schema: Value,
}

/// Why something of a server is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct McpServerFailure {
    /// Name of the server in the configuration.
    pub server: String,
    /// What went wrong.
    pub reason: String,
}

/// The answer of `GET /v1/apps/mcp/tools`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct McpToolList {
    /// Tools of the connected servers.
    pub tools: Vec<McpToolEntry>,
    /// What is missing, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<McpServerFailure>,
}
