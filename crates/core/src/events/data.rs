//! The payloads of events.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_macros::omit_none;

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

/// Declares payloads. Fields before the inner `;` are required; those after it are optional and omitted if unset.
macro_rules! payloads {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $ty:ty,)* $(; $($(#[$odoc:meta])* $opt:ident: $oty:ty,)*)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[allow(missing_docs, reason = "the fields are named for what they hold; the table of events explains them")]
        pub struct $name {
            $(pub $field: $ty,)*
            $($($(#[$odoc])* #[serde(default, skip_serializing_if = "Option::is_none")] pub $opt: Option<$oty>,)*)?
        }
        impl $name {
            /// Creates the payload without its optional fields.
            #[allow(clippy::new_without_default, reason = "an empty payload is not a default")]
            #[must_use]
            pub fn new($($field: $ty),*) -> Self {
                Self { $($field,)* $($($opt: None,)*)? }
            }
        }
    )*};
}

/// Details of an error by name.
pub type ErrorFields = BTreeMap<String, Value>;

/// The names of changed fields. Records of an older version also contain the values, which are dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredChanges")]
pub struct ChangedFields(pub Vec<String>);

#[derive(Deserialize)]
#[serde(untagged)]
enum StoredChanges {
    Names(Vec<String>),
    Values(BTreeMap<String, Value>),
}

impl From<StoredChanges> for ChangedFields {
    fn from(stored: StoredChanges) -> Self {
        Self(match stored {
            StoredChanges::Names(names) => names,
            StoredChanges::Values(values) => values.into_keys().collect(),
        })
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
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

/// The decision about a call that required approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The call may run.
    Allow,
    /// The call must not run.
    Deny,
}

/// The origin of a call, if it was not this runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOrigin {
    /// An external agent executed the call and reported it.
    Observed,
}

/// The prompt that an external agent receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendPrompt {
    /// The turn's messages: the agent knows the earlier conversation.
    Words,
    /// The conversation so far as text, and the turn's messages.
    History,
    /// A notice that the process was lost and the agent should continue, and any input since.
    GoOn,
}

/// How a run of an external agent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendRunEnd {
    /// The agent is done.
    Completed,
    /// The model refused to continue.
    Refused,
    /// The model reached its output limit.
    LengthLimit,
    /// It was interrupted.
    Interrupted,
    Failed,
    /// The process that supervised it was lost.
    Lost,
}

/// The kind of a notice from an external agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendNoticeKind {
    /// The agent no longer knows its session and starts with the history.
    SessionLost,
    /// The prompt is sent again; the agent may already have received it.
    PromptRepeated,
    /// It retries a model call.
    Retry,
    /// Its provider's rate limit is reached.
    Limit,
    /// Its provider's rate limit is almost reached.
    LimitNear,
    /// A warning of the agent.
    Warning,
    /// The agent wrote a line that could not be parsed.
    Raw,
    /// It wrote a line that is too long to be read.
    LineCut,
}

/// A reference to the prompt of a model call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptRef {
    /// The number of messages sent.
    pub message_count: usize,
    /// The last of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_message_id: Option<MessageId>,
    /// The chained digest of their ids.
    pub digest: String,
}

/// The model's answer apart from its text, which is in the `output.message.completed` event of the same step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LlmGenerationOutput {
    /// The text, if no message of the step contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
}

impl LlmGenerationOutput {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The retries of a model call and their reason.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RetryMetadata {
    /// The number of failed attempts before the last one.
    pub retries: u32,
    /// The kind of the last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Total wait time, in milliseconds.
    pub waited_ms: u64,
}

/// How a model call went.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LlmGenerationMetadata {
    pub model: String,
    pub provider: Option<String>,
    pub usage: Option<TokenUsage>,
    /// Duration in milliseconds.
    pub duration_ms: Option<u64>,
    /// Time to the first delta, in milliseconds.
    pub time_to_first_token_ms: Option<u64>,
    /// Whether it succeeded.
    pub success: bool,
    /// Why it failed.
    pub error: Option<String>,
    /// Why the model stopped.
    pub finish_reasons: Option<Vec<String>>,
    /// The provider's id of the answer.
    pub response_id: Option<String>,
    pub retry: Option<RetryMetadata>,
}

