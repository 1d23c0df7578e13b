//! Skills and MCP servers.

use serde_json::Value;
use windlass_macros::wire;

/// A skill of the workspace.
#[wire(Default, Eq)]
pub struct SkillEntry {
    /// Name, unique in its list.
    pub name: String,
    /// Description from the file of the skill.
    pub description: String,
    /// Path of its `SKILL.md`.
    pub path: Option<String>,
    /// `native`: a folder of the workspace.
    pub source: String,
    /// Whether models can see and load the skill.
    pub enabled: bool,
    /// Whether the skill is part of the daemon.
    pub is_bundled: bool,
}

/// The answer of `GET /v1/skills`.
#[wire(Default, Eq)]
pub struct SkillList {
    /// Directory that is searched first.
    pub directory: String,
    /// All directories that were searched for skills.
    pub directories: Vec<String>,
    /// Problems with skills that could not be read.
    pub warnings: Vec<String>,
    /// Skills by name, disabled ones included.
    pub skills: Vec<SkillEntry>,
}

/// The body of `POST /v1/skills/{name}`.
#[wire(Eq)]
pub struct SwitchSkill {
    /// Whether models can see and load the skill.
    pub enabled: bool,
}

/// The answer of `POST /v1/skills/{name}`.
#[wire(Eq)]
pub struct SwitchedSkill {
    /// Name of the skill.
    pub name: String,
    /// Whether models can see and load the skill.
    pub enabled: bool,
}

/// An MCP server of the operator.
#[wire(Default, Eq)]
pub struct McpServerEntry {
    /// Name, unique in its list.
    pub name: String,
    /// Always `true`: all threads have the server.
    pub enabled: bool,
    /// Always `false`: turns run without the server.
    pub required: bool,
    /// Program of the server, without arguments and variables.
    pub command: Option<String>,
    /// Address of the server, without credentials, query and headers.
    pub url: Option<String>,
    /// Whether the daemon is connected to the server.
    pub connected: bool,
    /// Tools that are enabled; empty means all.
    pub enabled_tools: Vec<String>,
    /// Tools that are disabled.
    pub disabled_tools: Vec<String>,
}

/// The answer of `GET /v1/apps/mcp/servers`.
#[wire(Default, Eq)]
pub struct McpServerList {
    /// Configured servers by name.
    pub servers: Vec<McpServerEntry>,
}

/// A tool of an MCP server.
#[wire(Default)]
pub struct McpToolEntry {
    /// Name of the server in the configuration.
    pub server: String,
    /// Name of the tool on the server.
    pub name: String,
    /// Name of the tool for models.
    pub prefixed_name: String,
    /// Description from the server.
    pub description: Option<String>,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
}

/// Why tools of a server are missing.
#[wire(Default, Eq)]
pub struct McpServerFailure {
    /// Name of the server in the configuration.
    pub server: String,
    /// Error message for people.
    pub reason: String,
}

/// The answer of `GET /v1/apps/mcp/tools`.
#[wire(Default)]
pub struct McpToolList {
    /// Tools of the connected servers.
    pub tools: Vec<McpToolEntry>,
    /// Servers whose tools are missing, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<McpServerFailure>,
}
