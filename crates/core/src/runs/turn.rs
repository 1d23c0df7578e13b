//! The actions of an agent during a run.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_macros::omit_none;

/// An action and its result.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RunTurn {
    /// Its number in the run, from 0; set by the server.
    #[serde(default, deserialize_with = "any_index")]
    pub index: u64,
    /// The prompt to the agent.
    pub prompt: Option<String>,
    /// The tool that acted.
    pub tool: Option<String>,
    pub parameters: Option<Value>,
    pub output: Option<Value>,
    /// How a command ended.
    pub cli_outcome: Option<CliOutcome>,
    /// The result of a check.
    #[serde(default)]
    pub verifier_verdict: Verdict,
    /// Why the action was rejected.
    pub policy_rejected: Option<PolicyRejected>,
}

/// Reads any value: the number that a client sends is ignored.
fn any_index<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(Value::deserialize(deserializer)?
        .as_u64()
        .unwrap_or_default())
}

impl RunTurn {
    /// Returns whether only the number is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let empty = Self {
            index: self.index,
            ..Self::default()
        };
        *self == empty
    }

    /// Sets the outcomes from the output of the tools `drive_cli` and `check_outcome`.
    pub fn derive_outcomes(&mut self) {
        let Some(output) = &self.output else { return };
        match self.tool.as_deref() {
            Some("drive_cli") => self.cli_outcome = CliOutcome::from_output(output),
            Some("check_outcome") => {
                self.verifier_verdict = match output.get("passed").and_then(Value::as_bool) {
                    Some(true) => Verdict::Pass,
                    Some(false) => Verdict::Fail,
                    None => Verdict::NotRun,
                };
            }
            _ => {}
        }
    }
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CliOutcome {
    /// The process exited.
    Exited {
        /// Its exit code.
        code: i64,
    },
    /// A signal killed the process.
    Killed,
    /// The time limit expired.
    Timeout,
}

impl CliOutcome {
    fn from_output(output: &Value) -> Option<Self> {
        if output["timed_out"] == true {
            return Some(Self::Timeout);
        }
        match output["exit_code"].as_i64() {
            Some(code) => Some(Self::Exited { code }),
            None => (!output["signal"].is_null()).then_some(Self::Killed),
        }
    }
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The check passed.
    Pass,
    /// The check failed.
    Fail,
    /// No check ran.
    #[default]
    NotRun,
}

/// Why an action was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRejected {
    pub rule: String,
    /// The rejected parameter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub param: Option<String>,
}

/// A reply of a model, before its tool calls run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelTurn {
    /// Its number in the run, from 0; set by the server.
    #[serde(default, deserialize_with = "any_index")]
    pub index: u64,
    /// The number that the agent gives it, from 1.
    pub turn_index: u64,
    #[serde(default)]
    pub assistant_text: String,
    /// The calls that it requests.
    #[serde(default)]
    pub requested_tool_calls: Vec<Value>,
    #[serde(default)]
    pub model_id: String,
    #[serde(default)]
    pub token_usage: Option<Value>,
    /// Duration in milliseconds.
    #[serde(default)]
    pub duration_ms: f64,
    /// When it was recorded.
    #[serde(default = "Utc::now")]
    pub recorded_at: DateTime<Utc>,
    /// Why the reply is incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
