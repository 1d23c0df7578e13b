//! Settings of a whole runtime.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::budget::{Budgets, Reserve};
use windlass_core::named_secrets::NamedSecrets;
use windlass_macros::Defaults;
use windlass_policy::ApprovalRules;
use windlass_turn::Limits;

/// How often and how fast a failed model call is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Defaults)]
pub struct RetryPolicy {
    /// Number of attempts after the first.
    #[default(3)]
    pub max_retries: u32,
    /// Wait before the first retry; each further retry doubles it.
    #[default(Duration::from_millis(500))]
    pub base_delay: Duration,
    /// Maximum wait, even if the provider requests a longer one.
    #[default(Duration::from_secs(60))]
    pub max_delay: Duration,
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

/// Declares a struct of settings: each field once, with its default and a setter of the same name.
macro_rules! settings {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty = $default:expr,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $name {
            $($(#[$doc])* #[must_use] pub fn $field(mut self, $field: $type) -> Self {
                self.$field = $field;
                self
            })*
        }
    };
}

settings! {
    /// Settings of a whole runtime.
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass_runtime::RuntimeSettings;
    ///
    /// let settings = RuntimeSettings::default()
    ///     .turn_timeout(Some(Duration::from_secs(60)))
    ///     .max_parallel_calls(8);
    /// # let _ = settings;
    /// ```
    RuntimeSettings {
        /// Maximum duration of a turn.
        turn_timeout: Option<Duration> = None,
        /// Maximum duration of a tool call, unless the tool or the turn overrides it.
        tool_timeout: Option<Duration> = Some(Duration::from_secs(300)),
        /// How long a turn stays parked before it times out.
        wait_timeout: Option<Duration> = None,
        /// Maximum time without output of a model call.
        model_silence: Option<Duration> = Some(Duration::from_secs(120)),
        /// Maximum number of calls of one answer that run at once.
        max_parallel_calls: usize = 32,
        /// Maximum number of pending external calls per session. A further call fails, and the model receives the error.
        max_pending_calls: Option<usize> = None,
        /// Maximum number of waiting inputs per session, queued or steered; a further one is refused.
        max_waiting_inputs: Option<usize> = None,
        /// Maximum bytes of a model's answer: its text, thinking and calls.
        max_answer_bytes: usize = 16 * 1024 * 1024,
        /// Maximum number of calls in a model's answer.
        max_answer_calls: usize = 256,
        /// Maximum bytes of a tool's result that are sent to the model.
        max_tool_result_bytes: usize = 64 * 1024,
        /// Size limits of a session.
        limits: Limits = Limits::default(),
        /// Budgets of a turn and a thread. A turn's own budgets ([`TurnRequest::budgets`](windlass_core::turn_request::TurnRequest::budgets)) can only
        /// lower them.
        budgets: Budgets = Budgets::default(),
        /// Minimum reservation for a model call before it begins.
        reserve: Reserve = Reserve::default(),
        /// Retries of failed model calls.
        retry: RetryPolicy = RetryPolicy::default(),
        /// When turns of a previous process are resumed.
        resume_policy: ResumePolicy = ResumePolicy::default(),
        /// How those turns are treated then.
        recovery: RecoveryPolicy = RecoveryPolicy::default(),
        /// Maximum number of sessions in memory, with a journal on disk. Evicted sessions are loaded again on use. A session with a running or parked
        /// turn always stays.
        idle_sessions: usize = 256,
        /// How long an idle session stays in memory, with a journal on disk, and how long an external agent's process waits for its next turn.
        idle_time: Option<Duration> = Some(Duration::from_secs(600)),
        /// Bytes of conversations that idle sessions may hold in memory together, where the journal is on disk. Beyond it the sessions
        /// that were used longest ago are unloaded 2 s after their last use. Default: 32 MiB.
        idle_bytes: usize = 32 * 1024 * 1024,
        /// Which calls run, which need approval, and which are refused.
        approvals: Arc<ApprovalRules> = Arc::default(),
        /// Maximum bytes of the conversation that are sent to an external agent that does not know it.
        backend_history_bytes: usize = 256 * 1024,
        /// Maximum bytes of an external agent's output that one turn records: text, thoughts, calls with their results, notices. Beyond it the turn fails
        /// with `backend_output_limit`. Default: 16 MiB, as for a command's stored output.
        backend_output_bytes: usize = 16 * 1024 * 1024,
        /// When the history of a session is compacted automatically; with `None`, only if its capability `compaction` requests it.
        compaction: Option<CompactionSettings> = None,
        /// If a capability has more tools than this, the model finds them with `tool_search` instead of getting them all; all MCP servers count as one
        /// capability. `None` is never. Tools that are always or never deferred are unaffected.
        defer_above: Option<usize> = None,
        /// The operator's secrets, which tools insert where permitted. Tool output and records contain their names instead.
        secrets: NamedSecrets = NamedSecrets::default(),
    }
}
