//! The outcome of a run, as reported by its agent.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The outcome of a run. Only the status is required; serialization writes all fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunOutcome {
    pub status: OutcomeStatus,
    /// The outcome in a few words.
    #[serde(default)]
    pub summary: String,
    /// Evidence for the outcome.
    #[serde(default)]
    pub evidence: Vec<Evidence>,
    #[serde(default)]
    pub metrics: OutcomeMetrics,
    /// When it was judged.
    #[serde(default = "Utc::now")]
    pub timestamp: DateTime<Utc>,
}

text_enum! {
    /// An outcome in one word. Stores number the variants in this order: append new ones.
    OutcomeStatus {
        /// The goal was reached.
        Success = "success",
        /// A part of the goal was reached.
        PartialSuccess = "partial_success",
        /// The agent stopped trying.
        GiveUp = "give_up",
        /// The time limit expired.
        Timeout = "timeout",
        /// The goal was not reached.
        Failure = "failure",
        /// It ended, without a judgement.
        Done = "done",
    }
}

/// Evidence for an outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    pub kind: EvidenceKind,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub data: Value,
}

/// The source of evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceKind {
    /// The agent's own view.
    SelfAssessment,
    /// A tool's result.
    ToolResult,
    /// A changed state.
    StateChange,
    /// Verified by a third party.
    ExternalVerification,
    /// The stop reason.
    StopReason,
    /// A judge's verdict.
    Evaluator,
}

/// Resources that a run used.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OutcomeMetrics {
    pub turns: u32,
    /// Calls of tools.
    pub tool_calls: u32,
    pub duration_ms: f64,
    pub retries: u32,
    /// Actions that succeeded, by the result of their call.
    pub actions_succeeded: u32,
    /// Actions that failed, by the result of their call.
    pub actions_failed: u32,
}
