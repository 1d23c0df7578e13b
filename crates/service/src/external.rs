//! Tools that clients register: validation, and the names that the model sees.

use std::collections::{BTreeMap, HashSet};

use serde_json::json;
use windlass_core::tools::{ClientSideTool, DeferrablePolicy, ToolHints};
use windlass_protocol::{DynamicToolSpec, ErrorCode};
use windlass_runtime::check_schema;

use crate::error::{ApiError, Result};

/// Maximum number of client tools per turn.
const MAX_TOOLS: usize = 128;
/// Maximum size of a schema.
const MAX_SCHEMA_BYTES: usize = 64 * 1024;
/// Allowed timeout of a call in milliseconds.
const WAITS: std::ops::RangeInclusive<u64> = 1_000..=24 * 60 * 60 * 1_000;
/// Maximum name length that all providers accept.
const MAX_NAME: usize = 64;
/// Characters of an overlong name before its digest.
const NAME_PREFIX: usize = 55;

/// Splits a canonical name into the namespace and name that the tool was registered with.
///
/// Neither may contain a colon, so the first `::` is the separator.
pub(crate) fn registered(canonical: &str) -> (Option<&str>, &str) {
    match canonical.split_once("::") {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, canonical),
    }
}

/// Validates a list of tools before it is stored.
pub(crate) fn check(tools: &[DynamicToolSpec], builtin: &HashSet<String>) -> Result<()> {
    if tools.len() > MAX_TOOLS {
        let text = format!("at most {MAX_TOOLS} tools may be registered");
        return Err(refused(MAX_TOOLS, &text));
    }
    let mut seen = HashSet::new();
    for (index, tool) in tools.iter().enumerate() {
        check_one(tool).map_err(|text| refused(index, &text))?;
        if tool.namespace.is_none() && builtin.contains(&tool.name) {
            return Err(ApiError::new(
                ErrorCode::ToolNameTaken,
                "a built-in tool has this name; use a namespace",
            )
            .with(json!({"index": index, "name": tool.name})));
        }
        if !seen.insert(tool.canonical_name()) {
            return Err(refused(index, "the list contains the tool twice"));
        }
    }
    Ok(())
}

fn refused(index: usize, text: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidToolSpec, text).with(json!({ "index": index }))
}

fn check_one(tool: &DynamicToolSpec) -> Result<(), String> {
    let is_name = |name: &str| {
        (1..=MAX_NAME).contains(&name.len())
            && name
                .bytes()
                .all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-')
    };
    for (field, name) in [
        ("name", Some(tool.name.as_str())),
        ("namespace", tool.namespace.as_deref()),
    ] {
        if name.is_some_and(|name| !is_name(name)) {
            return Err(format!(
                "{field} must be 1 to {MAX_NAME} letters, digits, `_` or `-`"
            ));
        }
    }
    if tool.timeout_ms.is_some_and(|wait| !WAITS.contains(&wait)) {
        return Err("timeout_ms must be between 1 s and 24 h".to_owned());
    }
    let schema = &tool.input_schema;
    if !schema.is_object() {
        return Err("input_schema must be an object".to_owned());
    }
    if schema.get("type").and_then(|kind| kind.as_str()) != Some("object") {
        return Err("input_schema must be of type `object`".to_owned());
    }
    if schema.to_string().len() > MAX_SCHEMA_BYTES {
        return Err(format!(
            "input_schema is larger than {MAX_SCHEMA_BYTES} bytes"
        ));
    }
    check_schema(schema).map_err(|error| format!("input_schema cannot be used: {error}"))
}

/// Merges the tools of a thread with those of a turn; a turn's tool replaces the thread's tool with the same identity.
pub(crate) fn joined(
    thread: &[DynamicToolSpec],
    turn: &[DynamicToolSpec],
) -> Result<Vec<DynamicToolSpec>> {
    let mut tools: BTreeMap<String, DynamicToolSpec> = BTreeMap::new();
    for tool in thread.iter().chain(turn) {
        tools.insert(tool.canonical_name(), tool.clone());
    }
    if tools.len() > MAX_TOOLS {
        let text = format!("a turn has at most {MAX_TOOLS} client tools");
        return Err(refused(MAX_TOOLS, &text));
    }
    Ok(tools.into_values().collect())
}

