//! File tools of an environment: read, write, edit, list, glob, grep.

mod diff;
mod edit;
mod glob;
mod grep;
mod list;
mod read;
mod write;

use async_trait::async_trait;
use windlass_core::capabilities::{Capability, RiskLevel};
use windlass_core::constants;
use windlass_core::tools::{Tool, ToolPolicy};
use windlass_core::typed_id::SessionId;

use crate::approval::{Approval, approvable_tools};
use crate::environments::Environments;
use crate::tool::file_tool;

/// The capability `files`: tools for the files of the turn's environment.
#[derive(Debug, Clone)]
pub struct FilesCapability {
    environments: Environments,
}

impl FilesCapability {
    /// Creates the capability for these environments.
    #[must_use]
    pub fn new(environments: Environments) -> Self {
        Self { environments }
    }

    fn tools_for(&self, approval: Approval) -> Vec<Box<dyn Tool>> {
        let (at, looks, changes) = (&self.environments, ToolPolicy::Auto, approval.policy());
        vec![
            file_tool::<read::ReadTool>(at, looks),
            file_tool::<write::WriteTool>(at, changes),
            file_tool::<edit::EditTool>(at, changes),
            file_tool::<list::ListTool>(at, looks),
            file_tool::<glob::GlobTool>(at, looks),
            file_tool::<grep::GrepTool>(at, looks),
        ]
    }
}

#[async_trait]
impl Capability for FilesCapability {
    constants!(
        "files",
        "Files",
        "Reads, searches and changes files in the environment of the turn.",
        "Files",
    );
    fn risk_level(&self) -> RiskLevel {
        RiskLevel::Medium
    }
    approvable_tools!();
    async fn session_removed(&self, session_id: SessionId) {
        let Some(outputs) = self.environments.outputs() else {
            return;
        };
        let forgetting = tokio::task::spawn_blocking(move || outputs.forget(session_id));
        if let Ok(Err(error)) = forgetting.await {
            tracing::warn!(%error, "the outputs of a removed session were not deleted");
        }
    }
    fn system_prompt_addition(&self) -> Option<&str> {
        Some(
            "Paths of the tools `read`, `write`, `edit`, `list`, `glob` and `grep` are relative to the working directory. \
             Read a file before you edit it.",
        )
    }
}
