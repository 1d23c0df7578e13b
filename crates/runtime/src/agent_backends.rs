//! External agents that can execute turns, and how the host starts them.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::backend::{Backend, BackendSpec};
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::turn_environment::TurnEnvironment;
use windlass_core::typed_id::{SessionId, TurnId};

/// The turn's properties from which the host derives how to start an external agent.
#[derive(Debug, Clone)]
pub struct BackendRequest {
    /// ID of the session that the turn belongs to.
    pub session_id: SessionId,
    /// ID of the turn that the external agent executes.
    pub turn_id: TurnId,
    /// The environment that the turn may access; `None` is no environment.
    pub environment: Option<TurnEnvironment>,
    /// The requested model; `None` uses the agent's default.
    pub model: Option<String>,
    /// Owner of the turn; `None` is the operator.
    pub owner: Option<String>,
    /// Whether every permission request of the agent is approved automatically.
    pub approve_all: bool,
}

/// Specifies how an external agent is started: its program, directory, variables and limits. A function of a [`BackendRequest`] implements it.
///
/// The runtime fills in the session and its recorded usage; values that a host sets there are ignored.
#[async_trait]
pub trait BackendHost: Send + Sync {
    /// Returns how the agent is started for a turn.
    async fn spec(&self, request: BackendRequest) -> Result<BackendSpec>;

    /// Called before the agent starts to work. The returned value is dropped when the run has ended, including when it was cancelled.
    async fn begin_work(&self, _request: &BackendRequest) -> Result<Box<dyn Send + Sync>> {
        Ok(Box::new(()))
    }
}

#[async_trait]
impl<F> BackendHost for F
where
    F: Fn(BackendRequest) -> Result<BackendSpec> + Send + Sync,
{
    async fn spec(&self, request: BackendRequest) -> Result<BackendSpec> {
        self(request)
    }
}

/// An external agent and its host.
#[derive(Clone)]
pub(crate) struct RegisteredBackend {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) host: Arc<dyn BackendHost>,
}

/// The external agents that turns can request, by name.
#[derive(Default)]
pub(crate) struct AgentBackends(HashMap<String, RegisteredBackend>);

impl AgentBackends {
    pub(crate) fn register(&mut self, backend: Arc<dyn Backend>, host: Arc<dyn BackendHost>) {
        let name = backend.name().to_owned();
        self.0.insert(name, RegisteredBackend { backend, host });
    }

    /// Returns the agent with this name; a turn that requests an unknown agent is refused.
    pub(crate) fn get(&self, name: &str) -> Result<RegisteredBackend> {
        self.0.get(name).cloned().ok_or_else(|| {
            let mut names: Vec<_> = self.0.keys().map(String::as_str).collect();
            names.sort_unstable();
            let registered = if names.is_empty() {
                "none is registered".to_owned()
            } else {
                format!("registered are {}", names.join(", "))
            };
            AgentLoopError::config(format!("backend `{name}` is not known; {registered}"))
        })
    }
}
