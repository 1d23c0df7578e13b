//! Calls that somebody allowed for good, each with exactly its arguments.

use crate::digest::Digest128;
use crate::tools::ToolCall;
use crate::turn_environment::TurnEnvironment;

/// Names a call by its tool and its arguments, whoever makes it and under whatever id.
#[must_use]
pub fn call_digest(call: &ToolCall) -> Digest128 {
    Digest128::of_json(&(&call.name, &call.arguments))
}

/// Knows what somebody allowed for good in the places where turns work.
pub trait RememberedCalls: Send + Sync {
    /// Returns what is allowed where a turn works, each by the text of its [`call_digest`]. What cannot be read is not allowed.
    fn allowed_in(&self, environment: &TurnEnvironment) -> Vec<String>;
}
