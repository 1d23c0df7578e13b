//! The work of a job, as specified by a client.

use serde::{Deserialize, Serialize};
use windlass_core::turn_policy::TurnPolicyOptions;

use crate::error::{JobError, check_optional_name, check_text};

/// Maximum length of a prompt in bytes.
const PROMPT_BYTES: usize = 256 * 1024;
/// Maximum length of the name of a model, mode or backend in bytes.
const NAME_BYTES: usize = 256;
/// Maximum length of a path in bytes.
const PATH_BYTES: usize = 4096;
/// Approximate size of a row without the client's texts in bytes.
const ROW_BYTES: usize = 512;
/// Maximum value of `max_attempts`.
const MAX_ATTEMPTS: u32 = 10;

/// The work of a job, as specified by a client. The host interprets names and paths when the turn starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Prompt for the agent.
    pub prompt: String,
    /// Working directory; default: chosen by the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Options of its turns.
    #[serde(flatten)]
    pub policy: TurnPolicyOptions,
    /// Maximum number of attempts while it fails, from 1 to 10.
    #[serde(default = "one")]
    pub max_attempts: u32,
}

const fn one() -> u32 {
    1
}

impl JobSpec {
    /// Creates a spec with one attempt and default options.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            workspace: None,
            policy: TurnPolicyOptions::default(),
            max_attempts: 1,
        }
    }

    /// Returns the approximate size of a row that contains it, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let policy = &self.policy;
        let texts = [
            &policy.model,
            &self.workspace,
            &policy.mode,
            &policy.backend,
        ];
        let texts = texts.into_iter().flatten().map(String::len);
        (self.prompt.len() + texts.sum::<usize>() + ROW_BYTES) as u64
    }

    /// Checks limits; returns the first violation.
    pub fn check(&self) -> Result<(), JobError> {
        check_text("prompt", &self.prompt, PROMPT_BYTES)?;
        let names = [
            ("model", &self.policy.model, NAME_BYTES),
            ("mode", &self.policy.mode, NAME_BYTES),
            ("backend", &self.policy.backend, NAME_BYTES),
            ("workspace", &self.workspace, PATH_BYTES),
        ];
        for (field, value, longest) in names {
            check_optional_name(field, value.as_ref(), longest)?;
        }
        match self.max_attempts {
            1..=MAX_ATTEMPTS => Ok(()),
            given => Err(JobError::invalid(
                "max_attempts",
                format!("must be from 1 to {MAX_ATTEMPTS}, not {given}"),
            )),
        }
    }
}
