//! Storage that a runtime uses.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use windlass_core::agent::Agent;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::{Event, TokenUsage};
use windlass_core::harness::Harness;
use windlass_core::in_memory::{
    InMemoryAgentStore, InMemoryHarnessStore, InMemoryLlmProviderStore,
};
use windlass_core::llm_models::ModelWithProvider;
use windlass_core::message::{InputMessage, Message};
use windlass_core::session::{Session, SessionStatus, SubagentStatus};
use windlass_core::traits::{
    AgentStore, EventEmitter, HarnessStore, LlmProviderStore, MessageRetriever, SessionFileSystem,
    SessionMutator, SessionStorageStore, SessionStore, UserConnectionResolver,
};
use windlass_core::typed_id::{AgentId, HarnessId, SessionId};
use windlass_store::{
    InMemorySessionStorageStore, InMemorySessionStore, Journal, MemoryJournal, MemoryQueries,
    Queries,
};

use crate::journal_views::{JournalEvents, JournalMessages};
use crate::spending::DailyLimit;
use windlass_core::setters;
use windlass_macros::OpaqueDebug;

fn unsupported(what: &str) -> AgentLoopError {
    AgentLoopError::config(format!(
        "this store cannot {what}; use one that can, or do it in the store itself"
    ))
}

/// A writable store of agents.
#[async_trait]
pub trait RuntimeAgentStore: AgentStore {
    /// Adds or replaces an agent.
    async fn add_agent(&self, agent: Agent) -> Result<()>;
    /// Returns all agents.
    async fn list_agents(&self) -> Result<Vec<Agent>> {
        Err(unsupported("list agents"))
    }
    /// Removes an agent; returns whether it existed.
    async fn remove_agent(&self, _id: AgentId) -> Result<bool> {
        Err(unsupported("remove agents"))
    }
}

/// A writable store of harnesses.
#[async_trait]
pub trait RuntimeHarnessStore: HarnessStore {
    /// Adds or replaces a harness.
    async fn add_harness(&self, harness: Harness) -> Result<()>;
    /// Returns all harnesses.
    async fn list_harnesses(&self) -> Result<Vec<Harness>> {
        Err(unsupported("list harnesses"))
    }
    /// Removes a harness; returns whether it existed.
    async fn remove_harness(&self, _id: HarnessId) -> Result<bool> {
        Err(unsupported("remove harnesses"))
    }
}

/// The changes that a turn makes to a session's record.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionProgress {
    /// Status of the session.
    pub status: SessionStatus,
    /// When its first turn started.
    pub started_at: Option<DateTime<Utc>>,
    /// Usage of all its turns.
    pub usage: Option<TokenUsage>,
    /// Time of the change.
    pub updated_at: DateTime<Utc>,
}

impl SessionProgress {
    /// Applies the progress to a record.
    pub fn apply(&self, session: &mut Session) {
        session.status = self.status;
        session.started_at = session.started_at.or(self.started_at);
        session.usage = self.usage.or(session.usage);
        session.updated_at = session.updated_at.max(self.updated_at);
    }
}

