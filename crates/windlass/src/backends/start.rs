//! How an agent of others is started for a turn.

use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::backend::BackendSpec;
use windlass_core::error::{AgentLoopError, Result};
use windlass_runtime::{BackendHost, BackendRequest};
use windlass_tools::{Environments, ShellSettings, TurnHostAccess};

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
        let mut spec = self.backend.spec(cwd, turn.clone());
        spec.model = request.model.or(spec.model);
        let (environments, shell) = (self.environments.clone(), self.shell.clone());
        spec.host = Some(Arc::new(TurnHostAccess::new(environments, shell, turn)));
        Ok(spec)
    }
}
