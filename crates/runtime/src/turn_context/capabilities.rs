//! The contributions of the enabled capabilities to a turn.

use std::sync::Arc;

use windlass_core::atoms::{
    ModelViewProvider, OutputGuardrail, PostToolExecHook, PreToolUseHook, ToolCallHook,
    ToolDefinitionHook,
};
use windlass_core::capabilities::{Capability, ResolvedCapability, resolve_capabilities};
use windlass_core::config_layer::AgentConfigOverlay;
use windlass_core::digest::Digest128;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::mcp::ScopedMcpServers;
use windlass_core::message_filter::MessageFilterProvider;
use windlass_core::tools::{TOOL_SEARCH, Tool, ToolDefinition, ToolRegistry};
use windlass_core::turn_request::TurnRequest;
use windlass_policy::ApprovalRules;

use super::{Offer, SplitTools};
use crate::inner::Inner;
use crate::panics::catch_panic;
use crate::settings::RuntimeSettings;

/// A contribution that applies to messages, with its capability's configuration.
pub(crate) struct ConfiguredPart<T: ?Sized> {
    pub(crate) part: Arc<T>,
    pub(crate) config: serde_json::Value,
}

impl<T: ?Sized> ConfiguredPart<T> {
    fn new(part: Arc<T>, config: &serde_json::Value) -> Self {
        let config = config.clone();
        Self { part, config }
    }
}

/// The contributions of the enabled capabilities to a turn.
#[derive(Default)]
pub(crate) struct Contributions {
    pub(crate) capabilities: Vec<ResolvedCapability>,
    pub(crate) tools: Arc<ToolRegistry>,
    pub(crate) pre_tool_use: Vec<Arc<dyn PreToolUseHook>>,
    pub(crate) post_tool_exec: Vec<Arc<dyn PostToolExecHook>>,
    pub(crate) tool_call: Vec<Arc<dyn ToolCallHook>>,
    pub(crate) filters: Vec<ConfiguredPart<dyn MessageFilterProvider>>,
    pub(crate) views: Vec<ConfiguredPart<dyn ModelViewProvider>>,
    pub(crate) guardrails: Vec<Arc<dyn OutputGuardrail>>,
    pub(crate) mcp_servers: ScopedMcpServers,
    definition_hooks: Vec<Arc<dyn ToolDefinitionHook>>,
    offered: Vec<ToolDefinition>,
}

/// The tools of a turn: those that can be called, and those that are offered to the model.
pub(crate) struct TurnTools {
    pub(crate) registry: Arc<ToolRegistry>,
    pub(crate) offer: Arc<Offer>,
    /// Digest of the offered definitions.
    pub(crate) digest: Digest128,
}

impl Contributions {
    /// Collects everything but the tools from each capability once.
    pub(crate) fn collect(
        inner: &Inner,
        overlay: &AgentConfigOverlay,
        model: &str,
    ) -> Result<Self> {
        let registry = inner.platform.capability_registry();
        let resolved = catch_panic(|| resolve_capabilities(registry, &overlay.capabilities))
            .ok_or_else(|| {
                AgentLoopError::config("a capability panicked while it was read_thread up")
            })??;
        let mut parts = Self::default();
        for ResolvedCapability { capability, config } in resolved {
            let for_model = guarded(capability.as_ref(), || capability.resolve_for_model(model))?;
            let capability = for_model.unwrap_or(capability);
            guarded(&*capability, || parts.add(&*capability, &config))?;
            let resolved = ResolvedCapability { capability, config };
            parts.capabilities.push(resolved);
        }
        parts.filters.sort_by_key(|filter| filter.part.priority());
        Ok(parts)
    }

    /// Collects the tools from each capability once.
    pub(crate) fn collect_tools(&mut self) -> Result<()> {
        let mut registry = ToolRegistry::new();
        for ResolvedCapability { capability, config } in &self.capabilities {
            let capability = capability.as_ref();
            let offered = &mut self.offered;
            guarded(capability, || {
                for tool in capability.tools_with_config(config) {
                    offered.push(labelled(tool.to_definition(), capability));
                    registry.register_boxed(tool);
                }
                let definitions = capability.tool_definitions().into_iter();
                offered.extend(definitions.map(|tool| labelled(tool, capability)));
            })?;
        }
        self.tools = Arc::new(registry);
        Ok(())
    }

