//! Turns, and what starts and steers them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::attachments::InputPart;
use crate::budgets::Budget;
use crate::environments::TurnEnvironmentParams;
use crate::items::Item;
use crate::queue::OnBusy;
use crate::tools::DynamicToolSpec;
use crate::turn_policy::turn_policy;

/// How far a turn or an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It waits for its place.
    Queued,
    /// It is running or parked.
    InProgress,
    /// It came to its end.
    Completed,
    /// Ended with an error.
    Failed,
    /// It was stopped.
    Interrupted,
    /// It was given up before it began.
    Canceled,
}

/// What a turn waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    /// A call needs an approval.
    Approval,
    /// A question needs an answer.
    UserInput,
    /// A client must execute a call.
    ExternalTool,
}

/// What model calls used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TokenUsage {
    /// Input tokens, cached ones included.
    pub input_tokens: u64,
    /// Output tokens of all model calls.
    pub output_tokens: u64,
    /// Of those read, how many came from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_cache_hit_tokens: Option<u64>,
    /// Of those read, how many did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_cache_miss_tokens: Option<u64>,
    /// Of those read, how many were put into a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_cache_write_tokens: Option<u64>,
    /// Of those written, how many were thought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
    /// Tokens of thoughts that were sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_replay_tokens: Option<u64>,
    /// What it cost in US dollars, where that is known: what the provider says, else what the price list says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Uses of the provider's own tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_tool_use: Option<Value>,
}

/// One input carried to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Turn {
    /// The version of this record.
    pub schema_version: u32,
    /// Identifies the turn.
    pub id: String,
    /// ID of the thread, `thr_…`.
    pub thread_id: String,
    /// How far it is.
    pub status: Status,
    /// The input in short.
    pub input_summary: String,
    /// When the input was accepted.
    pub created_at: String,
    /// When the turn began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// What it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// Who serves the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_provider: Option<String>,
    /// The configured name of who serves the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_provider_id: Option<String>,
    /// The model that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_model: Option<String>,
    /// Why it failed or was stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// A stable code of why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// What was shown of it, in order.
    pub item_ids: Vec<String>,
    /// Number of steers.
    pub steer_count: u32,
    /// Where it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<TurnEnvironmentParams>,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<Vec<WaitKind>>,
    /// Number of times it resumed after a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_count: Option<u32>,
    /// Calls that did not run because their approval was refused or timed out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unapproved_calls: Option<UnapprovedCalls>,
}

/// Calls of a turn that did not run for want of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UnapprovedCalls {
    /// Those that were refused.
    pub refused: u32,
    /// Those whose approval timed out.
    pub timed_out: u32,
}

/// The answer of `GET …/turns/{turn_id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TurnDetail {
    /// The turn after the request.
    pub turn: Turn,
    /// Its items in the order in which they began.
    pub items: Vec<Item>,
    /// The JSON value of the final answer, if the turn completed and was started with an `output_schema`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
}

turn_policy! {
    /// The body of `POST …/turns`.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
    pub struct StartTurn: request {
        /// Prompt of the user.
        pub prompt: String,
        /// Text, images and files that come after the prompt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub input: Option<Vec<InputPart>>,
        /// What happens to the input while the thread has an open turn; default `refuse`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub on_busy: Option<OnBusy>,
        /// The input in short; else its beginning.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub input_summary: Option<String>,
        ..model,
        ..permissions,
        /// Tools of this turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub dynamic_tools: Option<Vec<DynamicToolSpec>>,
        /// Where the turn works.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub environment_id: Option<String>,
        ..reasoning_effort,
        /// The only tools of this turn: names or globs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub allowed_tools: Option<Vec<String>>,
        /// Tools that this turn does not have: names or globs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub disallowed_tools: Option<Vec<String>>,
        /// How much the turn may use, where that is less than its thread.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub budget: Option<Budget>,
        /// The JSON Schema that the final answer must match. The model gets one attempt to repair an answer that does not; then the
        /// turn fails with `output_schema_mismatch`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub output_schema: Option<Value>,
    }
}

/// The body of `POST …/steer`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SteerTurn {
    /// Prompt of the user.
    pub prompt: String,
    /// Text, images and files that come after the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Vec<InputPart>>,
}

/// The body of `POST …/retry`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RetryThread {
    /// How many user turns before the last one are dropped too.
    #[serde(default)]
    pub depth: u32,
    /// Prompt that replaces the original one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The model that answers, if not the one of the turn that is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether the files are brought back first that the dropped turns changed. If that is refused, no thread is made either.
    #[serde(default)]
    pub files: bool,
    /// Whether what calls may have changed that were cut off with a daemon is taken back too; without it, that is refused.
    #[serde(default)]
    pub cut_off: bool,
}

/// The body of `POST …/compact`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CompactThread {
    /// Reason for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
