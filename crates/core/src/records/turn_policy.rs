//! The options that decide how the turns of a thread run.

use serde::{Deserialize, Serialize};
use windlass_macros::omit_none;

/// How freely an agent works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnMode {
    /// It works, and asks for approvals.
    #[default]
    Agent,
    /// It changes nothing.
    Plan,
    /// As `Agent`, and may delegate work.
    Operate,
    /// It never asks for an approval.
    Yolo,
}

/// How the turns of a thread run: the model that answers, and the permissions of the agent.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnPolicy {
    /// The model, as clients name it.
    pub model: String,
    /// The client's or the daemon's name for the provider.
    pub provider: Option<String>,
    /// The configured name of the provider.
    pub provider_id: Option<String>,
    /// The model as `provider/model`; `None` where an external agent answers, and in older records.
    pub qualified_model: Option<String>,
    /// How freely the agent works.
    pub mode: TurnMode,
    /// Whether the agent may run commands.
    pub allow_shell: bool,
    /// Whether the workspace is trusted.
    pub trust_mode: bool,
    /// Whether calls run without an approval.
    pub auto_approve: bool,
    /// Whether `auto_approve` is the remembered answer to an approval, which a fork does not inherit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approvals_remembered: bool,
    /// The external agent or the configured API that runs the turns.
    pub backend: Option<String>,
    /// The reasoning effort of the model.
    pub reasoning_effort: Option<String>,
}

impl TurnPolicy {
    /// Returns whether the policy allows commands.
    #[must_use]
    pub fn may_run_commands(&self) -> bool {
        self.allow_shell
    }

    /// Returns whether calls run without an approval.
    #[must_use]
    pub fn approves_all(&self) -> bool {
        self.mode == TurnMode::Yolo || self.auto_approve
    }

    /// Returns the policy for a fork: a remembered approval is not inherited.
    #[must_use]
    pub fn inherited(self) -> Self {
        Self {
            auto_approve: self.auto_approve && !self.approvals_remembered,
            approvals_remembered: false,
            ..self
        }
    }
}

/// Reads the policy among the fields of a thread record without a version.
#[derive(Deserialize)]
#[serde(remote = "TurnPolicy")]
pub(crate) struct PolicyBeforeVersions {
    model: String,
    #[serde(rename = "model_provider")]
    provider: Option<String>,
    #[serde(rename = "model_provider_id")]
    provider_id: Option<String>,
    qualified_model: Option<String>,
    mode: TurnMode,
    allow_shell: bool,
    trust_mode: bool,
    auto_approve: bool,
    #[serde(default)]
    approvals_remembered: bool,
    backend: Option<String>,
    reasoning_effort: Option<String>,
}

/// Options that a job or the daemon's settings may leave open. `None` is decided by the next wider scope.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnPolicyOptions {
    pub model: Option<String>,
    /// How freely the agent works: a mode or one of its aliases.
    pub mode: Option<String>,
    /// The external agent or the configured API that runs the turns.
    pub backend: Option<String>,
    /// Whether the agent may run commands.
    pub allow_shell: Option<bool>,
    /// Whether the workspace is trusted.
    pub trust_mode: Option<bool>,
    /// Whether calls run without an approval.
    pub auto_approve: Option<bool>,
    /// The reasoning effort of the model.
    pub reasoning_effort: Option<String>,
}

impl TurnPolicyOptions {
    /// Fills the options that are open here from a wider scope.
    #[must_use]
    pub fn or(self, wider: Self) -> Self {
        Self {
            model: self.model.or(wider.model),
            mode: self.mode.or(wider.mode),
            backend: self.backend.or(wider.backend),
            allow_shell: self.allow_shell.or(wider.allow_shell),
            trust_mode: self.trust_mode.or(wider.trust_mode),
            auto_approve: self.auto_approve.or(wider.auto_approve),
            reasoning_effort: self.reasoning_effort.or(wider.reasoning_effort),
        }
    }
}