    /// Returns whether a hook changes the offered tools, possibly differently each time.
    pub(crate) fn has_definition_hooks(&self) -> bool {
        !self.definition_hooks.is_empty()
    }

    fn add(&mut self, capability: &dyn Capability, config: &serde_json::Value) {
        self.pre_tool_use
            .extend(capability.pre_tool_use_hooks_with_config(config));
        self.post_tool_exec
            .extend(capability.post_tool_exec_hooks());
        self.tool_call.extend(capability.tool_call_hooks());
        self.definition_hooks
            .extend(capability.tool_definition_hooks_with_config(config));
        self.guardrails.extend(capability.output_guardrails());
        self.mcp_servers
            .extend(capability.mcp_servers_with_config(config));
        let filter = capability.message_filter_provider();
        self.filters
            .extend(filter.map(|part| ConfiguredPart::new(part, config)));
        let view = capability.model_view_provider();
        self.views
            .extend(view.map(|part| ConfiguredPart::new(part, config)));
    }

    /// Offers a recorded tool of an MCP server. An existing tool with the same name stays.
    pub(crate) fn offer_recorded(&mut self, tool: ToolDefinition) {
        let mut earlier = self.offered.iter();
        if !earlier.any(|earlier| earlier.name() == tool.name()) {
            self.offered.push(tool);
        }
    }

    /// Adds a callable tool. An existing tool with the same name stays.
    pub(crate) fn add_tool(&mut self, name: &str, tool: Arc<dyn Tool>) {
        if !self.tools.has(name) {
            Arc::make_mut(&mut self.tools).register_arc(tool);
        }
    }

    /// Returns the definitions that are offered to the model: first of capabilities, then of records. A later one replaces an earlier one of the same
    /// name.
    pub(crate) fn take_definitions(
        &mut self,
        overlay: &AgentConfigOverlay,
        request: &TurnRequest,
        approvals: &ApprovalRules,
    ) -> Result<Vec<ToolDefinition>> {
        let mut offered: Vec<ToolDefinition> = Vec::new();
        let of_capabilities = std::mem::take(&mut self.offered).into_iter();
        for tool in of_capabilities.chain(overlay.tools.iter().cloned()) {
            let mut earlier = offered.iter_mut();
            match earlier.find(|earlier| earlier.name() == tool.name()) {
                Some(earlier) => *earlier = tool,
                None => offered.push(tool),
            }
        }
        for hook in &self.definition_hooks {
            offered = catch_panic(|| hook.transform(offered))
                .ok_or_else(|| AgentLoopError::config("a tool definition hook panicked"))?;
        }
        offered.retain(|tool| !approvals.refuses_all_of(tool.name()));
        Ok(request.apply(offered))
    }

    /// Removes deferred tools from the offer. If the search tool is refused, nothing is deferred, because nothing could be found.
    pub(crate) fn split(
        &self,
        definitions: Vec<ToolDefinition>,
        request: &TurnRequest,
        settings: &RuntimeSettings,
    ) -> Result<SplitTools> {
        let refused = settings.approvals.refuses_all_of(TOOL_SEARCH);
        if refused || request.disallows(TOOL_SEARCH) {
            return Ok(SplitTools::without_deferral(definitions));
        }
        let has_name_clash = definitions.iter().any(|tool| tool.name() == TOOL_SEARCH);
        let split = SplitTools::new(definitions, settings.defer_above);
        if split.deferred.is_empty() || !(has_name_clash || self.tools.has(TOOL_SEARCH)) {
            Ok(split)
        } else {
            Err(AgentLoopError::config(format!(
                "a tool is called `{TOOL_SEARCH}`, which is what finds deferred tools: give it another name, or defer none"
            )))
        }
    }
}

fn labelled(mut tool: ToolDefinition, capability: &dyn Capability) -> ToolDefinition {
    let hints = tool.hints_mut();
    hints
        .capability_id
        .get_or_insert_with(|| capability.id().to_owned());
    hints
        .capability_name
        .get_or_insert_with(|| capability.name().to_owned());
    match (tool.category(), capability.category()) {
        (None, Some(category)) => tool.with_category(category),
        _ => tool,
    }
}

/// A panic in a capability is a configuration error and does not end the thread.
pub(crate) fn guarded<T>(capability: &dyn Capability, ask: impl FnOnce() -> T) -> Result<T> {
    catch_panic(ask)
        .ok_or_else(|| AgentLoopError::config(format!("capability `{}` panicked", capability.id())))
}
