//! The stores of a host: sessions, agents, harnesses, models, connections, events.

use async_trait::async_trait;
use serde_json::Value;
use uuid::Uuid;

use crate::agent::Agent;
use crate::error::Result;
use crate::events::{Event, EventRequest};
use crate::harness::Harness;
use crate::llm_models::ModelWithProvider;
use crate::session::Session;
use crate::typed_id::{AgentId, HarnessId, ModelId, SessionId};

/// Read access to sessions.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Returns a session; `None` if there is no such session.
    async fn get_session(&self, session_id: SessionId) -> Result<Option<Session>>;
}

/// Changes the fields of a session that a tool may change.
#[async_trait]
pub trait SessionMutator: Send + Sync {
    /// Sets the title and returns the changed session.
    async fn update_session_title(&self, session_id: SessionId, title: String) -> Result<Session>;
}

/// Finds the tokens of accounts that a user has connected.
#[async_trait]
pub trait UserConnectionResolver: Send + Sync {
    /// Returns the token for a provider.
    async fn get_connection_token(
        &self,
        session_id: SessionId,
        provider: &str,
    ) -> Result<Option<String>>;
    /// Returns the user who made the connection.
    async fn get_connection_user(
        &self,
        _session_id: SessionId,
        _provider: &str,
    ) -> Result<Option<Uuid>> {
        Ok(None)
    }
    /// Returns further metadata of the connection.
    async fn get_connection_metadata(
        &self,
        _session_id: SessionId,
        _provider: &str,
    ) -> Result<Option<Value>> {
        Ok(None)
    }
    /// Returns the token of a specific user.
    async fn get_connection_token_for_user(
        &self,
        _user_id: Uuid,
        _provider: &str,
    ) -> Result<Option<String>> {
        Ok(None)
    }
}

/// Read access to agents.
#[async_trait]
pub trait AgentStore: Send + Sync {
    /// Returns an agent; `None` if there is no such agent.
    async fn get_agent(&self, agent_id: AgentId) -> Result<Option<Agent>>;
}

/// Read access to harnesses.
#[async_trait]
pub trait HarnessStore: Send + Sync {
    /// Returns a harness and its ancestors, root first; empty if there is no such harness.
    async fn get_harness_chain(&self, harness_id: HarnessId) -> Result<Vec<Harness>>;
}

/// Read access to models.
#[async_trait]
pub trait LlmProviderStore: Send + Sync {
    /// Returns a model; `None` if there is no such model.
    async fn get_model_with_provider(&self, model_id: ModelId)
    -> Result<Option<ModelWithProvider>>;
    /// Returns the model for turns that name none.
    async fn get_default_model(&self) -> Result<Option<ModelWithProvider>>;
}

/// Receives the events of a session.
#[async_trait]
pub trait EventEmitter: Send + Sync {
    /// Records an event and returns it with its id and number.
    async fn emit(&self, request: EventRequest) -> Result<Event>;
}

forward_arc! { SessionStore {
    async fn get_session(&self, session_id: SessionId) -> Result<Option<Session>>;
}}
forward_arc! { SessionMutator {
    async fn update_session_title(&self, session_id: SessionId, title: String) -> Result<Session>;
}}
forward_arc! { AgentStore {
    async fn get_agent(&self, agent_id: AgentId) -> Result<Option<Agent>>;
}}
forward_arc! { HarnessStore {
    async fn get_harness_chain(&self, harness_id: HarnessId) -> Result<Vec<Harness>>;
}}
forward_arc! { LlmProviderStore {
    async fn get_model_with_provider(&self, model_id: ModelId) -> Result<Option<ModelWithProvider>>;
    async fn get_default_model(&self,) -> Result<Option<ModelWithProvider>>;
}}
forward_arc! { EventEmitter {
    async fn emit(&self, request: EventRequest) -> Result<Event>;
}}
