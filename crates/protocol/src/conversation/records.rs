//! The record of a thread: its raw events, its state at an earlier one, and the check of its chain.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answers::{PendingApproval, PendingUserInput};
use crate::items::Item;
use crate::tools::PendingToolCall;
use crate::turns::{TokenUsage, Turn};

/// One record of a thread's journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Record {
    /// Number of the record in its thread.
    pub seq: u64,
    /// Type of the record, such as `tool.completed`. Clients meet types that they do not know.
    pub kind: String,
    /// Time of the record, RFC 3339.
    pub at: String,
    /// ID of the turn, `turn_…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// ID of the item that the record is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_id: Option<String>,
    /// The step that the record belongs to. The records of one step have the same value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<String>,
    /// The record in one line of at most 280 characters; may be empty.
    pub summary: String,
    /// Whether the record is the failure of a turn, a tool call or a model call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// Size of `data` as JSON, in bytes.
    pub bytes: u64,
    /// Content of the record; absent in an outline, and if `redacted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Whether the content is not shown, because it is the user's answer to a question of the agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
}

/// A range of records that retention removed. Their digests remain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PrunedRecords {
    /// Number of the first removed record.
    pub first: u64,
    /// Number of the last removed record.
    pub last: u64,
}

/// The answer of `GET …/records`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecordPage {
    /// The records, oldest first.
    pub records: Vec<Record>,
    /// Number of the newest record of the thread.
    pub latest_seq: u64,
    /// Removed records between those of the page.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pruned: Vec<PrunedRecords>,
    /// The value of `before` for the previous page; absent at the beginning of the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// The value of `after` for the next page; absent at the end of the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

/// The answer of `GET …/state`: the thread as it was after one of its records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ThreadStateAt {
    /// Number of the newest record that the state includes.
    pub at: u64,
    /// Number of the newest record of the thread.
    pub latest_seq: u64,
    /// Number of turns that had begun, those that a fork shares included.
    pub turn_count: u64,
    /// Usage of the thread's own turns; a fork does not count those that it shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// The newest turns at that time, oldest first.
    pub turns: Vec<Turn>,
    /// Items of the turns, turn by turn.
    pub items: Vec<Item>,
    /// Calls that needed an approval.
    #[serde(default)]
    pub pending_approvals: Vec<PendingApproval>,
    /// Questions that waited for an answer.
    #[serde(default)]
    pub pending_user_inputs: Vec<PendingUserInput>,
    /// Calls that a client had to execute.
    #[serde(default)]
    pub pending_dynamic_tool_calls: Vec<PendingToolCall>,
}

/// The answer of `POST …/verify`: whether the records are those that were written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct VerifiedThread {
    /// Number of the last record up to which the chain of digests is intact; absent if the daemon stores records in memory, without digests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_seq: Option<u64>,
    /// Number of the newest record of the thread.
    pub latest_seq: u64,
    /// Number of the first damaged record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damaged_seq: Option<u64>,
    /// Link of the chain at the newest record, in hex. A stored copy reveals a later cut or replacement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
    /// Number of removed records, of which only the digests were checked.
    pub pruned: u64,
    /// All findings, at most 50.
    pub findings: Vec<VerifyFinding>,
}

/// One thing that is wrong with a thread's records or the rows derived from them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct VerifyFinding {
    /// The record, if the finding is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Description of the problem.
    pub problem: String,
}
