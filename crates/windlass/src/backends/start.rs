//! Starts external agents for turns.

use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::backend::BackendSpec;
use windlass_core::error::{AgentLoopError, Result};
use windlass_runtime::{BackendHost, BackendRequest};
use windlass_tools::{
    CheckpointedTurn, CheckpointedWork, Environments, ShellSettings, TurnHostAccess,
};

use super::ConfiguredBackend;

/// Starts an agent in the environment of a turn.
pub(crate) struct Starts {
    backend: ConfiguredBackend,
    environments: Environments,
    shell: ShellSettings,
}

impl Starts {
    pub(crate) fn new(
        backend: ConfiguredBackend,
        environments: Environments,
        shell: ShellSettings,
    ) -> Self {
        Self {
            backend,
            environments,
            shell,
        }
    }
}

#[async_trait]
impl BackendHost for Starts {
    async fn spec(&self, request: BackendRequest) -> Result<BackendSpec> {
        let (environments, turn) = (self.environments.clone(), request.environment);
        let at = tokio::task::spawn_blocking(move || {
            let at = environments.resolve(turn.as_ref());
            at.map(|at| (at.cwd(), turn))
        });
        let unknown = |error: String| AgentLoopError::config(error);
        let at = at.await.map_err(|error| unknown(error.to_string()))?;
        let (cwd, turn) = at.map_err(|error| unknown(error.to_string()))?;
        let spec = self.backend.spec(cwd, turn.clone(), request.owner);
        let mut spec = spec.map_err(|error| unknown(error.to_string()))?;
        spec.model = request.model.or(spec.model);
        spec.approve_all = request.approve_all;
        let (environments, shell) = (self.environments.clone(), self.shell.clone());
        // Processes that the agent starts through the host have the same sandbox as the agent.
        let (sandboxes, same) = (Arc::clone(&self.backend.sandboxes), spec.clone());
        let host = TurnHostAccess::new(environments, shell, turn)
            .with_sandbox_restriction(move |sandbox| sandboxes.confine(sandbox, &same));
        spec.host = Some(Arc::new(host));
        Ok(spec)
    }

    /// Checkpoints files before and after the agent's work, because the agent changes them directly.
    async fn begin_work(&self, request: &BackendRequest) -> Result<Box<dyn Send + Sync>> {
        let turn = CheckpointedTurn {
            session_id: request.session_id,
            turn_id: request.turn_id,
        };
        let environment = request.environment.clone();
        let begun = CheckpointedWork::begin(&self.environments, environment, Some(turn)).await;
        Ok(Box::new(begun.map_err(AgentLoopError::config)?))
    }
}
