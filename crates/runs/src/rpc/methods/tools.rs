//! The tools that a connection registers for its own proposals. A proposal names its tools itself, so they are validated and counted, but not stored.

use serde_json::Value;

use crate::rpc::error::RpcError;
use crate::rpc::hub::MethodResult;

/// Maximum number of tools in one registration.
const MAX_TOOLS: usize = 1_024;

/// Answers `tools.register` with the number of tools.
pub(crate) fn count(tools: &[Value]) -> MethodResult {
    checked("tools.register", tools).map(Value::from)
}

/// Checks that each tool has a name, and counts them.
pub(super) fn checked(method: &str, tools: &[Value]) -> Result<usize, RpcError> {
    if tools.len() > MAX_TOOLS {
        return Err(RpcError::limit(format!(
            "{method} takes {MAX_TOOLS} tools at once, not {}",
            tools.len()
        )));
    }
    let is_named = |tool: &Value| {
        let name = tool.get("name").and_then(Value::as_str);
        name.is_some_and(|name| !name.trim().is_empty())
    };
    match tools.iter().position(|tool| !is_named(tool)) {
        Some(index) => Err(RpcError::invalid_params(format!(
            "{method}: tool {index} of the list has no `name`; each is {{ name, description?, parameters? }}"
        ))),
        None => Ok(tools.len()),
    }
}
