//! The wire types of the Windlass Runtime API 1.0.
//!
//! A client needs only this crate and an HTTP library. IDs are text: `thr_`, `turn_`, `item_`, `call_`, `appr_` or
//! `input_`, followed by 32 hex digits. Times are RFC 3339 in UTC. Fields may be added at any time, so readers ignore
//! unknown ones.

#![warn(missing_docs)]

pub mod api;
mod conversation;
mod daemon;
pub mod errors;
pub mod events;
mod jobs;
#[cfg(feature = "openapi")]
pub mod openapi;
pub mod operations;

pub use conversation::{
    answers, attachments, budgets, context, items, mode, queue, records, sessions, stream, threads,
    tools, turn_policy, turns, waits,
};
pub use daemon::{apps, config, environments, info, usage, workspace};
pub use jobs::{agent_runs, automations, fleet, runs, tasks};

pub use answers::{
    ApprovalAnswered, ApprovalDecision, DecideApproval, PendingApproval, PendingUserInput,
    RememberFor, UserAnswer, UserInputAnswered, UserInputAnswers,
};
pub use api::{Call, CallError, CallFuture, Page, Parts, ResponseStream, RuntimeApi};
pub use attachments::InputPart;
pub use automations::{
    AutomationRecord, AutomationRunRecord, AutomationStatus, CreateAutomation, MissedRuns,
    PatchAutomation,
};
pub use budgets::Budget;
pub use context::ContextUsage;
pub use environments::{
    CreateEnvironment, EnvironmentInfo, EnvironmentList, EnvironmentPolicy, NetworkPolicy,
    TurnEnvironmentParams,
};
pub use errors::{ErrorBody, ErrorCode, ErrorDetail};
pub use events::{EventName, EventPayload, RuntimeEventEnvelope};
pub use info::{Health, RuntimeCapabilities, RuntimeExperimentalCapabilities, RuntimeInfo};
pub use items::{Item, ItemKind};
pub use mode::Mode;
pub use queue::{EditQueuedInput, InputQueue, OnBusy, QueuedInput};
pub use records::{
    PrunedRecords, Record, RecordPage, ThreadStateAt, VerifiedThread, VerifyFinding,
};
pub use runs::{RunKind, RunLine, RunState};
pub use sessions::{
    PatchSession, PatchedSession, ResumeSession, ResumedSession, SaveSession, SavedSession,
    SessionDetail, SessionLine, SessionList, SessionMessage, SessionMetadata, SessionPeek,
    SessionView, UpdateSession, UpdatedSession,
};
pub use tasks::{
    CreateTask, HoldCause, JobHold, TaskChecklist, TaskCounts, TaskList, TaskRecord, TaskStatus,
    TaskSummary, TaskToolCall, TaskToolStatus, TimelineEntry,
};
pub use threads::{
    CreateThread, Divergence, ForkThread, ForkedThread, OnRestart, PatchResult, PatchThread,
    PatchUndone, ReplayThread, ReplayedThread, RestoredFiles, Thread, ThreadAndTurn, ThreadDetail,
    ThreadParent, ThreadSummary, UndoThread, UndoneThread,
};
pub use tools::{
    DynamicToolCallContent, DynamicToolCallParams, DynamicToolCallResult, DynamicToolItemStatus,
    DynamicToolSpec, PendingToolCall,
};
pub use turn_policy::TurnPolicyParams;
pub use turns::{
    CompactThread, RetryThread, StartTurn, Status, SteerTurn, TokenUsage, Turn, TurnDetail,
    UnapprovedCalls, WaitKind,
};
pub use usage::{UsageBucket, UsageReport, UsageTotals};
pub use waits::Wait;
pub use workspace::WorkspaceStatus;

/// The version of the API.
pub const RUNTIME_API_VERSION: &str = "1.0";
/// The version of the event envelope.
pub const RUNTIME_EVENT_ENVELOPE_SCHEMA_VERSION: u32 = 1;
/// The version of threads, turns and items.
pub const RECORD_SCHEMA_VERSION: u32 = 2;
