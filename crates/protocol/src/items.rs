//! What a person sees of a step.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::turns::Status;

/// What an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    /// What the user said.
    UserMessage,
    /// What the agent said.
    AgentMessage,
    /// What the model thought.
    AgentReasoning,
    /// A call of a tool.
    ToolCall,
    /// A call that changes files.
    FileChange,
    /// A call that runs a command.
    CommandExecution,
    /// The history was made shorter.
    ContextCompaction,
    /// A remark of the runtime.
    Status,
    /// A failure of the turn.
    Error,
}

/// One item of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Item {
    /// The version of this record.
    pub schema_version: u32,
    /// Identifies the item.
    pub id: String,
    /// ID of the turn, `turn_…`.
    pub turn_id: String,
    /// What it is.
    pub kind: ItemKind,
    /// How far it is.
    pub status: Status,
    /// The item in at most 280 characters.
    pub summary: String,
    /// All of it; of a tool, the input while it runs and the output afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Values by name, such as `tool`, `approval` and `dynamic_tool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// Files that belong to it.
    #[serde(default)]
    pub artifact_refs: Vec<Value>,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
}