/// A model call, with a reference to its prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LlmGenerationData {
    /// The messages sent.
    pub prompt: PromptRef,
    /// The names of the tools that were offered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    #[serde(default, skip_serializing_if = "LlmGenerationOutput::is_empty")]
    pub output: LlmGenerationOutput,
    /// How it went.
    pub metadata: LlmGenerationMetadata,
}

/// The turn's outline so far, repeated in its records so that each is readable without the earlier ones.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TurnOutline {
    /// The summary of the input.
    pub input_summary: String,
    /// The model that answers.
    pub model: Option<String>,
    /// The provider that serves the model, once a call has reported it.
    pub provider: Option<String>,
    /// When the input was sent, if it was queued.
    pub created_at: Option<DateTime<Utc>>,
    /// When the turn began.
    pub started_at: Option<DateTime<Utc>>,
    /// Its items, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub item_ids: Vec<ItemId>,
    /// The number of steering messages.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub steer_count: u32,
    /// The number of resumptions after a lost process.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resumed_count: u32,
    /// The environment in which its tools run.
    pub environment: Option<TurnEnvironment>,
    /// Labels that the caller set.
    pub labels: Option<TurnLabels>,
    /// Whether the turn only compacts the history.
    pub compaction: Option<bool>,
    /// The external agent that executes the turn.
    pub backend: Option<String>,
    /// Calls that did not run because their approval was refused or timed out; records of earlier versions do not have it.
    #[serde(default, skip_serializing_if = "UnapprovedCalls::is_empty")]
    pub unapproved: UnapprovedCalls,
    /// Whether its answer must match a schema; a turn that completed has such an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_output_schema: bool,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The summary of a call, for display.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallSummary {
    /// The provider's id of the call.
    pub tool_call_id: String,
    pub name: String,
    /// The tool's name to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
}

/// Tools of MCP servers, from this turn on.
pub type ToolsDiscoveredData = DiscoveredTools;

