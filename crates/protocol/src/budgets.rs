//! How much threads and turns may use.

use serde::{Deserialize, Serialize};

/// How much a thread and each of its turns may use. It can only be less than what the operator allows; what is absent is as much as
/// that. A field that is not known is refused: a misspelt limit would be none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// US dollars of one turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_usd: Option<f64>,
    /// Tokens of one turn, read and written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_tokens: Option<u64>,
    /// Model calls of one turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_model_calls: Option<u64>,
    /// Tool calls of one turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_tool_calls: Option<u64>,
    /// Seconds of one turn, waits included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_seconds: Option<u64>,
    /// US dollars of all turns of the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_usd: Option<f64>,
    /// Tokens of all turns of the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_tokens: Option<u64>,
}
