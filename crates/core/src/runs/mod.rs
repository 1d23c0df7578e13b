//! Runs: the trace of one unit of agent work, from its start through its turns to its outcome.
//!
//! Records are stored and sent in this form. List entries are a fold of the records. A turn of one of our own sessions is a run too; its records are
//! derived from the session's events on read.

mod outcome;
mod own;
mod own_trace;
mod turn;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_macros::omit_none;

use crate::items::WaitKind;
use crate::typed_id::SessionId;

pub use outcome::{Evidence, EvidenceKind, OutcomeMetrics, OutcomeStatus, RunOutcome};
pub use own::{
    OWN_AGENT, OWN_AGENTS, PROCESS_STOPPED, end_in, is_step, owner_in, run_of_turn, turn_of_run,
};
pub use own_trace::{CANCELLED_BY_CALL, TurnTrace, intent};
pub use turn::{CliOutcome, ModelTurn, PolicyRejected, RunTurn, Verdict};

/// One record of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum RunRecord {
    /// The beginning of the run.
    Started(RunStarted),
    /// An action and its result.
    Turn(RunTurn),
    /// A reply of a model.
    ModelTurn(ModelTurn),
    /// The end of the run.
    Ended(RunEnded),
}

/// The beginning of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The unique ID, which is never reused.
    pub run_id: String,
    /// The agent that owns the run.
    pub agent_id: String,
    /// The goal of the run.
    pub intent: String,
    /// The criterion of success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome_description: Option<String>,
    /// When it began.
    pub started_at: DateTime<Utc>,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEnded {
    pub run_id: String,
    /// The agent that owns the run.
    pub agent_id: String,
    /// How it ended.
    pub termination: Termination,
    /// When it ended.
    pub ended_at: DateTime<Utc>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Termination {
    /// The agent reported an outcome.
    Outcome {
        status: OutcomeStatus,
        outcome: Box<RunOutcome>,
    },
    /// No outcome was reported.
    Incomplete,
    /// The run was cancelled.
    Cancelled {
        /// The receipt that the canceling client received.
        cancellation: Value,
    },
}

text_enum! {
    /// The status of a run. Stores number the variants in this order: append new ones.
    #[derive(PartialOrd, Ord)]
    RunStatus {
        /// It has no end yet.
        InProgress = "in_progress",
        /// An outcome was reported.
        Completed = "completed",
        /// Its agent disappeared without an outcome.
        Incomplete = "incomplete",
        /// It was cancelled.
        Cancelled = "cancelled",
    }
}

/// A run as a list entry.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    pub run_id: String,
    /// The agent that owns the run.
    pub agent_id: String,
    /// The goal of the run.
    pub intent: String,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
    pub status: RunStatus,
    /// The reported outcome in one word.
    pub outcome: Option<OutcomeStatus>,
    pub turn_count: u64,
    /// The session whose turn it is, if it is one of our own.
    pub session_id: Option<SessionId>,
    /// The open waits, if it is a turn of our own session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting_for: Vec<WaitKind>,
}

impl RunSummary {
    /// Creates the entry of a run that has begun.
    #[must_use]
    pub fn new(started: &RunStarted) -> Self {
        Self {
            run_id: started.run_id.clone(),
            agent_id: started.agent_id.clone(),
            intent: started.intent.clone(),
            started_at: started.started_at,
            ended_at: None,
            status: RunStatus::InProgress,
            outcome: None,
            turn_count: 0,
            session_id: None,
            waiting_for: Vec::new(),
        }
    }

    /// Applies the next record.
    pub fn apply(&mut self, record: &RunRecord) {
        match record {
            RunRecord::Started(_) => {}
            RunRecord::Turn(_) | RunRecord::ModelTurn(_) => self.turn_count += 1,
            RunRecord::Ended(ended) => {
                self.ended_at = Some(ended.ended_at);
                (self.status, self.outcome) = match &ended.termination {
                    Termination::Outcome { status, .. } => (RunStatus::Completed, Some(*status)),
                    Termination::Incomplete => (RunStatus::Incomplete, None),
                    Termination::Cancelled { .. } => (RunStatus::Cancelled, None),
                };
            }
        }
    }
}

impl RunRecord {
    /// Returns the time of the record, if it has one.
    #[must_use]
    pub fn at(&self) -> Option<DateTime<Utc>> {
        match self {
            Self::Started(started) => Some(started.started_at),
            Self::Turn(_) => None,
            Self::ModelTurn(turn) => Some(turn.recorded_at),
            Self::Ended(ended) => Some(ended.ended_at),
        }
    }

    /// Sets the number of a turn; other records have none.
    pub fn set_index(&mut self, index: u64) {
        match self {
            Self::Turn(turn) => turn.index = index,
            Self::ModelTurn(turn) => turn.index = index,
            Self::Started(_) | Self::Ended(_) => {}
        }
    }

    /// Returns the number of a turn; other records have none.
    #[must_use]
    pub const fn index(&self) -> Option<u64> {
        match self {
            Self::Turn(turn) => Some(turn.index),
            Self::ModelTurn(turn) => Some(turn.index),
            Self::Started(_) | Self::Ended(_) => None,
        }
    }

    /// Tells whether it is a turn.
    #[must_use]
    pub const fn is_turn(&self) -> bool {
        matches!(self, Self::Turn(_) | Self::ModelTurn(_))
    }
}

#[cfg(test)]
mod tests;
