//! The tools of MCP servers and the words of the environment: asked for before a turn begins, read from the record when one goes on.

use std::sync::Arc;

use windlass_core::capabilities::ResolvedCapability;
use windlass_core::mcp::{DiscoveredTool, DiscoveredTools, McpFailure, McpScope, ScopedMcpServers};
use windlass_core::tools::{ToolDefinition, ToolPolicy};
use windlass_core::turn_environment::TurnEnvironment;
use windlass_turn::Thread;

use super::Contributions;
use super::masked_tool::MaskedTool;
use crate::inner::Inner;
use crate::panics::{caught, caught_in};
use crate::secrets::{MIN_KEY_BYTES, Mask, Secret};

/// Where the tools of MCP servers come from.
#[derive(Default)]
pub(crate) enum Discovery {
    /// From nowhere: the turn has none.
    #[default]
    Skip,
    /// From the servers.
    Ask,
    /// From the record.
    Recorded(Arc<DiscoveredTools>),
}

impl Discovery {
    /// Returns what the open turn of a thread began with. Only where that is no longer kept are the servers asked once more.
    pub(crate) fn of_open_turn(thread: &Thread) -> Self {
        let named = thread.turn().and_then(|turn| turn.discovered.as_deref());
        let kept = thread.discovered();
        match named {
            None => Self::Recorded(Arc::default()),
            Some(digest) if digest == kept.digest => Self::Recorded(Arc::clone(kept)),
            Some(_) => Self::Ask,
        }
    }
}

/// Adds the tools of MCP servers to a turn, and returns what they offer and what its environment has to say; `None` where nobody asks.
pub(super) async fn add(
    inner: &Inner,
    servers: &ScopedMcpServers,
    scope: &McpScope,
    discovery: Discovery,
    contributions: &mut Contributions,
) -> Option<Arc<DiscoveredTools>> {
    let Some(connector) = &inner.mcp else {
        return match discovery {
            Discovery::Skip => None,
            Discovery::Ask => {
                let words = instructions(contributions, scope.environment.as_ref()).await;
                Some(Arc::new(
                    DiscoveredTools::default().with_instructions(words),
                ))
            }
            Discovery::Recorded(recorded) => {
                for tool in &recorded.tools {
                    contributions.offer_recorded(tool.definition.clone());
                }
                Some(recorded)
            }
        };
    };
    let mut keys = Vec::new();
    for (name, value) in caught(|| connector.secrets(servers)).unwrap_or_default() {
        if value.len() >= MIN_KEY_BYTES {
            inner.secrets.note(scope.session_id, &name, &value);
            keys.push(Arc::new(Secret::new(&name, &value)));
        }
    }
    let keys = Mask::of(keys).map(Arc::new);
    let discovered = match discovery {
        Discovery::Skip => return None,
        Discovery::Recorded(recorded) => recorded,
        Discovery::Ask => {
            let words = instructions(contributions, scope.environment.as_ref()).await;
            let asked = caught_in(connector.discover(servers, scope)).await;
            let asked = asked.unwrap_or_else(panicked);
            let asked = match &keys {
                Some(keys) => masked(keys, asked),
                None => asked,
            };
            Arc::new(asked.with_instructions(words))
        }
    };
    for failure in &discovered.failures {
        let (server, reason) = (&failure.server, &failure.reason);
        tracing::warn!(session = %scope.session_id, server, reason, "something of an MCP server is missing");
    }
    for recorded in &discovered.tools {
        let made = caught(|| {
            let tool = connector.tool(recorded, servers, scope);
            (tool.policy(), tool)
        });
        let mut definition = recorded.definition.clone();
        let Some((policy, tool)) = made else {
            contributions.offer_recorded(definition);
            continue;
        };
        // A turn that goes on asks where the operator wants that now.
        if policy == ToolPolicy::RequiresApproval
            && let ToolDefinition::Builtin(tool) = &mut definition
        {
            tool.policy = ToolPolicy::RequiresApproval;
        }
        contributions.offer_recorded(definition);
        let tool = match &keys {
            Some(keys) => Arc::new(MaskedTool::new(tool, keys)),
            None => tool,
        };
        contributions.add_tool(recorded.definition.name(), tool);
    }
    Some(discovered)
}

/// Takes the keys of servers out of what they say of themselves, which is recorded and logged.
fn masked(keys: &Mask, found: DiscoveredTools) -> DiscoveredTools {
    let mut failures = found.failures;
    for failure in &mut failures {
        keys.text(&mut failure.reason);
    }
    let mut tools = Vec::new();
    for tool in found.tools {
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

/// Returns the definition without keys; `None` if the name shows one, for under another the tool could not be called.
fn masked_definition(keys: &Mask, tool: &DiscoveredTool) -> Option<ToolDefinition> {
    if keys.text(&mut tool.tool.clone()) {
        return None;
    }
    let mut definition = serde_json::to_value(&tool.definition).ok()?;
    if !keys.value(&mut definition) {
        return Some(tool.definition.clone());
    }
    let definition: ToolDefinition = serde_json::from_value(definition).ok()?;
    (definition.name() == tool.definition.name()).then_some(definition)
}

/// Asks the capabilities what the environment of the turn has to say. One that panics says nothing.
async fn instructions(
    contributions: &Contributions,
    environment: Option<&TurnEnvironment>,
) -> Option<String> {
    let mut said = Vec::new();
    for ResolvedCapability { capability, config } in &contributions.capabilities {
        let asking = capability.environment_instructions(environment, config);
        said.extend(caught_in(asking).await.flatten());
    }
    (!said.is_empty()).then(|| said.join("\n\n"))
}

fn panicked() -> DiscoveredTools {
    let failure = McpFailure {
        server: "*".to_owned(),
        reason: "the MCP connector panicked".to_owned(),
    };
    DiscoveredTools::new(Vec::new(), vec![failure])
}
