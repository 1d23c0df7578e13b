//! What an agent asks before it does something.

use serde_json::Value;

/// A request for a permission.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionRequest {
    /// By which the answer names it.
    pub id: String,
    /// The call that waits for it, if the agent names one.
    pub call_id: Option<String>,
    /// The tool, or what is known of it.
    pub name: String,
    /// What the tool is to be called with.
    pub arguments: Value,
    /// What the agent says for a person to read.
    pub title: Option<String>,
    /// Whether a permission for more than this once can be given.
    pub can_allow_always: bool,
}

/// The answer to a request for a permission.
#[derive(Debug, Clone, PartialEq)]
pub enum PermissionDecision {
    /// It may.
    Allow {
        /// For how long.
        scope: PermissionScope,
        /// Other arguments to call the tool with, where the agent takes them.
        arguments: Option<Value>,
    },
    /// It may not.
    Deny {
        /// Why, for the model to read.
        message: String,
    },
}

/// How long a permission holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionScope {
    /// For this call.
    Once,
    /// For calls like this one, as the agent understands it. Agents that have no such thing take it for this call.
    Always,
}
