//! Budgets of threads and turns.

use serde::{Deserialize, Serialize};

/// Budget of a thread and of each of its turns. It can only narrow the operator's limits, which apply where a field is absent. An unknown
/// field is refused, because a misspelt limit would have no effect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// US dollars of one turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_usd: Option<f64>,
    /// Input and output tokens of one turn.
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
