//! The whole agents that can carry turns, and how the host starts them.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::backend::{Backend, BackendSpec};
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::turn_environment::TurnEnvironment;
use windlass_core::typed_id::{SessionId, TurnId};

/// What a host must know to say how an agent is started for a turn.
#[derive(Debug, Clone)]
pub struct BackendRequest {
    /// The session.
    pub session_id: SessionId,
    /// The turn.
    pub turn_id: TurnId,
    /// Where the turn may touch the world.
    pub environment: Option<TurnEnvironment>,
    /// The model that the turn asks for; `None` is the agent's usual one.
    pub model: Option<String>,
    /// Whose work the turn is, where it is not the operator's.
    pub owner: Option<String>,
    /// Whether nobody is asked for permissions.
    pub approve_all: bool,
}

/// Says how an agent is started: its program, directory, variables and limits. A function of a [`BackendRequest`] is one.
///
/// The session and what was counted of it are the runtime's to say; what a host writes there does not count.
#[async_trait]
pub trait BackendHost: Send + Sync {
    /// Says how the agent is started for a turn.
    async fn spec(&self, request: BackendRequest) -> Result<BackendSpec>;

    /// Is told that the agent is about to work. What it returns is dropped when the work has ended, also when somebody stopped it.
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

/// An agent with who starts it.
#[derive(Clone)]
pub(crate) struct RegisteredBackend {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) host: Arc<dyn BackendHost>,
}

/// The agents that turns can ask for, by name.
#[derive(Default)]
pub(crate) struct AgentBackends(HashMap<String, RegisteredBackend>);

impl AgentBackends {
    pub(crate) fn register(&mut self, backend: Arc<dyn Backend>, host: Arc<dyn BackendHost>) {
        let name = backend.name().to_owned();
        self.0.insert(name, RegisteredBackend { backend, host });
    }

    /// Returns the agent of this name; a turn that asks for another is refused.
    pub(crate) fn get(&self, name: &str) -> Result<RegisteredBackend> {
        self.0.get(name).cloned().ok_or_else(|| {
            let mut known: Vec<_> = self.0.keys().map(String::as_str).collect();
            known.sort_unstable();
            let known = match known.is_empty() {
                true => "none is registered".to_owned(),
                false => format!("registered are {}", known.join(", ")),
            };
            AgentLoopError::config(format!("backend `{name}` is not known; {known}"))
        })
    }
}
