//! What came of a run, as its agent reports it.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What came of a run. Only the status must be given; everything is written back in full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// In one word.
    pub status: OutcomeStatus,
    /// In a few.
    #[serde(default)]
    pub summary: String,
    /// What speaks for it.
    #[serde(default)]
    pub evidence: Vec<Evidence>,
    /// What it took.
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
    /// All of them. Stores number them by this order: new ones come at the end.
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

/// What speaks for an outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Where it comes from.
    pub kind: EvidenceKind,
    /// In words.
    #[serde(default)]
    pub description: String,
    /// As data.
    #[serde(default)]
    pub data: Value,
}

/// Where evidence comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceKind {
    /// The agent's own view.
    SelfAssessment,
    /// What a tool returned.
    ToolResult,
    /// What is different now.
    StateChange,
    /// Somebody else looked.
    ExternalVerification,
    /// Why it stopped.
    StopReason,
    /// A judge's word.
    Evaluator,
}

/// What a run took.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OutcomeMetrics {
    /// Turns.
    pub turns: u32,
    /// Calls of tools.
    pub tool_calls: u32,
    /// Time.
    pub duration_ms: f64,
    /// What was tried again.
    pub retries: u32,
    /// Actions that did what they should.
    pub actions_succeeded: u32,
    /// Actions that did not.
    pub actions_failed: u32,
}
