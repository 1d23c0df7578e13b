//! Budgets of threads and turns.

use windlass_macros::wire;

/// Budget of a thread and of each of its turns. It can only narrow the operator's limits, which apply where a field is absent. An unknown
/// field is refused, because a misspelt limit would have no effect.
#[wire(Copy, Default, omit_none)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// US dollars of one turn.
    pub turn_usd: Option<f64>,
    /// Input and output tokens of one turn.
    pub turn_tokens: Option<u64>,
    /// Model calls of one turn.
    pub turn_model_calls: Option<u64>,
    /// Tool calls of one turn.
    pub turn_tool_calls: Option<u64>,
    /// Seconds of one turn, waits included.
    pub turn_seconds: Option<u64>,
    /// US dollars of all turns of the thread.
    pub thread_usd: Option<f64>,
    /// Tokens of all turns of the thread.
    pub thread_tokens: Option<u64>,
}
