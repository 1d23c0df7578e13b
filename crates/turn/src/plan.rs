//! The permissions and settings of a turn, resolved once when it starts.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::budget::{Budgets, Reserve};
use windlass_core::mcp::DiscoveredTools;
use windlass_core::tools::{SideEffectClass, ToolPolicy, ToolShape};
use windlass_macros::Defaults;
use windlass_policy::ApprovalRules;

/// The properties of a tool that the turn machine uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolSpec {
    /// Whether its calls wait for an approval.
    pub policy: ToolPolicy,
    /// Calls of one class run one after the other.
    pub concurrency_class: Option<String>,
    /// The effect of repeating a call.
    pub side_effects: SideEffectClass,
    /// The name to show.
    pub display_name: Option<String>,
    /// The capability that contributes it.
    pub capability_id: Option<String>,
    /// The kind of its calls, for display.
    pub shape: Option<ToolShape>,
    /// How long its calls wait for a client or the user, if different from the plan's.
    pub wait_timeout: Option<Duration>,
}

/// Size limits of a session; `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Messages of the session.
    pub max_messages: Option<u64>,
    /// Events of the session.
    pub max_events: Option<u64>,
}

/// The external agent that executes a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendPlan {
    /// Registered name of the agent.
    pub name: String,
    /// Whether its permission requests are allowed without an approval.
    pub allows_all: bool,
}

/// When a history is compacted automatically, and by how much. Token counts are estimates, so the reserve also covers their error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionPlan {
    /// Token limit of a request and its answer together.
    pub window_tokens: u64,
    /// Tokens of the window that are reserved for the answer.
    pub reserve_tokens: u64,
    /// How much of the newest messages remains verbatim, in tokens.
    pub keep_recent_tokens: u64,
    /// Size of the system prompt and the tools, in tokens.
    pub prompt_tokens: u64,
}

/// The part of a turn's configuration that the machine uses.
#[derive(Debug, Clone, PartialEq, Defaults)]
pub struct TurnPlan {
    /// Names the whole configuration.
    pub digest: String,
    /// The provider's name of the model.
    pub model: String,
    /// The limit of model calls in the turn.
    #[default(windlass_core::runtime_agent::DEFAULT_MAX_ITERATIONS)]
    pub max_iterations: usize,
    /// The tools by name.
    pub tools: Arc<HashMap<String, ToolSpec>>,
    /// The names of those that the model is offered at once, in order.
    #[default(Arc::new([]))]
    pub tool_names: Arc<[String]>,
    /// The others, which it is offered once they are found, and how many tokens each takes.
    pub deferred: Arc<HashMap<String, u64>>,
    /// The limit of concurrent calls.
    #[default(32)]
    pub max_parallel_calls: usize,
    /// Calls that may wait for a client; a further one fails.
    pub max_pending_calls: Option<usize>,
    /// Maximum number of queued inputs; further ones are rejected.
    pub max_waiting_inputs: Option<usize>,
    /// Time limit of the turn.
    pub turn_timeout: Option<Duration>,
    /// Time limit of a wait for a client or the user.
    pub wait_timeout: Option<Duration>,
    /// Whether the turn fails if the model produces no text, no reasoning and no call.
    pub needs_output: bool,
    /// Size limits of the session.
    pub limits: Limits,
    /// The budgets of the turn and its thread.
    pub budgets: Budgets,
    /// Minimum reservation for a model call.
    pub reserve: Reserve,
    /// The external agent that executes the turn; `None` is our own loop of model and tools.
    pub backend: Option<BackendPlan>,
    /// The rules that allow calls, require an approval, or deny them.
    pub approvals: Arc<ApprovalRules>,
    /// Calls that are approved for the project of the turn, each by the text of its [`call_digest`](windlass_core::remembered_calls::call_digest).
    #[default(Arc::new([]))]
    pub remembered: Arc<[String]>,
    /// Tools of MCP servers; `None` if no server was contacted.
    pub discovered: Option<Arc<DiscoveredTools>>,
    /// Automatic compaction of the history when it no longer fits; `None` disables it.
    pub compaction: Option<CompactionPlan>,
}
