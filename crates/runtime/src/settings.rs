//! What an operator can set for a whole runtime.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::budget::{Budgets, Reserve};
use windlass_core::named_secrets::NamedSecrets;
use windlass_policy::ApprovalRules;
use windlass_turn::Limits;

/// How often and how patiently a failed model call is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How many attempts follow the first.
    pub max_retries: u32,
    /// The wait before the first of them; each further one doubles it.
    pub base_delay: Duration,
    /// The longest wait, also when the provider asks for more.
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

/// What becomes of turns that the process left behind when it stopped, once they are taken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RecoveryPolicy {
    /// They go on from the last recorded step.
    #[default]
    Resume,
    /// They are cancelled; what is finished is kept.
    Interrupt,
}

/// When a runtime takes up turns that an earlier process left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TakesUp {
    /// When somebody asks: by [`resume_open_turns`](crate::InProcessRuntime::resume_open_turns), or by work on the session,
    /// such as another input or an answer that its turn waits for. A program that only looks takes up nothing, so it may
    /// end as it likes: that is no crash of the turn.
    #[default]
    WhenAsked,
    /// As soon as it is built.
    AtBuild,
}

/// When the history is made shorter by itself. What is not set follows from the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompactionSettings {
    /// How many tokens a request and its answer may have together. Unset it is what the driver says of the model, or 64,000 where
    /// it does not know.
    pub window_tokens: Option<u64>,
    /// How many of them are kept free for the answer, at most half. Unset it is the longest answer that is asked for, or a fifth of
    /// the window, and a twentieth for what estimates miss.
    pub reserve_tokens: Option<u64>,
    /// How many of the newest messages stay whole, in tokens.
    pub keep_recent_tokens: Option<u64>,
}

/// What an operator can set for a whole runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeSettings {
    /// How long a turn may take.
    pub turn_timeout: Option<Duration>,
    /// How long a tool call may take, unless the tool or the turn says otherwise.
    pub tool_timeout: Option<Duration>,
    /// How long a turn waits for somebody.
    pub wait_timeout: Option<Duration>,
    /// How long a model call may be silent.
    pub model_silence: Option<Duration>,
    /// How many calls of one answer run at once.
    pub max_parallel_calls: usize,
    /// How many calls of a session may wait for somebody outside; one more fails, and the model is told.
    pub max_pending_calls: Option<usize>,
    /// How many inputs of a session may wait, queued or steered; one more is refused.
    pub max_waiting_inputs: Option<usize>,
    /// How many bytes an answer of a model may have: its text, its thinking and its calls.
    pub max_answer_bytes: usize,
    /// How many calls an answer of a model may have.
    pub max_answer_calls: usize,
    /// How many bytes of a tool's result the model gets.
    pub max_tool_result_bytes: usize,
    /// How much a session may hold.
    pub limits: Limits,
    /// How much a turn and a thread may use. What a turn itself asks for
    /// ([`TurnRequest::budgets`](windlass_core::turn_request::TurnRequest::budgets)) can only be less.
    pub budgets: Budgets,
    /// What is set aside for a model call before it begins, at the least.
    pub reserve: Reserve,
    /// How failed model calls are tried again.
    pub retry: RetryPolicy,
    /// When turns of an earlier life are taken up.
    pub takes_up: TakesUp,
    /// What becomes of them then.
    pub recovery: RecoveryPolicy,
    /// How many sessions stay in memory, where the journal is on disk. The others come back when they are used. A
    /// session whose turn runs or waits stays in any case.
    pub idle_sessions: usize,
    /// How long an idle session stays in memory, where the journal is on disk, and how long the process of a backend waits for
    /// its next turn.
    pub idle_time: Option<Duration>,
    /// Bytes of conversations that idle sessions may hold in memory together, where the journal is on disk. Beyond it the sessions
    /// that were used longest ago are unloaded 2 s after their last use. Default: 32 MiB.
    pub idle_bytes: usize,
    /// Which calls run, which are asked about, and which are refused.
    pub approvals: Arc<ApprovalRules>,
    /// How many bytes of the conversation a backend is told that does not know it.
    pub backend_history_bytes: usize,
    /// Bytes of a backend's output that one turn records: text, thoughts, its calls with their results, notices. Beyond it the
    /// turn fails with `backend_output_limit`. Default: 16 MiB, as of a command's stored output.
    pub backend_output_bytes: usize,
    /// When the history of a session is made shorter by itself; `None` is never, unless its capability `compaction` says so.
    pub compaction: Option<CompactionSettings>,
    /// Above how many tools of one capability, all MCP servers being one, the model finds them by `tool_search` and is not offered them at
    /// once; `None` is never. Tools that are always deferred, and those that never are, stay so.
    pub defer_above: Option<usize>,
    /// Secrets of the operator, which tools put where they may go. What tools return and what is recorded shows their names.
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
            takes_up: TakesUp::default(),
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