/// A writable store of sessions.
#[async_trait]
pub trait RuntimeSessionStore: SessionStore + SessionMutator {
    /// Adds or replaces a session.
    async fn add_session(&self, session: Session) -> Result<()>;
    /// Records the progress of a turn. A store that can update a record in place overrides this.
    async fn note_progress(&self, session_id: SessionId, progress: SessionProgress) -> Result<()> {
        if let Some(mut session) = self.get_session(session_id).await? {
            progress.apply(&mut session);
            self.add_session(session).await?;
        }
        Ok(())
    }
    /// Sets the status of a subagent's session; returns whether it exists. A store that can update a record in place overrides this, so that no
    /// concurrent change of the record is lost.
    async fn set_subagent_status(
        &self,
        session_id: SessionId,
        status: SubagentStatus,
    ) -> Result<bool> {
        let Some(mut session) = self.get_session(session_id).await? else {
            return Ok(false);
        };
        session.subagent_status = Some(status);
        self.add_session(session).await?;
        Ok(true)
    }
    /// Returns whether a session exists. A store that can check without copying the record overrides this.
    async fn has_session(&self, session_id: SessionId) -> Result<bool> {
        Ok(self.get_session(session_id).await?.is_some())
    }
    /// Returns all sessions.
    async fn list_sessions(&self) -> Result<Vec<Session>> {
        Err(unsupported("list sessions"))
    }
    /// Returns the IDs of all sessions. A store that knows them without reading the records overrides this.
    async fn session_ids(&self) -> Result<Vec<SessionId>> {
        let sessions = self.list_sessions().await?;
        Ok(sessions.into_iter().map(|session| session.id).collect())
    }
    /// Returns the IDs of subagent sessions, newest first: of one parent or of all, at most `limit` after the first `skip`. A store with an index
    /// overrides this.
    async fn child_ids(
        &self,
        parent: Option<SessionId>,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<SessionId>> {
        let mut children = self.list_sessions().await?;
        children.retain(|session| match (session.parent_session_id, parent) {
            (Some(own), Some(parent)) => own == parent,
            (own, None) => own.is_some(),
            (None, Some(_)) => false,
        });
        children.sort_by_key(|session| std::cmp::Reverse((session.created_at, session.id)));
        let children = children.into_iter().skip(skip).take(limit);
        Ok(children.map(|session| session.id).collect())
    }
    /// Removes a session; returns whether it existed.
    async fn remove_session(&self, _id: SessionId) -> Result<bool> {
        Err(unsupported("remove sessions"))
    }
}

/// A writable store of messages.
#[async_trait]
pub trait RuntimeMessageStore: MessageRetriever {
    /// Adds an input and returns the resulting message.
    async fn add_input_message(
        &self,
        session_id: SessionId,
        input: InputMessage,
    ) -> Result<Message>;
    /// Adds a message.
    async fn store_message(&self, session_id: SessionId, message: Message) -> Result<()>;
}

/// A writable store of models.
#[async_trait]
pub trait RuntimeProviderStore: LlmProviderStore {
    /// Sets the model that is used if no record or input names one.
    async fn set_default_model(&self, model: ModelWithProvider) -> Result<()>;
}

/// Event access for the host.
#[async_trait]
pub trait EventBus: EventEmitter {
    /// Returns the collected events; empty if this bus does not collect.
    async fn collected_events(&self) -> Vec<Event> {
        Vec::new()
    }
}

#[async_trait]
impl RuntimeAgentStore for InMemoryAgentStore {
    async fn add_agent(&self, agent: Agent) -> Result<()> {
        Self::add_agent(self, agent).await;
        Ok(())
    }
    async fn list_agents(&self) -> Result<Vec<Agent>> {
        Ok(self.list())
    }
    async fn remove_agent(&self, id: AgentId) -> Result<bool> {
        Ok(Self::remove_agent(self, id).is_some())
    }
}

#[async_trait]
impl RuntimeHarnessStore for InMemoryHarnessStore {
    async fn add_harness(&self, harness: Harness) -> Result<()> {
        Self::add_harness(self, harness).await;
        Ok(())
    }
    async fn list_harnesses(&self) -> Result<Vec<Harness>> {
        Ok(self.list())
    }
    async fn remove_harness(&self, id: HarnessId) -> Result<bool> {
        Ok(Self::remove_harness(self, id).is_some())
    }
}

#[async_trait]
impl RuntimeSessionStore for InMemorySessionStore {
    async fn add_session(&self, session: Session) -> Result<()> {
        Self::add_session(self, session).await;
        Ok(())
    }
    async fn note_progress(&self, session_id: SessionId, progress: SessionProgress) -> Result<()> {
        self.modify(session_id, |session| progress.apply(session));
        Ok(())
    }
    async fn set_subagent_status(
        &self,
        session_id: SessionId,
        status: SubagentStatus,
    ) -> Result<bool> {
        Ok(self.modify(session_id, |session| session.subagent_status = Some(status)))
    }
    async fn has_session(&self, session_id: SessionId) -> Result<bool> {
        Ok(self.contains(session_id))
    }
    async fn list_sessions(&self) -> Result<Vec<Session>> {
        Ok(self.list())
    }
    async fn remove_session(&self, id: SessionId) -> Result<bool> {
        Ok(Self::remove_session(self, id).is_some())
    }
}

#[async_trait]
impl RuntimeProviderStore for InMemoryLlmProviderStore {
    async fn set_default_model(&self, model: ModelWithProvider) -> Result<()> {
        Self::set_default_model(self, model).await;
        Ok(())
    }
}

/// The storage that a runtime uses.
///
/// The journal is the source of truth for conversations; `message_store` and `event_bus` are views of it. If an embedder replaces them, the runtime
/// copies messages and events there after they are recorded, and never reads them.
#[derive(OpaqueDebug, Clone)]
pub struct RuntimeBackends {
    /// Store of harness records.
    pub harness_store: Arc<dyn RuntimeHarnessStore>,
    /// Store of agent records.
    pub agent_store: Arc<dyn RuntimeAgentStore>,
    /// Store of session records.
    pub session_store: Arc<dyn RuntimeSessionStore>,
    /// Read access to the messages of a session.
    pub message_store: Arc<dyn RuntimeMessageStore>,
    /// Store of provider and model records.
    pub provider_store: Arc<dyn RuntimeProviderStore>,
    /// Read access to events, and subscriptions to new ones.
    pub event_bus: Arc<dyn EventBus>,
    /// Values and secrets of sessions.
    pub storage_store: Arc<dyn SessionStorageStore>,
    /// Tokens of connected accounts.
    pub connection_resolver: Option<Arc<dyn UserConnectionResolver>>,
    /// Append-only event log of all sessions; the source of truth for turns.
    pub journal: Arc<dyn Journal>,
    /// Queries over the threads and turns of the journal, for lists and for forks at a turn.
    pub queries: Option<Arc<dyn Queries>>,
    /// Limit on the daily spending of all sessions together; `None` is no limit.
    pub daily_limit: Option<DailyLimit>,
    /// File system of sessions; `None` uses the platform's factory.
    pub file_system: Option<Arc<dyn SessionFileSystem>>,
    /// The views that were created with the journal: a store that is still one of them needs no copy.
    pub(crate) views: JournalViews,
}

#[derive(Clone)]
pub(crate) struct JournalViews {
    pub(crate) messages: Arc<JournalMessages>,
    pub(crate) events: Arc<JournalEvents>,
}

impl RuntimeBackends {
    /// Stores everything in memory.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::on_memory(&Arc::new(MemoryJournal::new()))
    }

