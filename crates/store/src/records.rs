//! Harnesses, agents and sessions of a durable store.

use async_trait::async_trait;
use windlass_core::agent::Agent;
use windlass_core::error::Result;
use windlass_core::harness::Harness;
use windlass_core::session::{Session, SubagentStatus};
use windlass_core::traits::{AgentStore, HarnessStore, SessionMutator, SessionStore};
use windlass_core::typed_id::{AgentId, HarnessId, SessionId};

/// Storage of harnesses, agents and sessions.
#[async_trait]
pub trait Records: AgentStore + HarnessStore + SessionStore + SessionMutator {
    /// Adds a harness or replaces the one with its id.
    async fn add_harness(&self, harness: Harness) -> Result<()>;

    /// Removes a harness; returns whether it existed.
    async fn remove_harness(&self, id: HarnessId) -> Result<bool>;

    /// Lists the harnesses, the oldest id first.
    async fn list_harnesses(&self) -> Result<Vec<Harness>>;

    /// Adds an agent or replaces the one with its id.
    async fn add_agent(&self, agent: Agent) -> Result<()>;

    /// Removes an agent; returns whether it existed.
    async fn remove_agent(&self, id: AgentId) -> Result<bool>;

    /// Lists the agents, the oldest id first.
    async fn list_agents(&self) -> Result<Vec<Agent>>;

    /// Adds a session or replaces the one with its id.
    async fn add_session(&self, session: Session) -> Result<()>;

    /// Sets only the subagent status of a session; returns whether the session exists.
    async fn set_subagent_status(&self, id: SessionId, status: SubagentStatus) -> Result<bool>;

    /// Removes a session's record; returns whether it existed.
    async fn remove_session(&self, id: SessionId) -> Result<bool>;

    /// Lists the sessions, the oldest first.
    async fn list_sessions(&self) -> Result<Vec<Session>>;

    /// Lists the ids of the sessions, the oldest first. No record is read.
    async fn session_ids(&self) -> Result<Vec<SessionId>>;

    /// Lists the IDs of child sessions, newest first: of one parent or of all, `limit` after the first `skip`. Sessions without a parent cost
    /// nothing.
    async fn child_ids(
        &self,
        parent: Option<SessionId>,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<SessionId>>;
}
