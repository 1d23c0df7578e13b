//! A repository's context for the model: its `AGENTS.md` files and its skills.
//!
//! These texts are written by the author of the repository and not trusted. They are read once before a turn begins, through the environment's file
//! handle and within limits. Every line is quoted, so that none can imitate the prompt around it. They grant no permissions; those are decided
//! elsewhere.

mod agents_md;
mod skills;

use std::collections::BTreeSet;

use async_trait::async_trait;
use serde_json::Value;
use windlass_core::bounds::lines;
use windlass_core::capabilities::{Capability, RiskLevel};
use windlass_core::constants;
use windlass_core::tools::{Tool, ToolPolicy};
use windlass_core::turn_environment::TurnEnvironment;

use crate::environments::{EnvironmentError, Environments};
use crate::tool::file_tool;
use crate::workspace::ResolvedWorkspace;

pub use skills::{RepositorySkill, RepositorySkills};

/// The capability `repository`: instructions and skills of the turn's environment.
#[derive(Debug, Clone)]
pub struct RepositoryCapability {
    environments: Environments,
}

impl RepositoryCapability {
    /// Name with which records enable the capability.
    pub const ID: &'static str = "repository";

    /// Creates the capability for these environments.
    #[must_use]
    pub fn new(environments: Environments) -> Self {
        Self { environments }
    }

    /// Lists the skills of an environment's root, including those that are switched off.
    ///
    /// Blocks on disk I/O: call it from a blocking thread.
    ///
    /// # Errors
    /// If the environment cannot be opened.
    pub fn skills(
        environments: &Environments,
        turn: &TurnEnvironment,
    ) -> Result<RepositorySkills, EnvironmentError> {
        Ok(skills::find_skills(&environments.resolve(Some(turn))?))
    }
}

#[async_trait]
impl Capability for RepositoryCapability {
    constants!(
        Self::ID,
        "Repository",
        "Gives the model the AGENTS.md instructions and the skills of the environment.",
        "Files",
    );
    fn risk_level(&self) -> RiskLevel {
        RiskLevel::Medium
    }
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        let policy = ToolPolicy::Auto;
        vec![file_tool::<skills::ActivateSkill>(
            &self.environments,
            policy,
        )]
    }
    async fn environment_instructions(
        &self,
        environment: Option<&TurnEnvironment>,
        _config: &Value,
    ) -> Option<String> {
        let (environments, turn) = (self.environments.clone(), environment.cloned());
        let prompt = tokio::task::spawn_blocking(move || {
            // If the environment cannot be opened, the tools report the error.
            let at = environments.resolve(turn.as_ref()).ok()?;
            prompt(&at, &environments.skills_off())
        });
        prompt.await.ok().flatten()
    }
}

fn prompt(at: &ResolvedWorkspace, skills_off: &BTreeSet<String>) -> Option<String> {
    let parts = [agents_md::prompt(at), skills::prompt(at, skills_off)];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// Quotes a text line by line and escapes control characters.
fn quoted(text: &str) -> String {
    let text = lines(text);
    let quoted: Vec<_> = text.lines().map(|line| format!("| {line}")).collect();
    quoted.join("\n")
}
