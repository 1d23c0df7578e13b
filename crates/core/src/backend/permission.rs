//! Permission requests of an external agent.

use serde_json::Value;

/// A request for a permission.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionRequest {
    /// By which the answer names it.
    pub id: String,
    /// The call that waits for it, if the agent names one.
    pub call_id: Option<String>,
    /// The tool's name, or the best available description.
    pub name: String,
    pub arguments: Value,
    /// The agent's description of the call, for display.
    pub title: Option<String>,
    /// Whether a permission for more than this once can be given.
    pub can_allow_always: bool,
}

/// The answer to a request for a permission.
#[derive(Debug, Clone, PartialEq)]
pub enum PermissionDecision {
    /// The call may run.
    Allow {
        /// For how long.
        scope: PermissionScope,
        /// Replacement arguments, if the agent supports them.
        arguments: Option<Value>,
    },
    /// It may not.
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
    /// For calls like this one, as the agent understands it. Agents that have no such thing take it for this call.
    Always,
}
