//! Validates a server's tool definitions.

use std::time::Duration;

use rmcp::model::Tool as RawTool;
use serde_json::{Map, Value, json};
use windlass_core::bounds::{SchemaCost, json_bytes, lines, one_line, schema_cost, shortened};
use windlass_core::digest::Digest128;
use windlass_core::mcp::{
    DiscoveredTool, McpApproval, McpToolDiscovery, McpTransportType, ScopedMcpServer,
};
use windlass_core::tools::{
    BuiltinTool, DeferrablePolicy, SideEffectClass, ToolDefinition, ToolHints, ToolPolicy,
};

use super::names::tool_name;
use crate::tool::CHANGES;

/// Maximum number of characters of a description; the rest is truncated.
const MAX_DESCRIPTION: usize = 4096;
/// Maximum length in bytes of the server's name of a tool.
const MAX_TOOL_NAME: usize = 256;
/// Maximum size of a schema in bytes.
const MAX_SCHEMA: usize = 64 * 1024;

/// A tool that a server offers.
#[derive(Debug, PartialEq)]
pub(super) struct OfferedTool {
    /// The server's name of the tool.
    pub(super) tool: String,
    /// Digest of the definition as the server sent it.
    pub(super) digest: String,
    pub(super) bytes: usize,
    /// Whether the server declares the tool as read-only.
    declares_read_only: bool,
    description: String,
    parameters: Value,
}

impl OfferedTool {
    /// Validates a tool definition; returns the reason if it is refused.
    pub(super) fn new(raw: &RawTool) -> Result<Self, String> {
        let name = raw.name.as_ref();
        let shown: String = one_line(name).chars().take(80).collect();
        let refused = |why: &str| format!("tool `{shown}` is left out: {why}");
        if name.is_empty() || name.len() > MAX_TOOL_NAME {
            return Err(refused("its name is empty or too long"));
        }
        if one_line(name) != name {
            return Err(refused("its name contains invisible characters"));
        }
        let schema = Value::Object((*raw.input_schema).clone());
        // Checked before the schema is traversed, because it may be nested to any depth.
        if schema_cost(&schema) == SchemaCost::TooLarge {
            return Err(refused("its schema is too large or nested too deep"));
        }
        if json_bytes(&schema) > MAX_SCHEMA {
            return Err(refused("its schema is too long"));
        }
        let description = raw.description.as_deref().unwrap_or_default();
        let digest = Digest128::of_json(&(name, description, &schema)).to_string();
        let parameters = escape_texts(schema).ok_or_else(|| {
            refused("its schema has property names with invisible characters, or references outside the schema")
        })?;
        let parameters =
            require_object(parameters).ok_or_else(|| refused("its arguments are not an object"))?;
        let description = shortened(&lines(description), MAX_DESCRIPTION);
        Ok(Self {
            tool: name.to_owned(),
            bytes: description.len() + json_bytes(&parameters) + name.len(),
            digest,
            declares_read_only: raw
                .annotations
                .as_ref()
                .is_some_and(|annotations| annotations.read_only_hint == Some(true)),
            description,
            parameters,
        })
    }

    /// Returns the definition for the model and the runtime. The server's hints are ignored, except read-only if the operator trusts it: such calls
    /// take no checkpoints and need not wait for others.
    pub(super) fn to_discovered(
        &self,
        name: &str,
        server: &ScopedMcpServer,
        timeout: Duration,
    ) -> DiscoveredTool {
        let mut hints = ToolHints::default()
            .with_open_world(true)
            .with_long_running(true)
            .with_side_effect_class(SideEffectClass::AtMostOnce)
            .with_timeout_ms(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX))
            .with_capability_id("mcp")
            .with_capability_name("MCP");
        let only_reads = server.trust_read_only && self.declares_read_only;
        if server.transport_type == McpTransportType::Stdio && !only_reads {
            // A local server's program works in the root of the environment, like a command.
            hints = hints.with_concurrency_class(CHANGES);
        }
        let definition = BuiltinTool {
            name: tool_name(name, &self.tool),
            display_name: Some(format!("{}::{}", one_line(name), self.tool)),
            description: self.description.clone(),
            parameters: self.parameters.clone(),
            policy: match server.approval {
                McpApproval::Ask => ToolPolicy::RequiresApproval,
                McpApproval::Never => ToolPolicy::Auto,
            },
            category: Some("MCP".to_owned()),
            deferrable: match server.tool_discovery {
                McpToolDiscovery::Eager => DeferrablePolicy::Automatic,
                McpToolDiscovery::Lazy => DeferrablePolicy::Always,
            },
            hints,
        };
        DiscoveredTool {
            server: name.to_owned(),
            tool: self.tool.clone(),
            digest: self.digest.clone(),
            definition: ToolDefinition::Builtin(definition),
        }
    }
}

