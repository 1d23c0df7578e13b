//! The reusable base of agents, and how harnesses inherit.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use windlass_macros::omit_none;

use crate::capability_types::AgentCapabilityConfig;
use crate::config_layer::AgentConfigOverlay;
use crate::mcp::ScopedMcpServers;
use crate::network_access::NetworkAccessList;
use crate::session_file::InitialFile;
use crate::typed_id::{HarnessId, ModelId};

text_enum! {
    /// Whether a record may be used.
    #[derive(Default)]
    HarnessStatus {
        /// Turns may use it.
        #[default]
        Active = "active",
        /// Read-only: turns are rejected.
        Archived = "archived",
        /// Removed: turns are rejected.
        Deleted = "deleted",
    }
}

/// A reusable base: prompt, capabilities, files, network rules.
#[omit_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Harness {
    /// Identifies the harness.
    pub id: HarnessId,
    /// The addressable name.
    pub name: String,
    /// The name to show.
    pub display_name: Option<String>,
    /// The purpose of the harness.
    pub description: Option<String>,
    /// The prompt it contributes.
    pub system_prompt: String,
    /// The harness it inherits from.
    pub parent_harness_id: Option<HarnessId>,
    /// The model, unless a later layer names one.
    pub default_model_id: Option<ModelId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The capabilities it enables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<AgentCapabilityConfig>,
    /// The files that sessions start with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub initial_files: Vec<InitialFile>,
    /// The hosts that tools may connect to.
    pub network_access: Option<NetworkAccessList>,
    /// MCP servers by name.
    #[serde(
        default,
        rename = "mcpServers",
        skip_serializing_if = "ScopedMcpServers::is_empty"
    )]
    pub mcp_servers: ScopedMcpServers,
    /// Whether it is part of the platform.
    #[serde(default)]
    pub is_built_in: bool,
    #[serde(default)]
    pub status: HarnessStatus,
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Returns the leaf of a chain with the configuration of the whole chain, root first.
#[must_use]
pub fn merge_harness_chain(chain: &[Harness]) -> Option<Harness> {
    let mut merged = chain.last()?.clone();
    let overlay = AgentConfigOverlay::fold(chain.iter().map(AgentConfigOverlay::from));
    merged.system_prompt = overlay.system_prompt.unwrap_or_default();
    merged.capabilities = overlay.capabilities;
    merged.initial_files = overlay.initial_files;
    merged.network_access = overlay.network_access;
    merged.default_model_id = overlay.default_model_id;
    merged.mcp_servers = overlay.mcp_servers;
    Some(merged)
}

/// Checks a name that users type: lower-case letters, digits and single dashes, at most 64 characters.
pub fn validate_addressable_name(name: &str) -> Result<(), String> {
    const MAX_CHARS: usize = 64;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if name.is_empty() {
        return Err("a name cannot be empty".into());
    }
    if name.chars().count() > MAX_CHARS {
        return Err(format!(
            "the name `{name}` is longer than {MAX_CHARS} characters"
        ));
    }
    if !name.chars().all(|c| plain(c) || c == '-') {
        return Err(format!(
            "the name `{name}` may contain only a-z, 0-9 and `-`"
        ));
    }
    if name.starts_with('-') || name.ends_with('-') || name.contains("--") {
        return Err(format!(
            "the name `{name}` may contain only single dashes between letters or digits"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addressable_names() {
        for good in ["a", "a-b", "math-2", "0"] {
            assert_eq!(validate_addressable_name(good), Ok(()), "{good}");
        }
        for bad in ["", "-a", "a-", "a--b", "A", "a_b", "é", &"a".repeat(65)] {
            assert!(validate_addressable_name(bad).is_err(), "{bad}");
        }
    }
}
