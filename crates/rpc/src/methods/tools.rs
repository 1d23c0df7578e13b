//! The tools that a connection brings along for its own proposals. A proposal names its tools itself, so they are checked
//! and counted, and not kept.

use serde_json::Value;

use crate::error::RpcError;
use crate::hub::Answer;

/// How many a connection may bring at once.
const MAX_TOOLS: usize = 1_024;

/// Answers `tools.register` with how many there are.
pub(crate) fn count(tools: &[Value]) -> Answer {
    checked("tools.register", tools).map(Value::from)
}

/// Makes sure that each tool has a name, and counts them.
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
