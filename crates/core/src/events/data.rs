//! The payloads of events.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::TokenUsage;
use crate::backend::{Attempts, BackendErrorKind, SessionChoice, SessionTotals};
use crate::items::UnapprovedCalls;
use crate::mcp::DiscoveredTools;
use crate::message::{ContentPart, Message};
use crate::thread_record::ThreadRecord;
use crate::tool_types::{SideEffectClass, ToolCall, ToolShape};
use crate::turn_environment::TurnEnvironment;
use crate::turn_request::TurnLabels;
use crate::typed_id::{ItemId, MessageId, SessionId, TurnId};

/// Declares payloads: required fields are written always, `?` fields only when set.
macro_rules! payloads {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $ty:ty $(= $default:ident)?,)* $(; $($(#[$odoc:meta])* $opt:ident: $oty:ty,)*)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[allow(missing_docs, reason = "the fields are named for what they hold; the table of events explains them")]
        pub struct $name {
            $(pub $field: $ty,)*
            $($($(#[$odoc])* #[serde(default, skip_serializing_if = "Option::is_none")] pub $opt: Option<$oty>,)*)?
        }
    )*};
}

/// Details of an error by name.
pub type ErrorFields = BTreeMap<String, Value>;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// It did what it should.
    Success,
    /// It failed, or was refused; the model reads why.
    Error,
    /// It took too long.
    Timeout,
    /// It was stopped, or never started, because the turn ended.
    Cancelled,
    /// The process died while it ran, and repeating it is not safe.
    Unknown,
}

/// What was decided about a call that asked for approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The call may run.
    Allow,
    /// The call must not run.
    Deny,
}

/// Who made a call, where it was not this runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOrigin {
    /// A backend made it by itself and told of it.
    Observed,
}

/// What a backend is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendPrompt {
    /// What was said to the turn: the backend knows what came before.
    Words,
    /// The conversation so far as text, and what was said to the turn.
    History,
    /// That its process was gone and it is to go on, and what was said to the turn since.
    GoOn,
}

/// How a run of a backend ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendRunEnd {
    /// The agent is done.
    Completed,
    /// The model refused to go on.
    Refused,
    /// The model wrote as much as it may.
    LengthLimit,
    /// It was interrupted.
    Interrupted,
    /// It failed.
    Failed,
    /// The process that watched over it was gone.
    Lost,
}

/// What a remark about a backend is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendNoticeKind {
    /// The backend does not know its session any more, and starts with our history.
    SessionLost,
    /// It is told once more what it may have heard before.
    PromptRepeated,
    /// It tries a model call again.
    Retry,
    /// Its provider lets it do no more for now.
    Limit,
    /// Its provider will soon let it do no more.
    LimitNear,
    /// It warns of something.
    Warning,
    /// It said something that nobody here understands.
    Raw,
    /// It wrote a line that is too long to be read.
    LineCut,
}

/// Names the prompt of a model call without holding it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptRef {
    /// How many messages were sent.
    pub message_count: usize,
    /// The last of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_message_id: Option<MessageId>,
    /// The chained digest of their ids.
    pub digest: String,
}

/// What the model answered, beside the text: that stands in the `output.message.completed` event of the same step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LlmGenerationOutput {
    /// The text, where no message of the step holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
}

impl LlmGenerationOutput {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How often a model call was tried again, and why.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RetryMetadata {
    /// How many attempts failed before.
    pub retries: u32,
    /// The kind of the last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// How long was waited in all.
    pub waited_ms: u64,
}

/// How a model call went.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LlmGenerationMetadata {
    /// The model.
    pub model: String,
    /// Who serves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// What it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// How long until the first piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_to_first_token_ms: Option<u64>,
    /// Whether it succeeded.
    pub success: bool,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why the model stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reasons: Option<Vec<String>>,
    /// The provider's id of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// How often it was tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryMetadata>,
}

/// A model call, with a reference to its prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LlmGenerationData {
    /// What was sent.
    pub prompt: PromptRef,
    /// The names of the tools that were offered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// What came back.
    #[serde(default, skip_serializing_if = "LlmGenerationOutput::is_empty")]
    pub output: LlmGenerationOutput,
    /// How it went.
    pub metadata: LlmGenerationMetadata,
}

