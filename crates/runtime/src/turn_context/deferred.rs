//! Decides which tools are offered to a model at once, and which only after it has found them.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use serde_json::json;
use windlass_core::tools::{
    BuiltinTool, DeferrablePolicy, SideEffectClass, TOOL_SEARCH, ToolDefinition, ToolHints,
};

/// Maximum number of groups of deferred tools that the prompt lists by name.
const MAX_GROUPS: usize = 32;

/// The offered and the deferred tools of a turn.
#[derive(Debug, Default)]
pub(crate) struct SplitTools {
    /// Tools that are offered at once.
    pub(crate) offered: Vec<ToolDefinition>,
    /// Tools that are offered after they are found.
    pub(crate) deferred: Vec<ToolDefinition>,
}

impl SplitTools {
    /// Offers everything at once.
    pub(crate) fn without_deferral(offered: Vec<ToolDefinition>) -> Self {
        Self {
            offered,
            deferred: Vec::new(),
        }
    }

    /// Defers tools that are always deferred, and those of a capability with more than `defer_above` tools. All MCP servers count as one capability.
    pub(super) fn new(definitions: Vec<ToolDefinition>, defer_above: Option<usize>) -> Self {
        let mut counts: HashMap<Option<&str>, usize> = HashMap::new();
        for tool in definitions.iter().filter(|tool| is_automatic(tool)) {
            *counts.entry(capability_of(tool)).or_default() += 1;
        }
        let is_many = |tool: &ToolDefinition| {
            let count = counts.get(&capability_of(tool)).copied().unwrap_or(0);
            defer_above.is_some_and(|most| count > most)
        };
        let is_deferred = |tool: &ToolDefinition| match tool.deferrable() {
            DeferrablePolicy::Never => false,
            DeferrablePolicy::Automatic => is_many(tool),
            DeferrablePolicy::Always => true,
        };
        let deferred: Vec<bool> = definitions.iter().map(is_deferred).collect();
        let mut split = Self::default();
        for (tool, is_deferred) in definitions.into_iter().zip(deferred) {
            if is_deferred {
                split.deferred.push(tool)
            } else {
                split.offered.push(tool)
            }
        }
        if !split.deferred.is_empty() {
            split.offered.push(search_tool(&split.deferred));
        }
        split
    }
}

fn is_automatic(tool: &ToolDefinition) -> bool {
    tool.deferrable() == DeferrablePolicy::Automatic
}

fn capability_of(tool: &ToolDefinition) -> Option<&str> {
    tool.hints().capability_id.as_deref()
}

/// Returns the definition of the search tool. It does not depend on the tools found so far, so a provider's prompt cache stays valid.
fn search_tool(deferred: &[ToolDefinition]) -> ToolDefinition {
    let hints = ToolHints::default()
        .with_readonly(true)
        .with_idempotent(true)
        .with_side_effect_class(SideEffectClass::Pure);
    ToolDefinition::Builtin(BuiltinTool {
        name: TOOL_SEARCH.to_owned(),
        description: description(deferred),
        parameters: schema(),
        deferrable: DeferrablePolicy::Never,
        hints,
        ..BuiltinTool::default()
    })
}

pub(super) fn schema() -> serde_json::Value {
    json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "A few words of what the tool does, or of its name."},
            "limit": {"type": "integer", "minimum": 1, "description": "Maximum number of tools to return; 8 by default, 20 at most."},
        },
        "required": ["query"],
    })
}

fn description(deferred: &[ToolDefinition]) -> String {
    let mut groups: BTreeMap<&str, usize> = BTreeMap::new();
    for tool in deferred {
        *groups.entry(group_of(tool)).or_default() += 1;
    }
    let mut text = format!(
        "Finds tools that are not in your list. There are {} of them:",
        deferred.len()
    );
    for (n, (group, count)) in groups.iter().take(MAX_GROUPS).enumerate() {
        let comma = if n > 0 { "," } else { "" };
        let _ = write!(text, "{comma} {group} ({count})");
    }
    if groups.len() > MAX_GROUPS {
        let _ = write!(text, ", and {} more groups", groups.len() - MAX_GROUPS);
    }
    text += ". Search by words of their names and descriptions. You can call what is found from your next step on.";
    text
}

/// The namespace or server of a tool, as displayed.
fn group_of(tool: &ToolDefinition) -> &str {
    let shown = tool.display_name().and_then(|name| name.split_once("::"));
    let group = shown.map(|(group, _)| group).or_else(|| tool.category());
    group.unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(n: usize, deferrable: DeferrablePolicy, capability: Option<&str>) -> ToolDefinition {
        let mut tool = BuiltinTool {
            name: format!("tool_{n}"),
            display_name: Some(format!("ship{}::tool_{n}", n % 2)),
            deferrable,
            ..BuiltinTool::default()
        };
        tool.hints.capability_id = capability.map(str::to_owned);
        ToolDefinition::Builtin(tool)
    }

    fn many(count: usize, deferrable: DeferrablePolicy) -> Vec<ToolDefinition> {
        let tools = (0..count).map(|n| tool(n, deferrable, Some("mcp")));
        tools.collect()
    }

    #[test]
    fn tools_are_deferred_by_policy_and_count() {
        for (count, deferrable, above, deferred) in [
            (30, DeferrablePolicy::Never, Some(24), 0),
            (24, DeferrablePolicy::Automatic, Some(24), 0),
            (25, DeferrablePolicy::Automatic, Some(24), 25),
            (90, DeferrablePolicy::Automatic, None, 0),
            (1, DeferrablePolicy::Always, None, 1),
        ] {
            let split = SplitTools::new(many(count, deferrable), above);
            let searches = usize::from(deferred > 0);
            let counts = (split.deferred.len(), split.offered.len());
            assert_eq!(
                counts,
                (deferred, count - deferred + searches),
                "{deferrable:?}"
            );
        }
    }

    #[test]
    fn small_capability_is_not_deferred_next_to_a_large_one() {
        let mut tools = many(40, DeferrablePolicy::Automatic);
        tools.push(tool(99, DeferrablePolicy::Automatic, Some("files")));
        let split = SplitTools::new(tools, Some(24));
        let names: Vec<_> = split.offered.iter().map(ToolDefinition::name).collect();
        assert_eq!(names, ["tool_99", TOOL_SEARCH]);
    }

    #[test]
    fn search_tool_lists_groups_and_counts() {
        let tools = many(5, DeferrablePolicy::Always);
        let text = description(&tools);
        assert!(
            text.contains("There are 5 of them: ship0 (3), ship1 (2)."),
            "{text}"
        );
        let tools: Vec<_> = (0..1_000)
            .map(|n| ToolDefinition::client_side("t", "", json!({})).with_category(format!("g{n}")))
            .collect();
        let text = description(&tools);
        assert!(
            text.contains("and 968 more groups") && text.len() < 1_000,
            "{text}"
        );
    }
}
