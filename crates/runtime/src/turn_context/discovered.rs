//! Tools of MCP servers and instructions of the environment: requested before a turn begins, read from the record when one is resumed.

use std::sync::Arc;

use windlass_core::capabilities::ResolvedCapability;
use windlass_core::mcp::{
    DiscoveredTool, DiscoveredTools, EnvironmentDescription, McpFailure, McpScope, ScopedMcpServers,
};
use windlass_core::tools::{ToolDefinition, ToolPolicy};
use windlass_turn::Thread;

use super::Contributions;
use super::discovery_cache::DiscoveryKey;
use super::masked_tool::MaskedTool;
use super::turn_tools::McpToolsKey;
use crate::inner::Inner;
use crate::panics::{catch_panic, catch_panic_async};
use crate::secrets::{MIN_KEY_BYTES, Mask};

/// The source of a turn's MCP tools.
#[derive(Default)]
pub(crate) enum Discovery {
    /// The turn has none.
    #[default]
    Skip,
    /// The servers are queried. The description of the environment comes from the last record of the thread, if it has one.
    Ask(Arc<DiscoveredTools>),
    /// The recorded tools are used.
    Recorded(Arc<DiscoveredTools>),
}

impl Discovery {
    /// Returns the discovery that the open turn of a thread began with. The servers are queried again only if that record has been pruned.
    pub(crate) fn of_open_turn(thread: &Thread) -> Self {
        let recorded_digest = thread.turn().and_then(|turn| turn.discovered.as_deref());
        let recorded = thread.discovered();
        match recorded_digest {
            None => Self::Recorded(Arc::default()),
            Some(digest) if digest == recorded.digest => Self::Recorded(Arc::clone(recorded)),
            Some(_) => Self::Ask(Arc::clone(recorded)),
        }
    }
}

/// Discovered tools and instructions, and the keys to call the tools.
pub(super) struct TurnDiscovery {
    /// Tools of the servers and instructions of the environment; `None` if there is no server and no environment to query.
    pub(super) found: Option<Arc<DiscoveredTools>>,
    /// The keys that were passed to the servers.
    keys: Option<Arc<Mask>>,
}

impl TurnDiscovery {
    /// Queries the MCP servers of a turn, or uses the record.
    pub(super) async fn ask(
        inner: &Inner,
        servers: &ScopedMcpServers,
        scope: &McpScope,
        discovery: Discovery,
        contributions: &Contributions,
    ) -> Self {
        let mut keys = Vec::new();
        let connector = inner.mcp.as_ref();
        for (name, value) in connector
            .and_then(|connector| catch_panic(|| connector.secrets(servers)))
            .unwrap_or_default()
        {
            if value.len() >= MIN_KEY_BYTES {
                let secrets = &inner.secrets;
                keys.push(secrets.note_shared(scope.session_id, &name, &value));
            }
        }
        let keys = Mask::new(keys).map(Arc::new);
        let found = match discovery {
            Discovery::Skip => None,
            Discovery::Recorded(recorded) => Some(recorded),
            Discovery::Ask(last) => {
                let instructions = instructions(inner, contributions, scope).await;
                let description = description(inner, contributions, scope, &last).await;
                let found = match connector {
                    None => Arc::default(),
                    Some(connector) => {
                        let found = catch_panic_async(connector.discover(servers, scope)).await;
                        found.unwrap_or_else(|| Arc::new(panicked()))
                    }
                };
                let mask = inner.secrets.mask(scope.session_id);
                let key = DiscoveryKey::new(found, mask.as_ref(), instructions, description);
                Some(inner.discovery_cache.get_or_derive(key, |key| {
                    let found = match &mask {
                        Some(mask) => masked(mask, &key.found),
                        None => (*key.found).clone(),
                    };
                    found
                        .with_instructions(key.instructions.clone())
                        .with_description(key.description.clone())
                }))
            }
        };
        for failure in found.iter().flat_map(|found| &found.failures) {
            let (server, reason) = (&failure.server, &failure.reason);
            tracing::warn!(session = %scope.session_id, server, reason, "an MCP server is not completely available");
        }
        Self { found, keys }
    }

    /// Returns whether later turns may reuse the tools: not if they contain keys, which must be dropped with their session.
    pub(super) fn is_cacheable(&self) -> bool {
        self.with_tools().is_none() || self.keys.is_none()
    }

    /// Returns a key for the tools of the servers, if they offer any.
    pub(super) fn tools_key(
        &self,
        servers: &ScopedMcpServers,
        scope: &McpScope,
    ) -> Option<McpToolsKey> {
        self.with_tools().map(|found| McpToolsKey {
            found: Arc::clone(found),
            servers: servers.clone(),
            scope: scope.clone(),
        })
    }