payloads! {
    /// A session was created.
    SessionStartedData { ; title: String,
        /// The thread record, if the host has one.
        record: Box<ThreadRecord>,
    }
    /// A session's record was changed.
    SessionUpdatedData { ; title: String,
        /// The thread record, if the host has one.
        record: Box<ThreadRecord>,
        /// The fields that changed. The record has their new values.
        #[serde(alias = "changes")]
        changed_fields: ChangedFields,
    }
    /// A session was forked from another one.
    SessionForkedData { parent_session_id: SessionId, parent_sequence: u64, ;
        /// The thread record, if the host has one.
        record: Box<ThreadRecord>,
        /// The first turn of the parent that the session does not have.
        dropped_turn_id: TurnId,
        /// How many turns before that one were dropped too.
        depth: u32,
    }
    /// The conversation was rewound to the end of an earlier turn. Later records remain in the journal but are no longer part of the conversation.
    SessionRewoundData { to_sequence: u64, to_turn: TurnId, }
    /// A turn started work in the session.
    SessionActivatedData { input_message_id: MessageId, ;
        /// The input as text.
        input_text: String,
    }
    /// The session has no running turn.
    SessionIdledData { }
    /// An input at its position in the conversation.
    InputMessageData { message: Message, }
    /// An input was queued.
    InputQueuedData { turn_id: TurnId, message: Message, ; deadline_ms: u64,
        /// Whether it goes to the front of the queue.
        ahead: bool,
    }
    /// A change of a queued input. Removing one is recorded as `turn.cancelled`.
    InputEditedData { turn_id: TurnId, ;
        /// The new content; absent if it is unchanged.
        content: Vec<ContentPart>,
        /// The new index in the queue, from 0; absent if it is unchanged.
        position: usize,
    }
    /// The first text of an answer arrived.
    OutputMessageStartedData { message_id: MessageId, }
    /// A delta of an answer's text.
    OutputMessageDeltaData { turn_id: TurnId, delta: String, ;
        /// The answer's message, if the step does not determine it.
        message_id: MessageId,
    }
    /// The complete answer.
    OutputMessageCompletedData { message: Message, ; metadata: Value, usage: TokenUsage, error_code: String, error_fields: ErrorFields,
        /// When its first text was shown, if that was earlier.
        started_at: DateTime<Utc>,
        /// Whether it was cut short, by an interrupt or because the process was lost.
        interrupted: bool,
    }
    /// An answer was replaced, by a guardrail for example.
    OutputMessageReplacedData { message: Message, ; reason: String, }
    /// The final answer does not match the turn's schema, and the model is asked to repair it. The errors do not repeat the answer's values.
    OutputRejectedData { turn_id: TurnId, message_id: MessageId, errors: Vec<String>, }
    /// A turn begins.
    TurnStartedData { turn_id: TurnId, input_message_id: MessageId, ; input_content: Vec<ContentPart>,
        /// The digest of the resolved configuration.
        config: String,
        /// When the turn is stopped.
        deadline: DateTime<Utc>,
        outline: TurnOutline,
        /// The digest of the tools that servers offered it, if any did.
        discovered: String,
    }
    /// A running turn received another message.
    TurnSteeredData { turn_id: TurnId, message_id: MessageId, ;
        /// The message as text.
        input_text: String,
    }
    /// A client asked the turn to stop.
    TurnInterruptRequestedData { turn_id: TurnId, ; reason: String, }
    /// A turn resumes after its process was lost. From here on another process executes it.
    TurnResumedData { turn_id: TurnId, attempt: u32, ;
        /// By how many milliseconds the open waits of the turn expire later: the time since the turn's last record.
        extended_ms: u64,
    }
    /// The process that executes a turn releases it in an orderly shutdown. The turn stays open, and this does not count as a crash.
    TurnReleasedData { turn_id: TurnId, }
    /// A turn completed with an answer.
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
    /// A delta of the model's reasoning.
    ReasonThinkingDeltaData { turn_id: TurnId, delta: String, }
    /// The model's complete reasoning.
    ReasonThinkingCompletedData { thinking: String, ;
        /// When its first text was shown, if that was earlier.
        started_at: DateTime<Utc>,
        /// Whether it was cut short, by an interrupt or because the process was lost.
        interrupted: bool,
    }
    /// The calls of an answer begin.
    ActStartedData { tool_call_count: usize, }
    /// All calls of an answer have a result.
    ActCompletedData { tool_call_count: usize, success_count: usize, }
    /// A call begins: its intent.
    ToolStartedData { tool_call: ToolCall, side_effects: SideEffectClass, ; display_name: String, narration: String,
        /// The kind of calls that the tool makes, for display.
        shape: ToolShape,
        /// Whether an external client executes it.
        external: bool,
        /// The origin, if it was not this runtime.
        origin: ToolOrigin,
    }
    /// A call ended; the parts are those of its message.
    ToolCompletedData { tool_call_id: String, tool_name: String, success: bool, status: ToolStatus, ; result: Vec<ContentPart>, error: String, duration_ms: u64, capability_id: String, display_name: String,
        /// When it began; absent if it never did.
        started_at: DateTime<Utc>,
        arguments: Value,
        /// The kind of calls that the tool makes, for display.
        shape: ToolShape,
        /// Whether an external client executed it.
        external: bool,
        /// Whether the result is a person's answer, meant for the model only.
        private: bool,
        /// The approval decision, if one was required.
        approval: Decision,
        /// The origin, if it was not this runtime.
        origin: ToolOrigin,
        /// Whether the runtime refused it before it ran, so that the result is not the tool's.
        refused: bool,
    }
    /// Progress of a call.
    ToolProgressData { tool_call_id: String, tool_name: String, message: String, }
    /// Output of a call while it runs.
    ToolOutputDeltaData { tool_call_id: String, tool_name: String, delta: String, stream: String, }
    /// An external client must return the results of these calls.
    ToolCallRequestedData { tool_calls: Vec<ToolCall>, tool_summaries: Vec<ToolCallSummary>, ; headline: String, connection_required: String, expires_at: DateTime<Utc>, }
    /// An external client returned the result of a call.
    ToolCallResolvedData { tool_call_id: String, success: bool, digest: String, }
    /// A call received no result in time.
    ToolCallTimeoutData { tool_call_id: String, ; timeout_ms: u64, }
    /// The turn ended before a call was answered.
    ToolCallCanceledData { tool_call_id: String, reason: String, }
    /// A call requires approval.
    ApprovalRequiredData { tool_call: ToolCall, digest: String, ; display_name: String, expires_at: DateTime<Utc>,
        /// The external agent's ID of its request, if it made one.
        request_id: String,
    }
    /// A call was approved or denied, by a user or by the end of the turn.
    ApprovalDecidedData { tool_call_id: String, decision: Decision, ; reason: String,
        /// Whether the approval timed out.
        timed_out: bool,
        /// Whether later calls of the turn are approved automatically.
        remember: bool,
        /// Whether the same call with the same arguments is approved automatically in this project.
        project: bool,
        /// Whether the external agent withdrew its request before a decision.
        withdrawn: bool,
    }
    /// An approval timed out.
    ApprovalTimeoutData { tool_call_id: String, ; timeout_ms: u64, }
    /// The user must answer a question.
    UserInputRequiredData { request_id: String, prompt: Value, ; expires_at: DateTime<Utc>, }
    /// The question was answered.
    UserInputAnsweredData { request_id: String, answer: Value, }
    /// The question was cancelled.
    UserInputCanceledData { request_id: String, reason: String, }
    /// A call without a result got one.
    TranscriptRepairedData { tool_call_id: String, tool_name: String, message_id: MessageId, }
    /// A capability was used.
    CapabilityUsageData { capability_id: String, ; details: Value, }
    /// A child session started.
    SubagentStartedData { child_session_id: SessionId, name: String, ; task: String, }
    /// A child session ended.
    SubagentCompletedData { child_session_id: SessionId, name: String, success: bool, ; result: String, }
    /// A task was created.
    TaskCreatedData { task_id: String, title: String, }
    /// A task changed.
    TaskUpdatedData { task_id: String, status: String, }
    /// A compaction of the history started.
    ContextCompactingData { message_count: usize, ;
        /// Whether compaction was automatic.
        auto: bool,
        /// The number of newest messages left out of the summary; a requested compaction summarizes all messages.
        kept_messages: usize,
    }
    /// A compaction of the history ended.
    ContextCompactedData { messages_before: usize, messages_after: usize, ; summary: String,
        /// Whether compaction was automatic.
        auto: bool,
        started_at: DateTime<Utc>,
        usage: TokenUsage,
        /// Why it failed; then nothing changed.
        error: String,
        /// Whether it was interrupted; then nothing changed.
        interrupted: bool,
        /// The number of newest messages that the model still reads verbatim after the summary.
        kept_messages: usize,
    }
    /// An external agent is about to execute the turn: the intent, recorded before its process starts.
    BackendStartedData { backend: String, iteration: usize, session: SessionChoice, prompt: BackendPrompt, attempts: Attempts, ;
        /// The messages to send to the agent in this run.
        message_ids: Vec<MessageId>,
    }
    /// The session that an external agent is about to start has an ID; its process starts after this record.
    BackendSessionChosenData { session_id: String, }
    /// An external agent established or resumed its session.
    BackendEstablishedData { session_id: String, ; model: String, }
    /// A running external agent accepted a message to the turn.
    BackendSteeredData { message_id: MessageId, }
    /// A notice about an external agent.
    BackendNoticeData { kind: BackendNoticeKind, message: String, }
    /// The reported usage of a running external agent so far. It is the run's usage if the run is interrupted.
    BackendUsageData { usage: TokenUsage, }
    /// A run of an external agent ended.
    BackendCompletedData { backend: String, end: BackendRunEnd, ;
        /// The session, if it was established.
        session_id: String,
        /// Cumulative usage of the session.
        totals: SessionTotals,
        usage: TokenUsage, error: String, error_kind: BackendErrorKind, duration_ms: u64,
    }
    /// The rate limit of an external agent's provider is reached; the run is repeated at that time.
    BackendWaitingData { until: DateTime<Utc>, attempts: Attempts, waits: u32, }
    /// A file was written.
    FileWrittenData { path: String, size_bytes: i64, }
    /// A schedule started a turn.
    ScheduleTriggeredData { schedule_id: String, }
    /// Records were pruned.
    JournalPrunedData { first_sequence: u64, last_sequence: u64, ; digest: String, }
    /// An event of an application.
    CustomData { name: String, payload: Value, }
}
