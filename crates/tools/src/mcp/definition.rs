//! Validates a server's tool definitions.

use std::time::Duration;

use rmcp::model::Tool as RawTool;
use serde_json::{Map, Value, json};
use windlass_core::bounds::{SchemaCost, json_bytes, lines, one_line, schema_cost};
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
pub(super) struct Offered {
    /// The server's name of the tool.
    pub(super) tool: String,
    /// Digest of the definition as the server sent it.
    pub(super) digest: String,
    pub(super) bytes: usize,
    /// Whether the server declares the tool as read-only.
    says_read_only: bool,
    description: String,
    parameters: Value,
}

impl Offered {
    /// Validates a tool definition; returns the reason if it is refused.
    pub(super) fn of(raw: &RawTool) -> Result<Self, String> {
        let name = raw.name.as_ref();
        let shown: String = one_line(name).chars().take(80).collect();
        let refused = |why: &str| format!("tool `{shown}` is left out: {why}");
        if name.is_empty() || name.len() > MAX_TOOL_NAME {
            return Err(refused("its name is empty or too long"));
        }
        if one_line(name) != name {
            return Err(refused("its name has letters that nobody can see"));
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
        let parameters = cleaned(schema).ok_or_else(|| {
            refused("its schema names properties with letters that nobody can see, or refers to other places")
        })?;
        let parameters = as_object(parameters).ok_or_else(|| refused("it takes no object"))?;
        let description = shortened(&lines(description));
        Ok(Self {
            tool: name.to_owned(),
            bytes: description.len() + json_bytes(&parameters) + name.len(),
            digest,
            says_read_only: raw
                .annotations
                .as_ref()
                .is_some_and(|says| says.read_only_hint == Some(true)),
            description,
            parameters,
        })
    }

    /// Returns the definition for the model and the runtime. The server's hints are ignored, except read-only if the operator trusts it: such calls
    /// take no checkpoints and need not wait for others.
    pub(super) fn discovered(
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
        let only_reads = server.trust_read_only && self.says_read_only;
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

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_DESCRIPTION) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Escapes invisible characters in all texts. Returns `None` if a property's name contains any, because it cannot be changed, or if a reference leads
/// outside the schema.
fn cleaned(value: Value) -> Option<Value> {
    Some(match value {
        Value::String(text) => Value::String(lines(&text).into_owned()),
        Value::Array(values) => {
            let values: Option<Vec<_>> = values.into_iter().map(cleaned).collect();
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
                clean.insert(name, cleaned(value)?);
            }
            Value::Object(clean)
        }
        other => other,
    })
}

/// Requires a schema of type object, because arguments are always an object.
fn as_object(mut schema: Value) -> Option<Value> {
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

    fn offered(raw: Value) -> Result<Offered, String> {
        Offered::of(&serde_json::from_value(raw).unwrap())
    }

    #[test]
    fn what_a_server_says_is_cleaned_and_cut() {
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
    fn what_cannot_be_taken_is_refused_with_a_reason() {
        let mut deep = json!({});
        for _ in 0..100 {
            deep = json!({ "properties": { "p": deep } });
        }
        for (raw, why) in [
            (json!({"name": "", "inputSchema": {}}), "empty"),
            (json!({"name": "a\nb", "inputSchema": {}}), "see"),
            (json!({"name": "a", "inputSchema": deep}), "deep"),
            (
                json!({"name": "a", "inputSchema": {"description": "x".repeat(MAX_SCHEMA)}}),
                "long",
            ),
            (
                json!({"name": "a", "inputSchema": {"properties": {"a\u{200b}": {}}}}),
                "see",
            ),
            (
                json!({"name": "a", "inputSchema": {"$ref": "http://127.0.0.1/"}}),
                "refers",
            ),
            (
                json!({"name": "a", "inputSchema": {"type": "string"}}),
                "object",
            ),
        ] {
            let told = offered(raw).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }

    #[test]
    fn tools_of_a_lazy_server_are_found_by_a_search() {
        for (tool_discovery, deferrable) in [
            (McpToolDiscovery::Eager, DeferrablePolicy::Automatic),
            (McpToolDiscovery::Lazy, DeferrablePolicy::Always),
        ] {
            let server = ScopedMcpServer {
                tool_discovery,
                ..ScopedMcpServer::default()
            };
            let tool = offered(json!({"name": "t", "inputSchema": {}})).unwrap();
            let tool = tool.discovered("s", &server, Duration::ZERO);
            assert_eq!(tool.definition.deferrable(), deferrable);
        }
    }

    #[test]
    fn hints_of_a_server_count_for_nothing() {
        let tool = offered(json!({
            "name": "t", "inputSchema": {},
            "annotations": {"readOnlyHint": true, "idempotentHint": true, "destructiveHint": false}
        }));
        let server = ScopedMcpServer::default();
        let tool = tool.unwrap().discovered("s", &server, Duration::ZERO);
        let hints = tool.definition.hints();
        assert_eq!(hints.side_effects(), SideEffectClass::AtMostOnce);
        assert_eq!((hints.readonly, hints.idempotent), (None, None));
        assert_eq!(tool.definition.policy(), ToolPolicy::RequiresApproval);
    }
}
