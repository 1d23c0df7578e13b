//! Error codes, identical over HTTP, RPC and the command line.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_macros::wire;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $status:literal;)*) => {
        /// A stable error code; `docs/errors.md` explains each.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        // The derive does not see names that a macro sets; a test verifies that they are equal.
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(rename_all = "snake_case"))]
        pub enum ErrorCode {
            $($(#[$doc])* #[serde(rename = $code)] $variant,)*
        }

        impl ErrorCode {
            /// All codes in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the name.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            /// Returns the HTTP status that goes with the code.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }
        }
    };
}

codes! {
    /// The body is not JSON.
    InvalidJson = "invalid_json", 400;
    /// A query value cannot be read or is out of range.
    InvalidQuery = "invalid_query", 400;
    /// The prompt is blank.
    PromptRequired = "prompt_required", 400;
    /// The model of a thread is blank.
    ModelRequired = "model_required", 400;
    /// A change contains no changeable field.
    NoChanges = "no_changes", 400;
    /// A decision is neither `allow` nor `deny`.
    InvalidDecision = "invalid_decision", 400;
    /// An undo or retry goes back further than the thread.
    DepthOutOfRange = "depth_out_of_range", 400;
    /// The thread to save has no messages.
    NothingToSave = "nothing_to_save", 400;
    /// No setting has this name.
    UnknownSetting = "unknown_setting", 400;
    /// No provider has this name.
    UnknownProvider = "unknown_provider", 400;
    /// The configuration file is invalid and was not reloaded.
    ConfigInvalid = "config_invalid", 400;
    /// The token is missing or wrong.
    Unauthorized = "unauthorized", 401;
    /// The token does not cover the request.
    Forbidden = "forbidden", 403;
    /// There is no such route.
    UnknownPath = "unknown_path", 404;
    /// There is no such thread.
    ThreadNotFound = "thread_not_found", 404;
    /// There is no such turn.
    TurnNotFound = "turn_not_found", 404;
    /// No such external call waits for a result.
    ToolCallNotPending = "tool_call_not_pending", 404;
    /// No such approval waits for a decision.
    ApprovalNotPending = "approval_not_pending", 404;
    /// No such question waits for an answer.
    UserInputNotPending = "user_input_not_pending", 404;
    /// There is no such environment.
    EnvironmentNotFound = "environment_not_found", 404;
    /// There is no such saved session.
    SessionNotFound = "session_not_found", 404;
    /// There is no such task.
    TaskNotFound = "task_not_found", 404;
    /// There is no such automation.
    AutomationNotFound = "automation_not_found", 404;
    /// There is no such run of the fleet.
    FleetRunNotFound = "fleet_run_not_found", 404;
    /// There is no such worker of the fleet.
    WorkerNotFound = "worker_not_found", 404;
    /// There is no such run of an agent that a model started.
    AgentRunNotFound = "agent_run_not_found", 404;
    /// There is no such skill.
    SkillNotFound = "skill_not_found", 404;
    /// There is no such MCP server.
    ServerNotFound = "server_not_found", 404;
    /// The route does not serve this method.
    MethodNotAllowed = "method_not_allowed", 405;
    /// The client took too long to send its request.
    RequestTimeout = "request_timeout", 408;
    /// A turn is running.
    TurnActive = "turn_active", 409;
    /// No turn is running.
    NoActiveTurn = "no_active_turn", 409;
    /// The named turn is not the one that runs.
    TurnNotActive = "turn_not_active", 409;
    /// The turn has started or ended, so that its input is no longer in the queue.
    TurnNotQueued = "turn_not_queued", 409;
    /// The turn is being interrupted.
    TurnStopping = "turn_stopping", 409;
    /// The thread cannot be forked at this turn.
    NotForkable = "not_forkable", 409;
    /// The thread cannot be replayed.
    NotReplayable = "not_replayable", 409;
    /// Another program changed the files that were to be restored.
    FilesChanged = "files_changed", 409;
    /// The file contents to restore are not stored.
    FilesNotKept = "files_not_kept", 409;
    /// Files that were to be restored are being changed.
    FilesBusy = "files_busy", 409;
    /// The same idempotency key came with another request.
    IdempotencyConflict = "idempotency_conflict", 409;
    /// An environment of that id exists.
    EnvironmentExists = "environment_exists", 409;
    /// A turn works in the environment.
    EnvironmentInUse = "environment_in_use", 409;
    /// The environment cannot be removed.
    EnvironmentProtected = "environment_protected", 409;
    /// The run of the fleet has ended.
    FleetRunEnded = "fleet_run_ended", 409;
    /// The worker has no task.
    WorkerIdle = "worker_idle", 409;
    /// The configuration declares the automation, so that requests cannot change it.
    AutomationDeclared = "automation_declared", 409;
    /// The setting is in the configuration file, and changes apply after a restart.
    RestartRequired = "restart_required", 409;
    /// The provider has neither a key nor an address.
    ProviderUnusable = "provider_unusable", 409;
    /// The body exceeds the size limit.
    BodyTooLarge = "body_too_large", 413;
    /// The body is not declared as JSON.
    UnsupportedMediaType = "unsupported_media_type", 415;
    /// The `Host` of the request is not a name of the daemon.
    ForeignHost = "foreign_host", 421;
    /// A field is missing, has the wrong type or a value that is not allowed.
    InvalidField = "invalid_field", 422;
    /// A tool cannot be registered.
    InvalidToolSpec = "invalid_tool_spec", 422;
    /// A tool has the name of a built-in one.
    ToolNameTaken = "tool_name_taken", 422;
    /// A directory lies outside of its environment.
    CwdOutsideRoot = "cwd_outside_root", 422;
    /// A directory does not exist.
    CwdNotFound = "cwd_not_found", 422;
    /// Environments of this kind are not served.
    UnsupportedKind = "unsupported_kind", 422;
    /// The model or external agent does not accept such input.
    UnsupportedInput = "unsupported_input", 422;
    /// A schedule is invalid, never fires, or has an unknown time zone.
    InvalidSchedule = "invalid_schedule", 422;
    /// A configured limit is reached.
    LimitReached = "limit_reached", 429;
    /// The daily budget of all threads, or of the token's threads, is used up.
    BudgetExceeded = "budget_exceeded", 429;
    /// An internal error, which is in the log.
    Internal = "internal", 500;
    /// Files were restored only in part.
    FilesNotRestored = "files_not_restored", 500;
    /// The operation is not implemented.
    NotImplemented = "not_implemented", 501;
    /// The thread or turn needs something that is not configured here, such as an external agent.
    NotConfigured = "not_configured", 503;
    /// A part of the daemon does not work now; only `GET /ready` returns this.
    NotReady = "not_ready", 503;
    /// The stored tokens cannot be read now.
    TokensUnavailable = "tokens_unavailable", 503;
    /// The store cannot be read or written now.
    StoreUnavailable = "store_unavailable", 503;
    /// The daemon is shutting down.
    ShuttingDown = "shutting_down", 503;
}

/// The `error_code` of a turn whose final answer does not match its `output_schema`, also after the repair.
pub const OUTPUT_SCHEMA_MISMATCH: &str = "output_schema_mismatch";

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The code, the message and the details of an error.
#[wire(omit_none)]
pub struct ErrorDetail {
    /// Message for people.
    pub message: String,
    /// The HTTP status.
    pub status: u16,
    /// The stable name; older servers send none.
    pub code: Option<ErrorCode>,
    /// Values by name, such as `turn_id`, `field` or `request_id`.
    pub details: Option<Value>,
}

/// The body of every error response.
#[wire]
pub struct ErrorBody {
    /// The code, the message and the details.
    pub error: ErrorDetail,
}

impl ErrorBody {
    /// Creates the body for a code, which determines the status.
    pub fn new(code: ErrorCode, message: impl Into<String>, details: Option<Value>) -> Self {
        Self {
            error: ErrorDetail {
                message: message.into(),
                status: code.status(),
                code: Some(code),
                details,
            },
        }
    }
}
