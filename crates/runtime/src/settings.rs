//! Settings of a whole runtime.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::budget::{Budgets, Reserve};
use windlass_core::named_secrets::NamedSecrets;
use windlass_policy::ApprovalRules;
use windlass_turn::Limits;

/// How often and how fast a failed model call is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Number of attempts after the first.
    pub max_retries: u32,
    /// Wait before the first retry; each further retry doubles it.
    pub base_delay: Duration,
    /// Maximum wait, even if the provider requests a longer one.
    pub max_delay: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_retries: 3,
            base_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(60),
        }
    }
}

/// How turns that a stopped process left open are treated when they are resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RecoveryPolicy {
    /// Continue from the last recorded step.
    #[default]
    Resume,
    /// Cancel them; finished steps are retained.
    Interrupt,
}

/// When a runtime resumes turns that an earlier process left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ResumePolicy {
    /// When a caller asks for it: by [`resume_open_turns`](crate::InProcessRuntime::resume_open_turns), or by work on the session,
    /// such as another input or an answer that its turn waits for. A program that only reads resumes nothing, so its end does not
    /// count as a crash of the turn.
    #[default]
    OnDemand,
    /// As soon as the runtime is built.
    AtStartup,
}

/// When the history is compacted automatically. Unset values are derived from the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompactionSettings {
    /// Maximum tokens of a request and its answer together. If unset: the driver's value for the model, or 64,000 if it has none.
    pub window_tokens: Option<u64>,
    /// Tokens of the window reserved for the answer, at most half of it. If unset: the requested maximum answer length or a fifth of the window, plus
    /// a twentieth for estimation errors.
    pub reserve_tokens: Option<u64>,
    /// How many of the newest messages stay whole, in tokens.
    pub keep_recent_tokens: Option<u64>,
}

/// Settings of a whole runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeSettings {
    /// Maximum duration of a turn.
    pub turn_timeout: Option<Duration>,
    /// Maximum duration of a tool call, unless the tool or the turn overrides it.
    pub tool_timeout: Option<Duration>,
    /// How long a turn stays parked before it times out.
    pub wait_timeout: Option<Duration>,
    /// Maximum time without output of a model call.
    pub model_silence: Option<Duration>,
    /// Maximum number of calls of one answer that run at once.
    pub max_parallel_calls: usize,
    /// Maximum number of pending external calls per session. A further call fails, and the model receives the error.
    pub max_pending_calls: Option<usize>,
    /// Maximum number of waiting inputs per session, queued or steered; a further one is refused.
    pub max_waiting_inputs: Option<usize>,
    /// Maximum bytes of a model's answer: its text, thinking and calls.
    pub max_answer_bytes: usize,
    /// Maximum number of calls in a model's answer.
    pub max_answer_calls: usize,
    /// Maximum bytes of a tool's result that are sent to the model.
    pub max_tool_result_bytes: usize,
    /// Size limits of a session.
    pub limits: Limits,
    /// Budgets of a turn and a thread. A turn's own budgets ([`TurnRequest::budgets`](windlass_core::turn_request::TurnRequest::budgets)) can only
    /// lower them.
    pub budgets: Budgets,
    /// Minimum reservation for a model call before it begins.
    pub reserve: Reserve,
    /// Retries of failed model calls.
    pub retry: RetryPolicy,
    /// When turns of a previous process are resumed.
    pub resume_policy: ResumePolicy,
    /// How those turns are treated then.
    pub recovery: RecoveryPolicy,
    /// Maximum number of sessions in memory, with a journal on disk. Evicted sessions are loaded again on use. A session with a running or parked
    /// turn always stays.
    pub idle_sessions: usize,
    /// How long an idle session stays in memory, with a journal on disk, and how long an external agent's process waits for its next turn.
    pub idle_time: Option<Duration>,
    /// Bytes of conversations that idle sessions may hold in memory together, where the journal is on disk. Beyond it the sessions
    /// that were used longest ago are unloaded 2 s after their last use. Default: 32 MiB.
    pub idle_bytes: usize,
    /// Which calls run, which need approval, and which are refused.
    pub approvals: Arc<ApprovalRules>,
    /// Maximum bytes of the conversation that are sent to an external agent that does not know it.
    pub backend_history_bytes: usize,
    /// Maximum bytes of an external agent's output that one turn records: text, thoughts, calls with their results, notices. Beyond it the turn fails
    /// with `backend_output_limit`. Default: 16 MiB, as for a command's stored output.
    pub backend_output_bytes: usize,
    /// When the history of a session is compacted automatically; with `None`, only if its capability `compaction` requests it.
    pub compaction: Option<CompactionSettings>,
    /// If a capability has more tools than this, the model finds them with `tool_search` instead of getting them all; all MCP servers count as one
    /// capability. `None` is never. Tools that are always or never deferred are unaffected.
    pub defer_above: Option<usize>,
    /// The operator's secrets, which tools insert where permitted. Tool output and records contain their names instead.
    pub secrets: NamedSecrets,
}

impl Default for RuntimeSettings {
    fn default() -> Self {
        Self {
            turn_timeout: None,
            tool_timeout: Some(Duration::from_secs(300)),
            wait_timeout: None,
            model_silence: Some(Duration::from_secs(120)),
            max_parallel_calls: 32,
            max_pending_calls: None,
            max_waiting_inputs: None,
            max_answer_bytes: 16 * 1024 * 1024,
            max_answer_calls: 256,
            max_tool_result_bytes: 64 * 1024,
            limits: Limits::default(),
            budgets: Budgets::default(),
            reserve: Reserve::default(),
            retry: RetryPolicy::default(),
            resume_policy: ResumePolicy::default(),
            recovery: RecoveryPolicy::default(),
            idle_sessions: 256,
            idle_time: Some(Duration::from_secs(600)),
            idle_bytes: 32 * 1024 * 1024,
            approvals: Arc::default(),
            backend_history_bytes: 256 * 1024,
            backend_output_bytes: 16 * 1024 * 1024,
            compaction: None,
            defer_above: None,
            secrets: NamedSecrets::default(),
        }
    }
}
