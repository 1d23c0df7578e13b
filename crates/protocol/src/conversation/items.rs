//! Items: the user-visible form of steps.

use serde_json::Value;
use windlass_macros::wire;

use crate::turns::Status;

/// Kind of an item.
#[wire(Copy, Eq, Hash, snake_case)]
pub enum ItemKind {
    /// A message of the user.
    UserMessage,
    /// A message of the agent.
    AgentMessage,
    /// Reasoning of the model.
    AgentReasoning,
    /// A call of a tool.
    ToolCall,
    /// A call that changes files.
    FileChange,
    /// A call that runs a command.
    CommandExecution,
    /// A new state of the agent's plan. `metadata.tool.input.entries` has the steps, as in ACP: `content`, `status` and optionally `priority`.
    Plan,
    /// A compaction of the history.
    ContextCompaction,
    /// A notice of the runtime.
    Status,
    /// A failure of the turn.
    Error,
}

/// One item of a turn.
#[wire(omit_none)]
pub struct Item {
    /// The version of this record.
    pub schema_version: u32,
    /// ID of the item, `item_…`.
    pub id: String,
    /// ID of the turn, `turn_…`.
    pub turn_id: String,
    /// Kind of the item.
    pub kind: ItemKind,
    /// Status at the time of the response.
    pub status: Status,
    /// The item in at most 280 characters.
    pub summary: String,
    /// Complete text; for a tool, the input while it runs and the output afterwards.
    pub detail: Option<String>,
    /// Values by name, such as `tool`, `approval` and `dynamic_tool`.
    pub metadata: Option<Value>,
    /// Files that belong to the item.
    #[serde(default)]
    pub artifact_refs: Vec<Value>,
    /// Start time, RFC 3339.
    pub started_at: Option<String>,
    /// End time, RFC 3339.
    pub ended_at: Option<String>,
}
