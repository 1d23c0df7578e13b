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
}

/// The answer to a request for a permission.
#[derive(Debug, Clone, PartialEq)]
pub enum PermissionDecision {
    /// The call may run, this once.
    Allow,
    /// The call must not run.
    Deny {
        /// Why, for the model to read.
        message: String,
    },
}