/// Escapes invisible characters in all texts. Returns `None` if a property's name contains any, because it cannot be changed, or if a reference leads
/// outside the schema.
fn escape_texts(value: Value) -> Option<Value> {
    Some(match value {
        Value::String(text) => Value::String(lines(&text).into_owned()),
        Value::Array(values) => {
            let values: Option<Vec<_>> = values.into_iter().map(escape_texts).collect();
            Value::Array(values?)
        }
        Value::Object(object) => {
            let mut clean = Map::new();
            for (name, value) in object {
                let leads_out = name == "$ref"
                    && value
                        .as_str()
                        .is_some_and(|target| !target.starts_with('#'));
                if one_line(&name) != name || leads_out {
                    return None;
                }
                clean.insert(name, escape_texts(value)?);
            }
            Value::Object(clean)
        }
        other => other,
    })
}

/// Requires a schema of type object, because arguments are always an object.
fn require_object(mut schema: Value) -> Option<Value> {
    match schema.get("type") {
        None => schema["type"] = json!("object"),
        Some(kind) if kind == "object" => {}
        Some(_) => return None,
    }
    Some(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(raw: Value) -> Result<OfferedTool, String> {
        OfferedTool::new(&serde_json::from_value(raw).unwrap())
    }

    #[test]
    fn descriptions_are_escaped_and_truncated() {
        let long = "x".repeat(10_000);
        let tool = offered(json!({
            "name": "t",
            "description": format!("a\u{1b}[2Jb\u{202e}{long}"),
            "inputSchema": {"properties": {"p": {"description": "c\u{0}d"}}}
        }));
        let tool = tool.unwrap();
        assert!(!tool.description.contains(['\u{1b}', '\u{202e}']));
        assert_eq!(tool.description.chars().count(), MAX_DESCRIPTION + 1);
        assert!(!tool.parameters.to_string().contains("\\u0000"));
        assert_eq!(tool.parameters["type"], "object");
    }

    #[test]
    fn invalid_definition_is_refused_with_a_reason() {
        let mut deep = json!({});
        for _ in 0..100 {
            deep = json!({ "properties": { "p": deep } });
        }
        for (raw, why) in [
            (json!({"name": "", "inputSchema": {}}), "empty"),
            (json!({"name": "a\nb", "inputSchema": {}}), "invisible"),
            (json!({"name": "a", "inputSchema": deep}), "deep"),
            (
                json!({"name": "a", "inputSchema": {"description": "x".repeat(MAX_SCHEMA)}}),
                "long",
            ),
            (
                json!({"name": "a", "inputSchema": {"properties": {"a\u{200b}": {}}}}),
                "invisible",
            ),
            (
                json!({"name": "a", "inputSchema": {"$ref": "http://127.0.0.1/"}}),
                "outside",
            ),
            (
                json!({"name": "a", "inputSchema": {"type": "string"}}),
                "object",
            ),
        ] {
            let refused = offered(raw).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn tools_of_a_lazy_server_are_deferred() {
        for (tool_discovery, deferrable) in [
            (McpToolDiscovery::Eager, DeferrablePolicy::Automatic),
            (McpToolDiscovery::Lazy, DeferrablePolicy::Always),
        ] {
            let server = ScopedMcpServer {
                tool_discovery,
                ..ScopedMcpServer::default()
            };
            let tool = offered(json!({"name": "t", "inputSchema": {}})).unwrap();
            let tool = tool.to_discovered("s", &server, Duration::ZERO);
            assert_eq!(tool.definition.deferrable(), deferrable);
        }
    }

    #[test]
    fn hints_of_a_server_are_ignored() {
        let tool = offered(json!({
            "name": "t", "inputSchema": {},
            "annotations": {"readOnlyHint": true, "idempotentHint": true, "destructiveHint": false}
        }));
        let server = ScopedMcpServer::default();
        let tool = tool.unwrap().to_discovered("s", &server, Duration::ZERO);
        let hints = tool.definition.hints();
        assert_eq!(hints.side_effects(), SideEffectClass::AtMostOnce);
        assert_eq!((hints.readonly, hints.idempotent), (None, None));
        assert_eq!(tool.definition.policy(), ToolPolicy::RequiresApproval);
    }
}