/// Creates the tool definitions of a turn. Names are valid for every provider; a digest of the canonical name disambiguates equal or overlong names.
pub(crate) fn definitions(
    tools: &[DynamicToolSpec],
    builtin: &HashSet<String>,
) -> Vec<ClientSideTool> {
    let plain: Vec<String> = tools.iter().map(plain_name).collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in plain.iter().chain(builtin) {
        *counts.entry(name).or_default() += 1;
    }
    let tools = tools.iter().zip(&plain);
    let definitions = tools.map(|(tool, plain)| {
        if counts[plain.as_str()] > 1 || plain.len() > MAX_NAME {
            definition(tool, digested_name(plain, &tool.canonical_name()))
        } else {
            definition(tool, plain.clone())
        }
    });
    definitions.collect()
}

fn plain_name(tool: &DynamicToolSpec) -> String {
    match &tool.namespace {
        Some(namespace) => format!("{namespace}__{}", tool.name),
        None => tool.name.clone(),
    }
}

fn digested_name(plain: &str, canonical: &str) -> String {
    let digest = blake3::hash(canonical.as_bytes()).to_hex();
    let prefix: String = plain.chars().take(NAME_PREFIX).collect();
    format!("{prefix}_{}", &digest[..8])
}

fn definition(tool: &DynamicToolSpec, name: String) -> ClientSideTool {
    let hints = ToolHints::default();
    ClientSideTool {
        name,
        display_name: Some(tool.canonical_name()),
        description: tool.description.clone(),
        parameters: tool.input_schema.clone(),
        category: tool.namespace.clone(),
        deferrable: if tool.defer_loading {
            DeferrablePolicy::Always
        } else {
            DeferrablePolicy::Never
        },
        hints: match tool.timeout_ms {
            Some(timeout_ms) => hints.with_timeout_ms(timeout_ms),
            None => hints,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(namespace: Option<&str>, name: &str) -> DynamicToolSpec {
        DynamicToolSpec {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            description: String::new(),
            input_schema: json!({"type": "object"}),
            defer_loading: false,
            timeout_ms: None,
        }
    }

    fn names(tools: &[DynamicToolSpec]) -> Vec<String> {
        let builtin = HashSet::from(["shell".to_owned()]);
        let definitions = definitions(tools, &builtin);
        definitions.iter().map(|tool| tool.name.clone()).collect()
    }

    #[test]
    fn r40_equal_names_get_distinct_digests() {
        let clash = [
            tool(Some("a"), "b__c"),
            tool(Some("a__b"), "c"),
            tool(None, "d"),
        ];
        let names = names(&clash);
        assert!(names[0].starts_with("a__b__c_") && names[1].starts_with("a__b__c_"));
        assert_ne!(names[0], names[1]);
        assert_eq!(names[2], "d");
    }

    #[test]
    fn overlong_name_is_cut_to_the_limit_of_providers() {
        let long = [tool(Some(&"n".repeat(64)), &"m".repeat(64))];
        assert_eq!(names(&long)[0].len(), 64);
    }

    #[test]
    fn r42_invalid_tool_is_refused() {
        for schema in [
            json!("nope"),
            json!({}),
            json!({"type": "string"}),
            json!({"type": "object", "properties": 7}),
        ] {
            let bad = DynamicToolSpec {
                input_schema: schema,
                ..tool(None, "x")
            };
            assert!(check(&[bad], &HashSet::new()).is_err());
        }
        assert!(check(&[tool(None, "x"), tool(Some("n"), "x")], &HashSet::new()).is_ok());
        assert!(check(&[tool(None, "x"), tool(None, "x")], &HashSet::new()).is_err());
        assert!(check(&[tool(None, "no:colon")], &HashSet::new()).is_err());
    }
}