/// What a turn is and has shown so far, so that a record of it can be read without the ones before.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TurnOutline {
    /// The input in short.
    pub input_summary: String,
    /// The model that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Who serves the model, once a call has told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// When the input was said, if it waited for its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<DateTime<Utc>>,
    /// When the turn began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<DateTime<Utc>>,
    /// What was shown of it, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub item_ids: Vec<ItemId>,
    /// How often it was told more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub steer_count: u32,
    /// How often it went on after the process was gone.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resumed_count: u32,
    /// Where its tools touch the world.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<TurnEnvironment>,
    /// What the caller wants to find on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<TurnLabels>,
    /// Whether it only makes the history shorter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compaction: Option<bool>,
    /// The whole agent that carries it in our place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Calls that did not run because their approval was refused or timed out; records of earlier versions do not have it.
    #[serde(default, skip_serializing_if = "UnapprovedCalls::is_empty")]
    pub unapproved: UnapprovedCalls,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A call in words for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallSummary {
    /// The provider's id of the call.
    pub tool_call_id: String,
    /// The tool.
    pub name: String,
    /// The tool's name to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
}

/// What MCP servers offer, from this turn on.
pub type ToolsDiscoveredData = DiscoveredTools;

payloads! {
    /// A session exists.
    SessionStartedData { ; title: String,
        /// The record of the thread that the session is, where the host has one.
        record: Box<ThreadRecord>,
    }
    /// A session's record was changed.
    SessionUpdatedData { ; title: String,
        /// The record of the thread that the session is, where the host has one.
        record: Box<ThreadRecord>,
        /// The fields that changed, with their new values.
        changes: Value,
    }
    /// A session was made from another one.
    SessionForkedData { parent_session_id: SessionId, parent_sequence: u64, ;
        /// The record of the thread that the session is, where the host has one.
        record: Box<ThreadRecord>,
        /// The first turn of the parent that the session does not have.
        dropped_turn_id: TurnId,
        /// How many turns before that one were to be dropped too.
        depth: u32,
    }
    /// The conversation ends after an earlier turn again; what came later stays recorded and is no longer part of it.
    SessionRewoundData { to_sequence: u64, to_turn: TurnId, }
    /// A turn works in the session.
    SessionActivatedData { input_message_id: MessageId, ;
        /// The input as people read it.
        input_text: String,
    }
    /// No turn works in the session any more.
    SessionIdledData { }
    /// An input, in its place.
    InputMessageData { message: Message, }
    /// An input that waits for its turn.
    InputQueuedData { turn_id: TurnId, message: Message, ; deadline_ms: u64,
        /// Whether it goes before those that wait already.
        ahead: bool,
    }
    /// A change of a queued input. Removing one is recorded as `turn.cancelled`.
    InputEditedData { turn_id: TurnId, ;
        /// The new content; absent if it is unchanged.
        content: Vec<ContentPart>,
        /// The new index in the queue, from 0; absent if it is unchanged.
        position: usize,
    }
    /// The first text of an answer is there.
    OutputMessageStartedData { message_id: MessageId, }
    /// More text of an answer.
    OutputMessageDeltaData { turn_id: TurnId, delta: String, ;
        /// Which answer, where that does not follow from the step.
        message_id: MessageId,
    }
    /// An answer, whole.
    OutputMessageCompletedData { message: Message, ; metadata: Value, usage: TokenUsage, error_code: String, error_fields: ErrorFields,
        /// When its first text was shown, if that was earlier.
        started_at: DateTime<Utc>,
        /// Whether it was cut short, by an interrupt or because the process was gone.
        interrupted: bool,
    }
    /// An answer was replaced, by a guardrail for example.
    OutputMessageReplacedData { message: Message, ; reason: String, }
    /// A turn begins.
    TurnStartedData { turn_id: TurnId, input_message_id: MessageId, ; input_content: Vec<ContentPart>,
        /// The digest of the resolved configuration.
        config: String,
        /// When the turn is stopped.
        deadline: DateTime<Utc>,
        /// What the turn is.
        outline: TurnOutline,
        /// The digest of the tools that servers offered it, if any did.
        discovered: String,
    }
    /// A running turn was told more.
    TurnSteeredData { turn_id: TurnId, message_id: MessageId, ;
        /// What was said, as people read it.
        input_text: String,
    }
    /// Somebody wants the turn to stop.
    TurnInterruptRequestedData { turn_id: TurnId, ; reason: String, }
    /// A turn goes on after the process was gone. From here on another process is at work on it.
    TurnResumedData { turn_id: TurnId, attempt: u32, }
    /// The process that is at work on a turn lets go of it in order; the turn stays open. That it stopped is no crash.
    TurnReleasedData { turn_id: TurnId, }
    /// A turn came to its answer.
    TurnCompletedData { turn_id: TurnId, iterations: usize, ; duration_ms: u64, usage: TokenUsage, input_content: Vec<ContentPart>, final_message_id: MessageId, final_answer_preview: String, time_to_first_token_ms: u64, tool_call_count: usize, llm_call_count: usize, status: String, outline: TurnOutline, }
    /// A turn failed.
    TurnFailedData { turn_id: TurnId, error: String, ; error_code: String, error_fields: ErrorFields, iterations: usize, duration_ms: u64, usage: TokenUsage, tool_call_count: usize, llm_call_count: usize, final_message_id: MessageId, outline: TurnOutline, }
    /// A turn was stopped.
    TurnCancelledData { turn_id: TurnId, ; reason: String, usage: TokenUsage, iterations: usize, duration_ms: u64, tool_call_count: usize, llm_call_count: usize, final_message_id: MessageId, outline: TurnOutline, }
    /// A model call begins: its intent.
    ReasonStartedData { iteration: usize, }
    /// A model call ended.
    ReasonCompletedData { success: bool, has_tool_calls: bool, tool_call_count: usize, ; text_preview: String, error: String, duration_ms: u64, usage: TokenUsage, }
    /// The model begins to think.
    ReasonThinkingStartedData { }
    /// More of what the model thinks.
    ReasonThinkingDeltaData { turn_id: TurnId, delta: String, }
    /// What the model thought, whole.
    ReasonThinkingCompletedData { thinking: String, ;
        /// When its first text was shown, if that was earlier.
        started_at: DateTime<Utc>,
        /// Whether it was cut short, by an interrupt or because the process was gone.
        interrupted: bool,
    }
    /// The calls of an answer begin.
    ActStartedData { tool_call_count: usize, }
    /// All calls of an answer have a result.
    ActCompletedData { tool_call_count: usize, success_count: usize, }
    /// A call begins: its intent.
    ToolStartedData { tool_call: ToolCall, side_effects: SideEffectClass, ; display_name: String, narration: String,
        /// What the tool says its calls are.
        shape: ToolShape,
        /// Whether somebody outside carries it out.
        external: bool,
        /// Who made it, where it was not this runtime.
        origin: ToolOrigin,
    }
    /// A call ended; the parts are those of its message.
    ToolCompletedData { tool_call_id: String, tool_name: String, success: bool, status: ToolStatus, ; result: Vec<ContentPart>, error: String, duration_ms: u64, capability_id: String, display_name: String,
        /// When it began; absent if it never did.
        started_at: DateTime<Utc>,
        arguments: Value,
        /// What the tool says its calls are.
        shape: ToolShape,
        /// Whether somebody outside carried it out.
        external: bool,
        /// Whether the result is a person's answer, meant for the model only.
        private: bool,
        /// What was decided about it, where somebody had to.
        approval: Decision,
        /// Who made it, where it was not this runtime.
        origin: ToolOrigin,
        /// Whether the runtime refused it before it ran, so that the result is not the tool's.
        refused: bool,
    }
    /// How far a call is.
    ToolProgressData { tool_call_id: String, tool_name: String, message: String, }
    /// Output of a call while it runs.
    ToolOutputDeltaData { tool_call_id: String, tool_name: String, delta: String, stream: String, }
    /// Somebody outside must answer these calls.
    ToolCallRequestedData { tool_calls: Vec<ToolCall>, tool_summaries: Vec<ToolCallSummary>, ; headline: String, connection_required: String, expires_at: DateTime<Utc>, }
    /// Somebody outside answered a call.
    ToolCallResolvedData { tool_call_id: String, success: bool, digest: String, }
    /// Nobody answered a call in time.
    ToolCallTimeoutData { tool_call_id: String, ; timeout_ms: u64, }
    /// The turn ended before a call was answered.
    ToolCallCanceledData { tool_call_id: String, reason: String, }
    /// Somebody must allow a call.
    ApprovalRequiredData { tool_call: ToolCall, digest: String, ; display_name: String, expires_at: DateTime<Utc>,
        /// The backend's name for its request, where it is one that asks.
        request_id: String,
    }
    /// Somebody, or the end of the turn, decided about a call.
    ApprovalDecidedData { tool_call_id: String, decision: Decision, ; reason: String,
        /// Whether nobody decided in time.
        timed_out: bool,
        /// Whether the rest of the turn asks nobody any more.
        remember: bool,
        /// Whether the same call, with the same arguments, asks nobody any more in its project.
        project: bool,
        /// Whether nobody decided, because the backend that asked no longer does.
        withdrawn: bool,
    }
    /// Nobody decided in time.
    ApprovalTimeoutData { tool_call_id: String, ; timeout_ms: u64, }
    /// Somebody must answer a question.
    UserInputRequiredData { request_id: String, prompt: Value, ; expires_at: DateTime<Utc>, }
    /// The question was answered.
    UserInputAnsweredData { request_id: String, answer: Value, }
    /// The question is void.
    UserInputCanceledData { request_id: String, reason: String, }
    /// A call without result was found and given one.
    TranscriptRepairedData { tool_call_id: String, tool_name: String, message_id: MessageId, }
    /// A capability was used.
    CapabilityUsageData { capability_id: String, ; details: Value, }
    /// A session that works for this one began.
    SubagentStartedData { child_session_id: SessionId, name: String, ; task: String, }
    /// A session that works for this one ended.
    SubagentCompletedData { child_session_id: SessionId, name: String, success: bool, ; result: String, }
    /// A task was made.
    TaskCreatedData { task_id: String, title: String, }
    /// A task changed.
    TaskUpdatedData { task_id: String, status: String, }
    /// The history is being made shorter.
    ContextCompactingData { message_count: usize, ;
        /// Whether nobody asked for it.
        auto: bool,
        /// How many of the newest messages stay whole; all are summarised where somebody asked for it.
        kept_messages: usize,
    }
    /// The history was made shorter.
    ContextCompactedData { messages_before: usize, messages_after: usize, ; summary: String,
        /// Whether nobody asked for it.
        auto: bool,
        started_at: DateTime<Utc>,
        usage: TokenUsage,
        /// Why it was not; then everything is as it was.
        error: String,
        /// Whether somebody stopped it; then everything is as it was.
        interrupted: bool,
        /// How many of the newest messages the model still reads whole after the summary.
        kept_messages: usize,
    }
    /// A backend is to carry the turn: its intent, before its process starts.
    BackendStartedData { backend: String, iteration: usize, session: SessionChoice, prompt: BackendPrompt, attempts: Attempts, ;
        /// What was said to the turn and is to be told now.
        message_ids: Vec<MessageId>,
    }
    /// The session that a backend is to begin has an id; its process starts after this.
    BackendSessionChosenData { session_id: String, }
    /// A backend has established its session, or taken it up.
    BackendEstablishedData { session_id: String, ; model: String, }
    /// A running backend has taken what was said to the turn.
    BackendSteeredData { message_id: MessageId, }
    /// A remark about a backend.
    BackendNoticeData { kind: BackendNoticeKind, message: String, }
    /// The usage of a running backend so far, as it reports it; it is the run's usage if the run is cut off.
    BackendUsageData { usage: TokenUsage, }
    /// A run of a backend has ended.
    BackendCompletedData { backend: String, end: BackendRunEnd, ;
        /// The session, if it was established.
        session_id: String,
        /// What was counted of the whole session.
        totals: SessionTotals,
        usage: TokenUsage, error: String, error_kind: BackendErrorKind, duration_ms: u64,
    }
    /// A backend's provider lets it do no more for now; it is asked again at that time.
    BackendWaitingData { until: DateTime<Utc>, attempts: Attempts, waits: u32, }
    /// A file was written.
    FileWrittenData { path: String, size_bytes: i64, }
    /// A schedule started a turn.
    ScheduleTriggeredData { schedule_id: String, }
    /// Records are no longer kept.
    JournalPrunedData { first_sequence: u64, last_sequence: u64, ; digest: String, }
    /// Something that an application wants to have recorded.
    CustomData { name: String, payload: Value, }
}
