//! Calls that a user approved permanently, each with exactly its arguments.

use crate::digest::Digest128;
use crate::tools::ToolCall;
use crate::turn_environment::TurnEnvironment;

/// Identifies a call by its tool and arguments, not by its id.
#[must_use]
pub fn call_digest(call: &ToolCall) -> Digest128 {
    Digest128::of_json(&(&call.name, &call.arguments))
}

/// Stores the permanent approvals of each project directory.
pub trait RememberedCalls: Send + Sync {
    /// Returns the [`call_digest`] of each call that is approved in an environment; none if they cannot be read.
    fn allowed_in(&self, environment: &TurnEnvironment) -> Vec<String>;
}
