//! Merging the harness chain, the agent and the session into one configuration.

use crate::agent::Agent;
use crate::capability_types::AgentCapabilityConfig;
use crate::harness::Harness;
use crate::mcp::ScopedMcpServers;
use crate::network_access::{NetworkAccessList, merge_network_access};
use crate::session::Session;
use crate::session_file::InitialFile;
use crate::session_path;
use crate::tool_types::ToolDefinition;
use crate::typed_id::ModelId;

/// One layer of configuration, or the sum of several.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentConfigOverlay {
    /// The prompt, trimmed; `None` when there is none.
    pub system_prompt: Option<String>,
    /// The enabled capabilities.
    pub capabilities: Vec<AgentCapabilityConfig>,
    /// The files that a session starts with.
    pub initial_files: Vec<InitialFile>,
    /// The hosts that tools may connect to.
    pub network_access: Option<NetworkAccessList>,
    pub default_model_id: Option<ModelId>,
    /// Tools that the client runs.
    pub tools: Vec<ToolDefinition>,
    /// The limit of model calls in a turn.
    pub max_iterations: Option<usize>,
    /// MCP servers by name.
    pub mcp_servers: ScopedMcpServers,
}

impl AgentConfigOverlay {
    /// Merges a layer on top of this one.
    #[must_use]
    pub fn merge(mut self, overlay: Self) -> Self {
        self.system_prompt = join_prompts(self.system_prompt, overlay.system_prompt);
        for capability in overlay.capabilities {
            put(&mut self.capabilities, capability, |it| {
                it.capability_ref.clone()
            });
        }
        for file in overlay.initial_files {
            put(&mut self.initial_files, file, file_key);
        }
        self.network_access = merge_network_access(
            self.network_access.as_ref(),
            overlay.network_access.as_ref(),
        );
        self.default_model_id = overlay.default_model_id.or(self.default_model_id);
        self.tools.extend(overlay.tools);
        self.max_iterations = overlay.max_iterations.or(self.max_iterations);
        self.mcp_servers.extend(overlay.mcp_servers);
        self
    }

    /// Merges layers, the lowest first.
    pub fn fold(layers: impl IntoIterator<Item = Self>) -> Self {
        layers.into_iter().fold(Self::default(), Self::merge)
    }
}

/// Replaces the entry with the same key, else appends.
fn put<T, K: PartialEq>(entries: &mut Vec<T>, entry: T, key: impl Fn(&T) -> K) {
    let wanted = key(&entry);
    match entries.iter_mut().find(|old| key(old) == wanted) {
        Some(old) => *old = entry,
        None => entries.push(entry),
    }
}

/// The key of a file. A path that is rejected later is used as written.
fn file_key(file: &InitialFile) -> String {
    session_path::normalize(&file.path).unwrap_or_else(|_| file.path.clone())
}

fn trimmed(prompt: &str) -> Option<String> {
    let prompt = prompt.trim();
    (!prompt.is_empty()).then(|| prompt.to_owned())
}

fn join_prompts(lower: Option<String>, upper: Option<String>) -> Option<String> {
    let upper = upper.as_deref().and_then(trimmed);
    match (lower.as_deref().and_then(trimmed), upper) {
        (Some(lower), Some(upper)) => Some(format!("{lower}\n\n{upper}")),
        (lower, upper) => lower.or(upper),
    }
}

impl From<&Harness> for AgentConfigOverlay {
    fn from(harness: &Harness) -> Self {
        Self {
            system_prompt: trimmed(&harness.system_prompt),
            capabilities: harness.capabilities.clone(),
            initial_files: harness.initial_files.clone(),
            network_access: harness.network_access.clone(),
            default_model_id: harness.default_model_id,
            tools: Vec::new(),
            max_iterations: None,
            mcp_servers: harness.mcp_servers.clone(),
        }
    }
}

impl From<&Agent> for AgentConfigOverlay {
    fn from(agent: &Agent) -> Self {
        Self {
            system_prompt: trimmed(&agent.system_prompt),
            capabilities: agent.capabilities.clone(),
            initial_files: agent.initial_files.clone(),
            network_access: agent.network_access.clone(),
            default_model_id: agent.default_model_id,
            tools: agent.tools.clone(),
            max_iterations: agent.max_iterations,
            mcp_servers: agent.mcp_servers.clone(),
        }
    }
}

impl From<&Session> for AgentConfigOverlay {
    fn from(session: &Session) -> Self {
        Self {
            system_prompt: session.system_prompt.as_deref().and_then(trimmed),
            capabilities: session.capabilities.clone(),
            initial_files: session.initial_files.clone(),
            network_access: session.network_access.clone(),
            default_model_id: session.model_id,
            tools: session.tools.clone(),
            max_iterations: session.max_iterations,
            mcp_servers: session.mcp_servers.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, content: &str) -> InitialFile {
        InitialFile {
            path: path.into(),
            content: content.into(),
            encoding: "text".into(),
            is_readonly: false,
        }
    }

    #[test]
    fn layers_are_merged() {
        let lower = AgentConfigOverlay {
            system_prompt: Some(" p ".into()),
            capabilities: vec!["a".into(), "b".into()],
            initial_files: vec![file("/workspace/x", "1"), file("/y", "2")],
            max_iterations: Some(3),
            ..AgentConfigOverlay::default()
        };
        let upper = AgentConfigOverlay {
            system_prompt: Some("a\n".into()),
            capabilities: vec![
                AgentCapabilityConfig::with_config("a", serde_json::json!({"k": 1})),
                "c".into(),
            ],
            initial_files: vec![file("x", "3")],
            ..AgentConfigOverlay::default()
        };
        let sum = AgentConfigOverlay::fold([lower, upper]);
        assert_eq!(sum.system_prompt.as_deref(), Some("p\n\na"));
        let ids: Vec<_> = sum
            .capabilities
            .iter()
            .map(AgentCapabilityConfig::capability_id)
            .collect();
        assert_eq!(ids, ["a", "b", "c"]);
        assert_eq!(sum.capabilities[0].config["k"], 1);
        let contents: Vec<_> = sum
            .initial_files
            .iter()
            .map(|f| f.content.as_str())
            .collect();
        assert_eq!(contents, ["3", "2"]);
        assert_eq!(sum.max_iterations, Some(3));
    }
}
