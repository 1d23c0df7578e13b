//! Tools that a client registers and runs.

use serde_json::Value;
use windlass_macros::wire;

/// A tool that a client registers.
#[wire(omit_none)]
pub struct DynamicToolSpec {
    /// Namespace of the name.
    pub namespace: Option<String>,
    /// The name; with the namespace it identifies the tool.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// The JSON Schema of the arguments.
    pub input_schema: Value,
    /// Whether the model finds the tool only by a search.
    #[serde(default)]
    pub defer_loading: bool,
    /// Time limit for the result of a call, in milliseconds.
    pub timeout_ms: Option<u64>,
}

impl DynamicToolSpec {
    /// Returns the name with its namespace: `<namespace>::<name>`, or `<name>`.
    #[must_use]
    pub fn canonical_name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}::{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// Status of a client's tool call.
#[wire(Copy, Eq, snake_case)]
pub enum DynamicToolItemStatus {
    /// The call waits for its result.
    InProgress,
    /// The call has a result.
    Completed,
    /// The call failed, was interrupted or timed out.
    Failed,
}

/// A call that a client should execute.
#[wire(omit_none)]
pub struct DynamicToolCallParams {
    /// ID of the thread, `thr_…`.
    pub thread_id: String,
    /// ID of the turn, `turn_…`.
    pub turn_id: String,
    /// ID of the call, `call_…`.
    pub call_id: String,
    /// The namespace that the tool was registered with.
    pub namespace: Option<String>,
    /// The name that the tool was registered with.
    pub tool: String,
    /// Arguments that match the schema.
    pub arguments: Value,
}

/// A waiting call in events and details.
#[wire(omit_none)]
pub struct PendingToolCall {
    /// The call as the model made it.
    #[serde(flatten)]
    pub call: DynamicToolCallParams,
    /// ID of the call's item.
    pub item_id: Option<String>,
    /// Time at which the wait ends.
    pub expires_at: Option<String>,
}

/// Result of a call that a client executed.
#[wire]
pub struct DynamicToolCallResult {
    /// Whether the call succeeded.
    pub success: bool,
    /// Output of the tool in pieces.
    #[serde(default)]
    pub content: Vec<DynamicToolCallContent>,
}

/// One piece of a result.
#[wire]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum DynamicToolCallContent {
    /// Plain text in UTF-8.
    InputText {
        /// Plain text, UTF-8.
        text: String,
    },
    /// An image by URL.
    InputImage {
        /// Address of the image: `http`, `https` or `data`.
        image_url: String,
    },
}
