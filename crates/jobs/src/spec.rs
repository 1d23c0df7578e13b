//! What is to be done, as a client asks for it.

use serde::{Deserialize, Serialize};
use windlass_core::turn_policy::TurnPolicyOptions;

use crate::error::{JobError, check_name, check_text};

/// The longest prompt.
const PROMPT_BYTES: usize = 256 * 1024;
/// The longest name of a model, mode or backend.
const NAME_BYTES: usize = 256;
/// The longest path.
const PATH_BYTES: usize = 4096;
/// About how many bytes a row has beside the texts of its client.
const ROW_BYTES: usize = 512;
/// The most attempts that a rule may allow.
const ATTEMPTS: u32 = 10;

/// What is to be done, as a client asks for it. The host reads what the words mean when it begins the turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// What the agent is told.
    pub prompt: String,
    /// The directory to work in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The options of its turn.
    #[serde(flatten)]
    pub policy: TurnPolicyOptions,
    /// How many attempts are made at most while it fails, from 1 to 10.
    #[serde(default = "one")]
    pub max_attempts: u32,
}

const fn one() -> u32 {
    1
}

impl JobSpec {
    /// Asks for one attempt at a prompt.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            workspace: None,
            policy: TurnPolicyOptions::default(),
            max_attempts: 1,
        }
    }

    /// Returns about how many bytes a row with it has.
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

    /// Refuses what is over a bound.
    pub fn check(&self) -> Result<(), JobError> {
        check_text("prompt", &self.prompt, PROMPT_BYTES, true)?;
        let names = [
            ("model", &self.policy.model, NAME_BYTES),
            ("mode", &self.policy.mode, NAME_BYTES),
            ("backend", &self.policy.backend, NAME_BYTES),
            ("workspace", &self.workspace, PATH_BYTES),
        ];
        for (field, value, longest) in names {
            if let Some(value) = value {
                check_name(field, value, longest)?;
            }
        }
        match self.max_attempts {
            1..=ATTEMPTS => Ok(()),
            given => Err(JobError::invalid(
                "max_attempts",
                format!("must be from 1 to {ATTEMPTS}, not {given}"),
            )),
        }
    }
}
