//! The one-shot stream: frames without envelope.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_macros::{omit_none, wire};

use crate::mode::Mode;
use crate::turn_policy::turn_policy;
use crate::turns::{Status, TokenUsage};

turn_policy! {
    /// The body of `POST /v1/stream`.
    #[wire(Default, omit_none)]
    pub struct OneShot: request {
        /// Prompt of the user.
        pub prompt: String,
        ..model,
        ..permissions,
        /// Absolute path of the working directory. Default: the daemon's workspace.
        pub workspace: Option<String>,
        /// The JSON Schema that the final answer must match.
        pub output_schema: Option<Value>,
    }
}

/// The first frame, `turn.started`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OneShotStarted {
    /// ID of the new thread.
    pub thread_id: String,
    /// ID of the turn, `turn_…`.
    pub turn_id: String,
    /// Model, without its provider.
    pub model: String,
    /// How freely the agent works.
    pub mode: Mode,
    /// Absolute path of the working directory.
    pub workspace: String,
}

/// A frame `tool.started`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OneShotToolStarted {
    /// ID of the call, `call_…`.
    pub id: String,
    /// Name of the tool, with its namespace.
    pub name: String,
    /// Arguments of the call.
    pub input: Value,
}

/// A frame `tool.completed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OneShotToolCompleted {
    /// ID of the call, `call_…`.
    pub id: String,
    /// Whether the call succeeded.
    pub success: bool,
    /// Output of the call.
    pub output: String,
}

/// The frame `turn.completed`.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OneShotCompleted {
    /// Token usage of the turn.
    pub usage: TokenUsage,
    /// Status at the end of the turn.
    pub status: Status,
    /// Reason of a failure or an interrupt.
    pub error: Option<String>,
    /// The JSON value of the answer, if the turn completed and has an `output_schema`.
    pub output: Option<Value>,
}
