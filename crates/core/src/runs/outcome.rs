//! The outcome of a run, as reported by its agent.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The outcome of a run. Only the status is required; serialization writes all fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// In one word.
    pub status: OutcomeStatus,
    /// In a few.
    #[serde(default)]
    pub summary: String,
    /// Evidence for the outcome.
    #[serde(default)]
    pub evidence: Vec<Evidence>,
    /// Resources used.
    #[serde(default)]
    pub metrics: OutcomeMetrics,
    /// When it was judged.
    #[serde(default = "Utc::now")]
    pub timestamp: DateTime<Utc>,
}

/// An outcome in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeStatus {
    /// The goal was reached.
    Success,
    /// A part of it was.
    PartialSuccess,
    /// The agent stopped trying.
    GiveUp,
    /// The time was over.
    Timeout,
    /// The goal was not reached.
    Failure,
    /// It ended, without a judgement.
    Done,
}

impl OutcomeStatus {
    /// All variants, in the order of their stored numbers: append new ones.
    pub const ALL: [Self; 6] = [
        Self::Success,
        Self::PartialSuccess,
        Self::GiveUp,
        Self::Timeout,
        Self::Failure,
        Self::Done,
    ];

    /// Returns its name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::PartialSuccess => "partial_success",
            Self::GiveUp => "give_up",
            Self::Timeout => "timeout",
            Self::Failure => "failure",
            Self::Done => "done",
        }
    }

    /// Finds the status of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
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
    /// Actions that did what they should.
    pub actions_succeeded: u32,
    /// Actions that did not.
    pub actions_failed: u32,
}
