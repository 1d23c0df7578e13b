//! Agents that models start, each with a thread of its own.

use serde_json::Value;
use windlass_macros::wire;

/// The answer of `GET /v1/agent-runs`.
#[wire(Default)]
pub struct AgentRunList {
    /// The runs, newest first.
    pub runs: Vec<AgentRun>,
}

/// The body of `POST /v1/threads/{id}/agent-runs/nudge`.
#[wire(Default, Eq)]
pub struct NudgeAgentRuns {
    /// The agents that work for the thread: 1 to 64.
    pub agent_ids: Vec<String>,
}

/// The answer of `POST /v1/threads/{id}/agent-runs/nudge`.
#[wire(Eq)]
pub struct NudgedAgentRuns {
    /// Whether the model gets the reminder; `false` if none of the agents is running.
    pub accepted: bool,
    /// Whether an earlier nudge is still unread, so that no second one was added.
    pub coalesced: bool,
    /// ID of the thread, `thr_…`.
    pub thread_id: String,
    /// Running turn of the thread.
    pub turn_id: String,
    /// IDs of the agents that are still running.
    pub agent_ids: Vec<String>,
}

/// An agent that a model started: its request and its status.
#[wire(omit_none)]
pub struct AgentRun {
    /// Request of the agent.
    pub spec: AgentRunSpec,
    /// `subagent`.
    pub actor_kind: String,
    /// Run ID of the parent agent; absent if the parent is not an agent run.
    pub parent_run_id: Option<String>,
    /// Thread that started the agent.
    pub owner_session_id: String,
    /// Turn that started the agent.
    pub parent_turn_id: String,
    /// Thread of the agent.
    pub thread_id: String,
    /// Newest turn of the agent's thread.
    pub turn_id: Option<String>,
    /// Status at the time of the response.
    pub status: AgentRunStatus,
    /// Start time in milliseconds since 1970.
    pub created_at_ms: i64,
    /// Time of the newest event, in milliseconds since 1970.
    pub updated_at_ms: i64,
    /// Start of the first turn, in milliseconds since 1970.
    pub started_at_ms: Option<i64>,
    /// End of the last turn, in milliseconds since 1970.
    pub completed_at_ms: Option<i64>,
    /// Beginning of the newest message.
    pub latest_message: Option<String>,
    /// The same text once the agent has completed.
    pub result_summary: Option<String>,
    /// Reason of a failure or an interrupt.
    pub error: Option<String>,
    /// Number of model calls and tool calls that the last turn has started.
    pub steps_taken: u64,
    /// Token usage of the ended turns.
    pub usage: AgentRunUsage,
    /// How a client can send the agent another input.
    pub follow_up: AgentRunFollowUp,
    /// How a client can continue the agent's work.
    pub takeover: AgentRunTakeover,
    /// Always `self_report_only`: the result was not verified.
    pub verification: AgentRunVerification,
    /// Always empty; the thread contains the files.
    pub artifacts: Vec<Value>,
    /// Always empty; the thread contains the events.
    pub events: Vec<Value>,
}

/// The request of an agent.
#[wire(omit_none)]
pub struct AgentRunSpec {
    /// ID of the agent: its thread.
    pub worker_id: String,
    /// ID of the run; the same as `worker_id`.
    pub run_id: String,
    /// Run ID of the parent agent; absent if the parent is not an agent run.
    pub parent_run_id: Option<String>,
    /// Name that the model gave the agent.
    pub session_name: Option<String>,
    /// Short form of the agent's prompt.
    pub objective: String,
    /// `general`.
    pub agent_type: String,
    /// Model, without its provider.
    pub model: String,
    /// Absolute path of the working directory.
    pub workspace: String,
    /// `fresh`: the agent does not see the parent's conversation.
    pub context_mode: String,
    /// Always `false`.
    pub fork_context: bool,
    /// `inherited`.
    pub tool_profile: String,
    /// Always 0: budgets limit an agent, not steps.
    pub max_steps: u32,
    /// Number of agents above this one.
    pub spawn_depth: u32,
    /// External agent that executes the turns.
    pub backend: Option<String>,
}

/// Status of an agent.
#[wire(Copy, Eq, snake_case)]
pub enum AgentRunStatus {
    /// The first turn has not started.
    Starting,
    /// A turn is open.
    Running,
    /// The turn is parked: it waits for an approval, an answer or a result.
    WaitingForUser,
    /// The last turn completed.
    Completed,
    /// Ended with an error.
    Failed,
    /// Interrupted by a client, a user or a shutdown.
    Interrupted,
}

/// Token usage of an agent.
#[wire(Eq, omit_none)]
pub struct AgentRunUsage {
    /// `reported`, or `unknown` until the first turn has ended.
    pub status: String,
    /// Input tokens of all turns.
    pub input_tokens: Option<u64>,
    /// Output tokens of all turns.
    pub output_tokens: Option<u64>,
    /// Sum of input and output tokens.
    pub total_tokens: Option<u64>,
    /// Explanation of the numbers, for people.
    pub note: String,
}

/// How a client can send an agent another input.
#[wire(Eq)]
pub struct AgentRunFollowUp {
    /// Method and path of the request to send.
    pub tool: String,
    /// ID of the agent's thread, `thr_…`.
    pub agent_id: String,
    /// Statuses in which the agent accepts the request.
    pub accepted_statuses: Vec<AgentRunStatus>,
}

/// How a client can continue an agent's work.
#[wire(Eq)]
pub struct AgentRunTakeover {
    /// `thread`.
    pub kind: String,
    /// Always `true`.
    pub supported: bool,
    /// ID of the agent's thread, `thr_…`.
    pub agent_id: String,
    /// Instructions for people.
    pub instructions: String,
}

/// Whether the result of an agent was verified.
#[wire(Eq)]
pub struct AgentRunVerification {
    /// `self_report_only`.
    pub status: String,
    /// Explanation for people.
    pub summary: String,
}
