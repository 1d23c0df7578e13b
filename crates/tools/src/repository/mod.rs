//! What a repository has to say to the model: its `AGENTS.md` files and its skills.
//!
//! These are words of whoever wrote the repository. They are read once before a turn begins, by the same handle as all files of the environment, within
//! bounds, and told as what they are: every line is quoted, so that none can pass for the prompt around it. They give no permission: what a turn may
//! do is decided elsewhere.

mod agents_md;
mod skills;

use std::collections::BTreeSet;

use async_trait::async_trait;
use serde_json::Value;
use windlass_core::bounds::lines;
use windlass_core::capabilities::{Capability, RiskLevel};
use windlass_core::tools::{Tool, ToolPolicy};
use windlass_core::turn_environment::TurnEnvironment;

use crate::environments::{EnvironmentError, Environments};
use crate::tool::boxed;
use crate::workspace::ResolvedWorkspace;

pub use skills::{FoundSkill, FoundSkills};

/// The instructions and skills of the turn's environment.
#[derive(Debug, Clone)]
pub struct RepositoryCapability {
    environments: Environments,
}

impl RepositoryCapability {
    /// Its name, by which records enable it.
    pub const ID: &'static str = "repository";

    /// Reads in these environments.
    #[must_use]
    pub fn new(environments: Environments) -> Self {
        Self { environments }
    }

    /// Lists the skills of an environment's root, also those that are switched off.
    ///
    /// This touches the disk: call it where blocking does no harm.
    ///
    /// # Errors
    /// If the environment cannot be opened.
    pub fn skills(
        environments: &Environments,
        turn: &TurnEnvironment,
    ) -> Result<FoundSkills, EnvironmentError> {
        Ok(skills::found(&environments.resolve(Some(turn))?))
    }
}

#[async_trait]
impl Capability for RepositoryCapability {
    fn id(&self) -> &str {
        Self::ID
    }
    fn name(&self) -> &str {
        "Repository"
    }
    fn description(&self) -> &str {
        "Tells the model what AGENTS.md and skills of the environment say."
    }
    fn tools_revision(&self) -> Option<u64> {
        Some(0)
    }
    fn category(&self) -> Option<&str> {
        Some("Files")
    }
    fn risk_level(&self) -> RiskLevel {
        RiskLevel::Medium
    }
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        let policy = ToolPolicy::Auto;
        vec![boxed::<skills::ActivateSkill>(&self.environments, policy)]
    }
    async fn environment_instructions(
        &self,
        environment: Option<&TurnEnvironment>,
        _config: &Value,
    ) -> Option<String> {
        let (environments, turn) = (self.environments.clone(), environment.cloned());
        let reading = tokio::task::spawn_blocking(move || {
            // Where the turn cannot work, its tools say so.
            let at = environments.resolve(turn.as_ref()).ok()?;
            words_of(&at, &environments.skills_off())
        });
        reading.await.ok().flatten()
    }
}

fn words_of(at: &ResolvedWorkspace, skills_off: &BTreeSet<String>) -> Option<String> {
    let parts = [agents_md::told(at), skills::told(at, skills_off)];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// Quotes a text line by line, without what would act on who shows it.
fn quoted(text: &str) -> String {
    let text = lines(text);
    let quoted: Vec<_> = text.lines().map(|line| format!("| {line}")).collect();
    quoted.join("\n")
}