    fn with_tools(&self) -> Option<&Arc<DiscoveredTools>> {
        self.found.as_ref().filter(|found| !found.tools.is_empty())
    }

    /// Adds the tools of MCP servers to those of a turn.
    pub(super) fn add_tools(
        &self,
        inner: &Inner,
        servers: &ScopedMcpServers,
        scope: &McpScope,
        contributions: &mut Contributions,
    ) {
        for recorded in self.found.iter().flat_map(|found| &found.tools) {
            let created = inner.mcp.as_ref().and_then(|connector| {
                catch_panic(|| {
                    let tool = connector.tool(recorded, servers, scope);
                    (tool.policy(), tool)
                })
            });
            let mut definition = recorded.definition.clone();
            let Some((policy, tool)) = created else {
                contributions.offer_recorded(definition);
                continue;
            };
            // A resumed turn requires approval if the operator requires it now.
            if policy == ToolPolicy::RequiresApproval
                && let ToolDefinition::Builtin(tool) = &mut definition
            {
                tool.policy = ToolPolicy::RequiresApproval;
            }
            contributions.offer_recorded(definition);
            let tool = match &self.keys {
                Some(keys) => Arc::new(MaskedTool {
                    tool,
                    keys: Arc::clone(keys),
                }),
                None => tool,
            };
            contributions.add_tool(recorded.definition.name(), tool);
        }
    }
}

/// Masks secrets in the servers' descriptions, which are recorded and logged.
fn masked(keys: &Mask, found: &DiscoveredTools) -> DiscoveredTools {
    let mut failures = found.failures.clone();
    for failure in &mut failures {
        keys.text(&mut failure.reason);
    }
    let mut tools = Vec::new();
    for tool in found.tools.iter().cloned() {
        match masked_definition(keys, &tool) {
            Some(definition) => tools.push(DiscoveredTool { definition, ..tool }),
            None => failures.push(McpFailure {
                server: tool.server,
                reason: "a tool is left out: its name shows a key".to_owned(),
            }),
        }
    }
    DiscoveredTools::new(tools, failures)
}

/// Returns the definition without keys; `None` if the name contains one, because the tool cannot be called under another name.
fn masked_definition(keys: &Mask, tool: &DiscoveredTool) -> Option<ToolDefinition> {
    if keys.replace(&mut tool.tool.clone()) {
        return None;
    }
    let mut definition = serde_json::to_value(&tool.definition).ok()?;
    if !keys.replace_in_value(&mut definition) {
        return Some(tool.definition.clone());
    }
    let definition: ToolDefinition = serde_json::from_value(definition).ok()?;
    (definition.name() == tool.definition.name()).then_some(definition)
}

/// Collects the instructions that capabilities have for the turn's environment. A capability that panics contributes none. Secrets in them are
/// masked, for example one that a command wrote to a file.
async fn instructions(
    inner: &Inner,
    contributions: &Contributions,
    scope: &McpScope,
) -> Option<String> {
    let mut texts = Vec::new();
    for ResolvedCapability { capability, config } in &contributions.capabilities {
        let asking = capability.environment_instructions(scope.environment.as_ref(), config);
        texts.extend(catch_panic_async(asking).await.flatten());
    }
    let mut text = (!texts.is_empty()).then(|| texts.join("\n\n"));
    if let Some(mask) = inner.secrets.mask(scope.session_id) {
        mask.optional(&mut text);
    }
    text
}

/// Returns the description of the turn's environment: the recorded one, or a new one if the thread has not worked there yet.
async fn description(
    inner: &Inner,
    contributions: &Contributions,
    scope: &McpScope,
    last: &DiscoveredTools,
) -> Option<EnvironmentDescription> {
    let recorded = last.description.as_ref();
    if let Some(recorded) = recorded.filter(|it| it.environment == scope.environment) {
        return Some(recorded.clone());
    }
    let mut texts = Vec::new();
    for ResolvedCapability { capability, config } in &contributions.capabilities {
        let asking = capability.describe_environment(scope.environment.as_ref(), config);
        texts.extend(catch_panic_async(asking).await.flatten());
    }
    let mut text = (!texts.is_empty()).then(|| texts.join("\n\n"));
    if let Some(mask) = inner.secrets.mask(scope.session_id) {
        mask.optional(&mut text);
    }
    text.map(|text| EnvironmentDescription {
        environment: scope.environment.clone(),
        text,
    })
}

fn panicked() -> DiscoveredTools {
    let failure = McpFailure {
        server: "*".to_owned(),
        reason: "the MCP connector panicked".to_owned(),
    };
    DiscoveredTools::new(Vec::new(), vec![failure])
}