    /// Stores everything in memory, and conversations in an existing in-memory journal.
    #[must_use]
    pub fn on_memory(journal: &Arc<MemoryJournal>) -> Self {
        let queries = MemoryQueries::new(Arc::clone(journal), Arc::default());
        Self::on_journal(Arc::clone(journal) as _).with_queries(Arc::new(queries))
    }

    /// Stores conversations in a journal, and everything else in memory. Lists of sessions and forks at a turn also need
    /// [queries](Self::with_queries) over that journal.
    #[must_use]
    pub fn on_journal(journal: Arc<dyn Journal>) -> Self {
        let messages = Arc::new(JournalMessages::default());
        let events = Arc::new(JournalEvents::new(Arc::clone(&journal)));
        Self {
            harness_store: Arc::new(InMemoryHarnessStore::new()),
            agent_store: Arc::new(InMemoryAgentStore::new()),
            session_store: Arc::new(InMemorySessionStore::new()),
            message_store: Arc::clone(&messages) as _,
            provider_store: Arc::new(InMemoryLlmProviderStore::new()),
            event_bus: Arc::clone(&events) as _,
            storage_store: Arc::new(InMemorySessionStorageStore::new()),
            connection_resolver: None,
            journal,
            queries: None,
            daily_limit: None,
            file_system: None,
            views: JournalViews { messages, events },
        }
    }

    setters! {
        /// Sets the queries over the journal.
        with_queries(Arc<dyn Queries>) |builder, queries| builder.queries = Some(queries);
        /// Limits the daily spending of all sessions together. The ledger must belong to the journal.
        with_daily_limit(DailyLimit) |builder, limit| builder.daily_limit = Some(limit);
        /// Sets the harness store.
        with_harness_store(Arc<dyn RuntimeHarnessStore>) |builder, store| builder.harness_store = store;
        /// Sets the agent store.
        with_agent_store(Arc<dyn RuntimeAgentStore>) |builder, store| builder.agent_store = store;
        /// Sets the session store.
        with_session_store(Arc<dyn RuntimeSessionStore>) |builder, store| builder.session_store = store;
        /// Sets the store that messages are copied to.
        with_message_store(Arc<dyn RuntimeMessageStore>) |builder, store| builder.message_store = store;
        /// Sets the provider store.
        with_provider_store(Arc<dyn RuntimeProviderStore>) |builder, store| builder.provider_store = store;
        /// Sets the bus that events are copied to.
        with_event_bus(Arc<dyn EventBus>) |builder, bus| builder.event_bus = bus;
        /// Sets the store of values and secrets.
        with_storage_store(Arc<dyn SessionStorageStore>) |builder, store| builder.storage_store = store;
        /// Sets the resolver of tokens of connected accounts.
        with_connection_resolver(Arc<dyn UserConnectionResolver>) |builder, resolver| builder.connection_resolver = Some(resolver);
        /// Sets the file system of sessions.
        with_file_system(Arc<dyn SessionFileSystem>) |builder, files| builder.file_system = Some(files);
    }

    /// Returns the queries over the journal, or an error if there are none.
    pub(crate) fn queries(&self) -> Result<&dyn Queries> {
        self.queries.as_deref().ok_or_else(|| {
            AgentLoopError::config(
                "the journal was given without queries, so its threads cannot be listed; give both, with \
                 RuntimeBackends::with_queries",
            )
        })
    }
}
