//! Turns, and the requests that start and steer them.

use serde_json::Value;
use windlass_macros::wire;

use crate::attachments::InputPart;
use crate::budgets::Budget;
use crate::environments::TurnEnvironmentParams;
use crate::items::Item;
use crate::queue::OnBusy;
use crate::tools::DynamicToolSpec;
use crate::turn_policy::turn_policy;

/// Status of a turn or an item.
#[wire(Copy, Eq, Hash, Default, snake_case)]
pub enum Status {
    /// The turn is in the queue.
    #[default]
    Queued,
    /// Running or parked.
    InProgress,
    /// Ended with success.
    Completed,
    /// Ended with an error.
    Failed,
    /// Interrupted by a client, a user or a shutdown.
    Interrupted,
    /// Cancelled before the start.
    Canceled,
}

/// Kind of input that a turn waits for.
#[wire(Copy, Eq, Hash, snake_case)]
pub enum WaitKind {
    /// A call needs an approval.
    Approval,
    /// A question needs an answer.
    UserInput,
    /// A client must execute a call.
    ExternalTool,
}

/// Token usage of model calls.
#[wire(Default, omit_none)]
pub struct TokenUsage {
    /// Input tokens, cached ones included.
    pub input_tokens: u64,
    /// Output tokens of all model calls.
    pub output_tokens: u64,
    /// Input tokens that came from a cache.
    pub prompt_cache_hit_tokens: Option<u64>,
    /// Input tokens that did not come from a cache.
    pub prompt_cache_miss_tokens: Option<u64>,
    /// Input tokens that were written to a cache.
    pub prompt_cache_write_tokens: Option<u64>,
    /// Output tokens of reasoning.
    pub reasoning_tokens: Option<u64>,
    /// Tokens of reasoning that was sent again.
    pub reasoning_replay_tokens: Option<u64>,
    /// Cost in US dollars, if known: as reported by the provider, else by the price list.
    pub cost_usd: Option<f64>,
    /// Uses of the provider's own tools.
    pub server_tool_use: Option<Value>,
}

/// One input, processed to completion, failure or cancellation.
#[wire(Default, omit_none)]
pub struct Turn {
    /// The version of this record.
    pub schema_version: u32,
    /// ID of the turn, `turn_…`.
    pub id: String,
    /// ID of the thread, `thr_…`.
    pub thread_id: String,
    /// Status at the time of the response.
    pub status: Status,
    /// Short form of the input.
    pub input_summary: String,
    /// When the input was accepted.
    pub created_at: String,
    /// Start time, RFC 3339.
    pub started_at: Option<String>,
    /// End time, RFC 3339.
    pub ended_at: Option<String>,
    /// Duration in milliseconds.
    pub duration_ms: Option<u64>,
    /// Token usage of the turn.
    pub usage: Option<TokenUsage>,
    /// Provider of the model.
    pub effective_provider: Option<String>,
    /// Configured name of the provider.
    pub effective_provider_id: Option<String>,
    /// Model of the turn.
    pub effective_model: Option<String>,
    /// Reason of a failure or an interrupt.
    pub error: Option<String>,
    /// Stable code of the failure.
    pub error_code: Option<String>,
    /// IDs of the items, in their order.
    pub item_ids: Vec<String>,
    /// Number of steers.
    pub steer_count: u32,
    /// Environment of the turn.
    pub environment: Option<TurnEnvironmentParams>,
    /// What the job or turn waits for.
    pub waiting_for: Option<Vec<WaitKind>>,
    /// Number of times it resumed after a restart.
    pub resumed_count: Option<u32>,
    /// Calls that did not run because their approval was refused or timed out.
    pub unapproved_calls: Option<UnapprovedCalls>,
}

/// Calls of a turn that did not run because they were not approved.
#[wire(Copy, Eq)]
pub struct UnapprovedCalls {
    /// Calls that were denied.
    pub refused: u32,
    /// Calls whose approval timed out.
    pub timed_out: u32,
}

/// The answer of `GET …/turns/{turn_id}`.
#[wire(omit_none)]
pub struct TurnDetail {
    /// The turn after the request.
    pub turn: Turn,
    /// Items in the order of their start.
    pub items: Vec<Item>,
    /// The JSON value of the final answer, if the turn completed and was started with an `output_schema`.
    pub output: Option<Value>,
}

turn_policy! {
    /// The body of `POST …/turns`.
    #[wire(Default, omit_none)]
    pub struct StartTurn: request {
        /// Prompt of the user.
        pub prompt: String,
        /// Text, images and files that come after the prompt.
        pub input: Option<Vec<InputPart>>,
        /// Handling of the input while the thread has an open turn. Default: `refuse`.
        pub on_busy: Option<OnBusy>,
        /// Short form of the input. Default: its beginning.
        pub input_summary: Option<String>,
        ..model,
        ..permissions,
        /// Client tools of this turn.
        pub dynamic_tools: Option<Vec<DynamicToolSpec>>,
        /// Environment of the turn.
        pub environment_id: Option<String>,
        ..reasoning_effort,
        /// The only tools of this turn: names or globs.
        pub allowed_tools: Option<Vec<String>>,
        /// Tools to exclude from this turn: names or globs.
        pub disallowed_tools: Option<Vec<String>>,
        /// Budget of the turn, in addition to the thread's limits.
        pub budget: Option<Budget>,
        /// The JSON Schema that the final answer must match. The model gets one attempt to repair an answer that does not; then the
        /// turn fails with `output_schema_mismatch`.
        pub output_schema: Option<Value>,
    }
}

/// The body of `POST …/steer`.
#[wire(Default, Eq, omit_none)]
pub struct SteerTurn {
    /// Prompt of the user.
    pub prompt: String,
    /// Text, images and files that come after the prompt.
    pub input: Option<Vec<InputPart>>,
}

/// The body of `POST …/retry`.
#[wire(Default, Eq, omit_none)]
pub struct RetryThread {
    /// Number of user turns to drop in addition to the last one.
    #[serde(default)]
    pub depth: u32,
    /// First turn to drop, instead of `depth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// Prompt that replaces the original one.
    pub prompt: Option<String>,
    /// Model of the new turn. Default: the model of the retried turn.
    pub model: Option<String>,
    /// Whether to restore the files that the dropped turns changed first. If that fails, no thread is created.
    #[serde(default)]
    pub files: bool,
    /// Whether to also revert possible changes of calls that were cut off by a crash; otherwise such files are refused.
    #[serde(default)]
    pub cut_off: bool,
}

/// The body of `POST …/compact`.
#[wire(Default, Eq, omit_none)]
pub struct CompactThread {
    /// Reason for people.
    pub reason: Option<String>,
}
