//! Permission requests of an external agent.

use serde_json::Value;

/// A request for a permission.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionRequest {
    /// The ID that the answer refers to.
    pub id: String,
    /// The call that waits for it, if the agent names one.
    pub call_id: Option<String>,
    /// The tool's name, or the best available description.
    pub name: String,
    pub arguments: Value,
    /// The agent's description of the call, for display.
    pub title: Option<String>,
    /// Whether [`PermissionScope::Always`] is available.
    pub can_allow_always: bool,
}

/// The answer to a request for a permission.
#[derive(Debug, Clone, PartialEq)]
pub enum PermissionDecision {
    /// The call may run.
    Allow {
        /// The calls that the permission covers.
        scope: PermissionScope,
        /// Replacement arguments, if the agent supports them.
        arguments: Option<Value>,
    },
    /// The call must not run.
    Deny {
        /// Why, for the model to read.
        message: String,
    },
}

/// The scope of a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionScope {
    /// For this call.
    Once,
    /// For similar calls, as defined by the agent. Agents without this scope apply it to this call only.
    Always,
}
