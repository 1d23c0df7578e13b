//! The skills of the workspace, and which of them are enabled.

use windlass_core::turn_environment::TurnEnvironment;
use windlass_protocol::ErrorCode;
use windlass_protocol::api::Call;
use windlass_protocol::apps::{SkillEntry, SkillList, SwitchedSkill};
use windlass_protocol::operations as op;
use windlass_tools::{RepositoryCapability, RepositorySkills};

use super::RequestContext;
use crate::error::{ApiError, Result};
use crate::handle::Handle;
use crate::service::Service;

/// Maximum number of disabled skills.
const MAX_OFF: usize = 1_000;

impl Handle<op::ListSkills> for Service {
    async fn handle(&self, _: &RequestContext, _: Call<op::ListSkills>) -> Result<SkillList> {
        let found = self.found_skills().await?;
        let root = &self.fixed.local.root;
        let shown = |path: &std::path::Path| root.join(path).display().to_string();
        let off = &self.chosen().overrides.skills_off;
        let directories: Vec<String> = found.directories.iter().map(|path| shown(path)).collect();
        let mut warnings = found.unusable;
        if !self.settings.config.reads_repository {
            let text =
                "models are told of no skills: repository.instructions is off in windlass.toml";
            warnings.push(text.to_owned());
        }
        let skills = found.skills.into_iter().map(|skill| SkillEntry {
            enabled: self.settings.config.reads_repository && !off.contains(&skill.name),
            path: Some(shown(&skill.path)),
            name: skill.name,
            description: skill.description,
            source: "native".to_owned(),
            is_bundled: false,
        });
        Ok(SkillList {
            directory: directories.first().cloned().unwrap_or_default(),
            directories,
            warnings,
            skills: skills.collect(),
        })
    }
}

/// Enables or disables a skill. Running turns are not affected.
impl Handle<op::SwitchSkill> for Service {
    async fn handle(
        &self,
        _: &RequestContext,
        call: Call<op::SwitchSkill>,
    ) -> Result<SwitchedSkill> {
        let name = &call.path.name;
        let request = call.request;
        let off = &self.chosen().overrides.skills_off;
        let is_known = off.contains(name) || {
            let found = self.found_skills().await?;
            found.skills.iter().any(|skill| skill.name == *name)
        };
        if !is_known {
            let text = "the workspace has no such skill";
            return Err(ApiError::new(ErrorCode::SkillNotFound, text));
        }
        if !request.enabled && off.len() >= MAX_OFF {
            return Err(ApiError::limit("skills that are off", MAX_OFF));
        }
        let switched = name.to_owned();
        self.choose(|overrides| {
            if request.enabled {
                overrides.skills_off.remove(&switched)
            } else {
                overrides.skills_off.insert(switched)
            };
        })
        .await?;
        Ok(SwitchedSkill {
            name: name.to_owned(),
            enabled: request.enabled,
        })
    }
}

impl Service {
    async fn found_skills(&self) -> Result<RepositorySkills> {
        let environments = self.settings.environments.clone();
        let local = self.local();
        let found = tokio::task::spawn_blocking(move || {
            RepositoryCapability::skills(&environments, &local)
        });
        let found = found.await.map_err(ApiError::internal)?;
        found.map_err(ApiError::internal)
    }

    /// Returns the root of the workspace as an environment of turns.
    pub(super) fn local(&self) -> TurnEnvironment {
        let local = &self.fixed.local;
        TurnEnvironment::new(local.id.clone(), local.root.clone())
    }
}
