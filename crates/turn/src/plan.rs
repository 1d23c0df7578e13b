//! What a turn is allowed to do, resolved once when it starts.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::budget::{Budgets, Reserve};
use windlass_core::mcp::DiscoveredTools;
use windlass_core::tools::{SideEffectClass, ToolPolicy, ToolShape};
use windlass_policy::ApprovalRules;

/// What the machine must know of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolSpec {
    /// When it may run.
    pub policy: ToolPolicy,
    /// Calls of one class run one after the other.
    pub concurrency_class: Option<String>,
    /// What repeating a call would do.
    pub side_effects: SideEffectClass,
    /// The name to show.
    pub display_name: Option<String>,
    /// The capability it comes from.
    pub capability_id: Option<String>,
    /// What its calls are to people.
    pub shape: Option<ToolShape>,
    /// How long its calls wait for somebody outside, where not as planned for all.
    pub wait_timeout: Option<Duration>,
}

/// How much a session may hold; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Messages of the session.
    pub max_messages: Option<u64>,
    /// Events of the session.
    pub max_events: Option<u64>,
}

/// The whole agent that carries a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendPlan {
    /// Its name.
    pub name: String,
    /// Whether what it asks for is allowed without asking anybody.
    pub allows_all: bool,
}

/// When a history is made shorter by itself, and by how much. Tokens are estimated, so the reserve is also for what estimates miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionPlan {
    /// How many tokens a request and its answer may have together.
    pub window_tokens: u64,
    /// How many of them are kept free for the answer.
    pub reserve_tokens: u64,
    /// How many of the newest messages stay whole, in tokens.
    pub keep_recent_tokens: u64,
    /// How many tokens the system prompt and the tools take.
    pub prompt_tokens: u64,
}

/// The configuration of a turn, as far as the machine needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnPlan {
    /// Names the whole configuration.
    pub digest: String,
    /// The provider's name of the model.
    pub model: String,
    /// How many model calls the turn may make.
    pub max_iterations: usize,
    /// The tools by name.
    pub tools: Arc<HashMap<String, ToolSpec>>,
    /// The names of those that the model is offered at once, in order.
    pub tool_names: Arc<[String]>,
    /// The others, which it is offered once they are found, and how many tokens each takes.
    pub deferred: Arc<HashMap<String, u64>>,
    /// How many calls run at once.
    pub max_parallel_calls: usize,
    /// How many calls may wait for somebody outside; one more fails.
    pub max_pending_calls: Option<usize>,
    /// How many inputs may wait for their place; one more is refused.
    pub max_waiting_inputs: Option<usize>,
    /// How long the turn may take.
    pub turn_timeout: Option<Duration>,
    /// How long it waits for somebody.
    pub wait_timeout: Option<Duration>,
    /// Whether it fails when the model says, thinks and calls nothing in all of it.
    pub needs_output: bool,
    /// How much the session may hold.
    pub limits: Limits,
    /// How much the turn and its thread may use.
    pub budgets: Budgets,
    /// What is set aside for a model call before it begins, at the least.
    pub reserve: Reserve,
    /// The whole agent that carries the turn; `None` is our own loop of model and tools.
    pub backend: Option<BackendPlan>,
    /// Which calls run, which are asked about, and which are refused.
    pub approvals: Arc<ApprovalRules>,
    /// Calls that somebody allowed for good where the turn works, each by the text of its
    /// [`call_digest`](windlass_core::remembered_calls::call_digest).
    pub remembered: Arc<[String]>,
    /// What MCP servers offer; `None` where nobody asked them.
    pub discovered: Option<Arc<DiscoveredTools>>,
    /// How the history is made shorter when it no longer fits; `None` is never.
    pub compaction: Option<CompactionPlan>,
}

impl Default for TurnPlan {
    fn default() -> Self {
        Self {
            digest: String::new(),
            model: String::new(),
            max_iterations: windlass_core::runtime_agent::DEFAULT_MAX_ITERATIONS,
            tools: Arc::default(),
            tool_names: Arc::new([]),
            deferred: Arc::default(),
            max_parallel_calls: 32,
            max_pending_calls: None,
            max_waiting_inputs: None,
            turn_timeout: None,
            wait_timeout: None,
            needs_output: false,
            limits: Limits::default(),
            budgets: Budgets::default(),
            reserve: Reserve::default(),
            backend: None,
            approvals: Arc::default(),
            remembered: Arc::new([]),
            discovered: None,
            compaction: None,
        }
    }
}
