//! Tools that a client registers and runs.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A tool that a client registers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DynamicToolSpec {
    /// The group that the name belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name; with the namespace it identifies the tool.
    pub name: String,
    /// What the model reads.
    pub description: String,
    /// The JSON Schema of the arguments.
    pub input_schema: Value,
    /// Whether the model only finds it by a search.
    #[serde(default)]
    pub defer_loading: bool,
    /// How long a call waits for its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

/// How far the call of an external tool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DynamicToolItemStatus {
    /// It waits for its result.
    InProgress,
    /// It has one.
    Completed,
    /// It failed, was stopped, or timed out.
    Failed,
}

/// A call that a client should execute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DynamicToolCallParams {
    /// ID of the thread, `thr_…`.
    pub thread_id: String,
    /// ID of the turn, `turn_…`.
    pub turn_id: String,
    /// ID of the call, `call_…`.
    pub call_id: String,
    /// The namespace that the tool was registered with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name that the tool was registered with.
    pub tool: String,
    /// The model's arguments; they fit the schema.
    pub arguments: Value,
}

/// A call that waits, as events and details show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PendingToolCall {
    /// The call as the model made it.
    #[serde(flatten)]
    pub call: DynamicToolCallParams,
    /// The item that shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_id: Option<String>,
    /// When it is no longer waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// Result of a call that a client executed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DynamicToolCallResult {
    /// Whether the tool did what it should.
    pub success: bool,
    /// What it returned, piece by piece.
    #[serde(default)]
    pub content: Vec<DynamicToolCallContent>,
}

/// One piece of a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum DynamicToolCallContent {
    /// Plain text in UTF-8.
    InputText {
        /// Plain text, UTF-8.
        text: String,
    },
    /// An image by URL.
    InputImage {
        /// Its address: `http`, `https` or `data`.
        image_url: String,
    },
}
