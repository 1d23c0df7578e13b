//! A cache of the tools of recent turns.
//!
//! Defining a hundred tools takes longer than the rest of a turn's setup, and the next turn usually has the same tools. So a turn reuses the tools of
//! an earlier one if its capabilities declare their tools stable and its MCP servers offer the same tools. Two kinds are always built anew: tools
//! that hooks may change, and tools of servers that were given keys, because the cache must not outlive the keys.

use std::sync::Arc;

use serde_json::Value;
use windlass_core::capabilities::{Capability, ResolvedCapability};
use windlass_core::config_layer::AgentConfigOverlay;
use windlass_core::digest::Digest128;
use windlass_core::error::Result;
use windlass_core::llm_driver_registry::LlmCallConfig;
use windlass_core::mcp::{DiscoveredTools, McpScope, ScopedMcpServers};
use windlass_core::recent_values::RecentValues;
use windlass_core::tools::{ClientSideTool, TOOL_SEARCH, ToolDefinition};
use windlass_core::turn_request::TurnRequest;

use super::tool_search::ToolSearch;
use super::{Contributions, SplitTools, TurnTools, guarded};
use crate::inner::Inner;

/// The inputs that determine the tools of MCP servers.
pub(super) struct McpToolsKey {
    pub(super) found: Arc<DiscoveredTools>,
    pub(super) servers: ScopedMcpServers,
    pub(super) scope: McpScope,
}

/// The inputs that determine a turn's tools, in addition to its capabilities and the runtime's settings.
pub(super) struct ToolsRequest<'a> {
    pub(super) overlay: &'a AgentConfigOverlay,
    pub(super) request: &'a TurnRequest,
    pub(super) model: &'a str,
    pub(super) effort: Option<&'a str>,
}

/// The owned form of [`ToolsRequest`], used as the key of a cached tool set.
pub(crate) struct ToolsKey {
    capabilities: Vec<(Arc<dyn Capability>, u64, Value)>,
    found: Option<McpToolsKey>,
    recorded: Vec<ToolDefinition>,
    added: Vec<ClientSideTool>,
    allowed: Option<Vec<String>>,
    disallowed: Vec<String>,
    approve_all: bool,
    has_backend: bool,
    model: String,
    effort: Option<String>,
}

impl ToolsRequest<'_> {
    /// Returns the cache key of the tools; `None` if a capability does not allow caching.
    pub(super) fn key(
        &self,
        contributions: &Contributions,
        found: Option<McpToolsKey>,
    ) -> Result<Option<ToolsKey>> {
        let mut capabilities = Vec::with_capacity(contributions.capabilities.len());
        for ResolvedCapability { capability, config } in &contributions.capabilities {
            let revision = guarded(capability.as_ref(), || capability.tools_revision())?;
            let Some(revision) = revision else {
                return Ok(None);
            };
            capabilities.push((Arc::clone(capability), revision, config.clone()));
        }
        Ok(Some(ToolsKey {
            capabilities,
            found,
            recorded: self.overlay.tools.clone(),
            added: self.request.tools.clone(),
            allowed: self.request.allowed_tools.clone(),
            disallowed: self.request.disallowed_tools.clone(),
            approve_all: self.request.approve_all,
            has_backend: self.request.backend.is_some(),
            model: self.model.to_owned(),
            effort: self.effort.map(str::to_owned),
        }))
    }

    /// Builds the tools from the contributions.
    pub(super) fn build(
        &self,
        inner: &Inner,
        contributions: &mut Contributions,
    ) -> Result<TurnTools> {
        let settings = &inner.settings;
        let approvals = &settings.approvals;
        let definitions = contributions.take_definitions(self.overlay, self.request, approvals)?;
        let SplitTools { offered, deferred } = match self.request.backend {
            Some(_) => SplitTools::without_deferral(definitions),
            None => contributions.split(definitions, self.request, settings)?,
        };
        let config = LlmCallConfig {
            model: self.model.to_owned(),
            reasoning_effort: self.effort.map(str::to_owned),
            tools: offered,
            ..LlmCallConfig::default()
        };
        let mut digest = Digest128::of_json(&config.tools);
        if !deferred.is_empty() {
            let deferred = Digest128::of_json(&deferred).to_string();
            digest = digest.chain(deferred.as_bytes());
        }
        let offer = inner.offers.shared(digest, config, deferred);
        if !offer.deferred.is_empty() {
            let search = ToolSearch {
                offer: Arc::clone(&offer),
                max_bytes: settings.max_tool_result_bytes,
            };
            contributions.add_tool(TOOL_SEARCH, Arc::new(search));
        }
        Ok(TurnTools {
            registry: Arc::clone(&contributions.tools),
            offer,
            digest,
        })
    }
}

impl ToolsKey {
    /// Returns whether only turns of one session can have these tools.
    pub(super) fn is_of_session(&self) -> bool {
        self.found.is_some()
    }
}

impl PartialEq for McpToolsKey {
    fn eq(&self, other: &Self) -> bool {
        // Pointer equality means that nothing has changed.
        Arc::ptr_eq(&self.found, &other.found)
            && self.scope == other.scope
            && self.servers == other.servers
    }
}

impl PartialEq for ToolsKey {
    fn eq(&self, other: &Self) -> bool {
        let mut pairs = self.capabilities.iter().zip(&other.capabilities);
        self.capabilities.len() == other.capabilities.len()
            && pairs.all(
                |((one, revision, config), (other, of_other, other_config))| {
                    Arc::ptr_eq(one, other) && revision == of_other && config == other_config
                },
            )
            && self.found == other.found
            && self.approve_all == other.approve_all
            && self.has_backend == other.has_backend
            && self.model == other.model
            && self.effort == other.effort
            && self.allowed == other.allowed
            && self.disallowed == other.disallowed
            && self.recorded == other.recorded
            && self.added == other.added
    }
}

/// The tools of recent turns.
pub(crate) type ToolSetCache = RecentValues<ToolsKey, TurnTools>;
