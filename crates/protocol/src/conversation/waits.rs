//! Calls and questions of all threads that wait for a client.

use serde::{Deserialize, Serialize};

use crate::answers::{PendingApproval, PendingUserInput};
use crate::tools::PendingToolCall;
use crate::turns::WaitKind;

/// A call or question that waits for a client, with its thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Wait {
    /// ID of the thread, `thr_…`.
    pub thread_id: String,
    /// Title of the thread; never empty.
    pub thread_title: String,
    /// ID of the turn, `turn_…`.
    pub turn_id: String,
    /// Kind of input that the turn waits for. The field of the same kind is present.
    pub kind: WaitKind,
    /// Number of the record that began the wait.
    pub seq: u64,
    /// Start of the wait, RFC 3339.
    pub since: String,
    /// The call to approve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<PendingApproval>,
    /// The question to answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_input: Option<PendingUserInput>,
    /// The call to execute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<PendingToolCall>,
}
