//! Agents that models start, each with a thread of its own.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The answer of `GET /v1/agent-runs`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentRunList {
    /// The runs, newest first.
    pub runs: Vec<AgentRun>,
}

/// The body of `POST /v1/threads/{id}/agent-runs/nudge`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NudgeAgentRuns {
    /// The agents that work for the thread: 1 to 64.
    pub agent_ids: Vec<String>,
}

/// The answer of `POST /v1/threads/{id}/agent-runs/nudge`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NudgedAgentRuns {
    /// Whether the turn's model reads of it; `false` if none of the agents runs any more.
    pub accepted: bool,
    /// Whether the model has an earlier nudge still to read, so that nothing was added.
    pub coalesced: bool,
    /// ID of the thread, `thr_…`.
    pub thread_id: String,
    /// Its running turn.
    pub turn_id: String,
    /// The agents that still run.
    pub agent_ids: Vec<String>,
}

/// What an agent that a model started was asked to do, and how far it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentRun {
    /// What it was asked to do.
    pub spec: AgentRunSpec,
    /// `subagent`.
    pub actor_kind: String,
    /// The run of the agent that it works for, where that is one too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// The thread that it works for.
    pub owner_session_id: String,
    /// The turn that it works for.
    pub parent_turn_id: String,
    /// Its own thread.
    pub thread_id: String,
    /// The turn of that thread that began last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// How far it is.
    pub status: AgentRunStatus,
    /// When it was started, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// When its newest event was recorded.
    pub updated_at_ms: i64,
    /// When its first turn began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at_ms: Option<i64>,
    /// When its last turn ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at_ms: Option<i64>,
    /// The beginning of what was said last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_message: Option<String>,
    /// The same, once it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_summary: Option<String>,
    /// Why it failed or was stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How many model calls and tool calls its last turn has begun.
    pub steps_taken: u64,
    /// What its ended turns used.
    pub usage: AgentRunUsage,
    /// How to talk to it.
    pub follow_up: AgentRunFollowUp,
    /// How a client can continue the agent's work.
    pub takeover: AgentRunTakeover,
    /// Always `self_report_only`: the result was not verified.
    pub verification: AgentRunVerification,
    /// Always empty: the thread has the files.
    pub artifacts: Vec<Value>,
    /// Always empty: the events are those of the thread.
    pub events: Vec<Value>,
}

/// What an agent was asked to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentRunSpec {
    /// Identifies the agent: its thread.
    pub worker_id: String,
    /// Identifies the run: the same.
    pub run_id: String,
    /// The run of the agent that it works for, where that is one too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// How the model named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_name: Option<String>,
    /// What it was asked to do, in short.
    pub objective: String,
    /// `general`.
    pub agent_type: String,
    /// Model, without its provider.
    pub model: String,
    /// Absolute path of the working directory.
    pub workspace: String,
    /// `fresh`: it knows nothing of the conversation.
    pub context_mode: String,
    /// Always `false`.
    pub fork_context: bool,
    /// `inherited`.
    pub tool_profile: String,
    /// Always 0: what ends it is a budget.
    pub max_steps: u32,
    /// How many agents are above it.
    pub spawn_depth: u32,
    /// External agent that executes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
}

/// How far an agent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum AgentRunStatus {
    /// Its turn has not begun.
    Starting,
    /// The agent's turn is open.
    Running,
    /// It waits for an approval, an answer or a result.
    WaitingForUser,
    /// It is done.
    Completed,
    /// Ended with an error.
    Failed,
    /// It was stopped.
    Interrupted,
}

/// What an agent used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentRunUsage {
    /// `reported`, or `unknown` before its first turn has ended.
    pub status: String,
    /// Tokens that it read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Tokens that it wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Sum of input and output tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// What is counted.
    pub note: String,
}

/// How to talk to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentRunFollowUp {
    /// Method and path of the request to send.
    pub tool: String,
    /// ID of the agent's thread, `thr_…`.
    pub agent_id: String,
    /// In which states.
    pub accepted_statuses: Vec<AgentRunStatus>,
}

/// How a client can continue an agent's work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentRunTakeover {
    /// `thread`.
    pub kind: String,
    /// Always `true`.
    pub supported: bool,
    /// ID of the agent's thread, `thr_…`.
    pub agent_id: String,
    /// What to do.
    pub instructions: String,
}

/// Whether the result of an agent was verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentRunVerification {
    /// `self_report_only`.
    pub status: String,
    /// What that means.
    pub summary: String,
}
