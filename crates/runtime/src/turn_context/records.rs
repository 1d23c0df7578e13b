//! The records of a session and their merged layers.

use windlass_core::agent::{Agent, AgentStatus};
use windlass_core::config_layer::AgentConfigOverlay;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::harness::{Harness, HarnessStatus};
use windlass_core::session::Session;
use windlass_core::typed_id::SessionId;

use crate::inner::Inner;

/// Session, agent and harness chain, and their merged settings.
pub(crate) struct SessionRecords {
    pub(crate) harness_chain: Vec<Harness>,
    pub(crate) agent: Option<Agent>,
    pub(crate) session: Session,
    pub(crate) overlay: AgentConfigOverlay,
}

impl SessionRecords {
    /// Loads the records of a session.
    pub(crate) async fn load(inner: &Inner, session_id: SessionId) -> Result<Self> {
        let backends = &inner.backends;
        let session = backends.session_store.get_session(session_id).await?;
        let session = session.ok_or(AgentLoopError::SessionNotFound(session_id))?;
        Self::for_session(inner, session).await
    }

    /// Loads the records that a session depends on.
    pub(crate) async fn for_session(inner: &Inner, session: Session) -> Result<Self> {
        let backends = &inner.backends;
        let harness_chain = backends
            .harness_store
            .get_harness_chain(session.harness_id)
            .await?;
        check_chain(&harness_chain, &session)?;
        let agent = match session.agent_id {
            Some(id) => {
                let agent = backends.agent_store.get_agent(id).await?;
                Some(agent.ok_or(AgentLoopError::AgentNotFound(id))?)
            }
            None => None,
        };
        let layers = harness_chain.iter().map(AgentConfigOverlay::from);
        let layers = layers.chain(agent.as_ref().map(AgentConfigOverlay::from));
        let overlay = AgentConfigOverlay::fold(layers.chain([AgentConfigOverlay::from(&session)]));
        check_network(&overlay)?;
        Ok(Self {
            harness_chain,
            agent,
            session,
            overlay,
        })
    }

    /// Refuses archived and deleted records.
    pub(crate) fn check_usable(&self) -> Result<()> {
        if let Some(harness) = self
            .harness_chain
            .iter()
            .find(|harness| harness.status != HarnessStatus::Active)
        {
            return Err(AgentLoopError::config(format!(
                "harness {} is {}",
                harness.id, harness.status
            )));
        }
        match &self.agent {
            Some(agent) if agent.status != AgentStatus::Active => Err(AgentLoopError::config(
                format!("agent {} is {}", agent.public_id, agent.status),
            )),
            _ => Ok(()),
        }
    }
}

/// An embedder's store may not follow parents; an incomplete chain must be an error.
fn check_chain(chain: &[Harness], session: &Session) -> Result<()> {
    let Some(leaf) = chain.last() else {
        return Err(AgentLoopError::HarnessNotFound(session.harness_id));
    };
    if leaf.id != session.harness_id {
        return Err(AgentLoopError::HarnessNotFound(session.harness_id));
    }
    let parents = std::iter::once(None).chain(chain.iter().map(|harness| Some(harness.id)));
    for (harness, parent) in chain.iter().zip(parents) {
        if harness.parent_harness_id != parent {
            let wanted = harness
                .parent_harness_id
                .map(|id| id.to_string())
                .unwrap_or_default();
            return Err(AgentLoopError::config(format!(
                "harness {} inherits from {wanted}, which the harness store does not give",
                harness.id
            )));
        }
    }
    Ok(())
}

fn check_network(overlay: &AgentConfigOverlay) -> Result<()> {
    match &overlay.network_access {
        Some(list) => list
            .validate()
            .map_err(|error| AgentLoopError::config(error.to_string())),
        None => Ok(()),
    }
}
