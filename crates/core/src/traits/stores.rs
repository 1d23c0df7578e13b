//! The stores of a host: sessions, agents, harnesses, models, connections, events.

use std::sync::Arc;

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
    /// Returns a session.
    async fn get_session(&self, session_id: SessionId) -> Result<Option<Session>>;
}

/// Changes the fields of a session that a tool may change.
#[async_trait]
pub trait SessionMutator: Send + Sync {
    /// Sets the title.
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
    /// Returns what else is known of the connection.
    async fn get_connection_metadata(
        &self,
        _session_id: SessionId,
        _provider: &str,
    ) -> Result<Option<Value>> {
        Ok(None)
    }
    /// Returns the token of one user.
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
    /// Returns an agent.
    async fn get_agent(&self, agent_id: AgentId) -> Result<Option<Agent>>;
}

/// Read access to harnesses.
#[async_trait]
pub trait HarnessStore: Send + Sync {
    /// Returns a harness and all it inherits from, root first; empty when it is not there.
    async fn get_harness_chain(&self, harness_id: HarnessId) -> Result<Vec<Harness>>;
}

/// Read access to models.
#[async_trait]
pub trait LlmProviderStore: Send + Sync {
    /// Returns a model.
    async fn get_model_with_provider(&self, model_id: ModelId)
    -> Result<Option<ModelWithProvider>>;
    /// Returns the model to use when nothing names one.
    async fn get_default_model(&self) -> Result<Option<ModelWithProvider>>;
}

/// Receives the events of a session.
#[async_trait]
pub trait EventEmitter: Send + Sync {
    /// Records an event and returns it with its id and number.
    async fn emit(&self, request: EventRequest) -> Result<Event>;
}

#[async_trait]
impl<T: SessionStore + ?Sized> SessionStore for Arc<T> {
    async fn get_session(&self, session_id: SessionId) -> Result<Option<Session>> {
        (**self).get_session(session_id).await
    }
}
#[async_trait]
impl<T: SessionMutator + ?Sized> SessionMutator for Arc<T> {
    async fn update_session_title(&self, session_id: SessionId, title: String) -> Result<Session> {
        (**self).update_session_title(session_id, title).await
    }
}
#[async_trait]
impl<T: AgentStore + ?Sized> AgentStore for Arc<T> {
    async fn get_agent(&self, agent_id: AgentId) -> Result<Option<Agent>> {
        (**self).get_agent(agent_id).await
    }
}
#[async_trait]
impl<T: HarnessStore + ?Sized> HarnessStore for Arc<T> {
    async fn get_harness_chain(&self, harness_id: HarnessId) -> Result<Vec<Harness>> {
        (**self).get_harness_chain(harness_id).await
    }
}
#[async_trait]
impl<T: LlmProviderStore + ?Sized> LlmProviderStore for Arc<T> {
    async fn get_model_with_provider(
        &self,
        model_id: ModelId,
    ) -> Result<Option<ModelWithProvider>> {
        (**self).get_model_with_provider(model_id).await
    }
    async fn get_default_model(&self) -> Result<Option<ModelWithProvider>> {
        (**self).get_default_model().await
    }
}
#[async_trait]
impl<T: EventEmitter + ?Sized> EventEmitter for Arc<T> {
    async fn emit(&self, request: EventRequest) -> Result<Event> {
        (**self).emit(request).await
    }
}
