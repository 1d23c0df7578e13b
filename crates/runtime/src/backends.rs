//! What a runtime keeps its records in.

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

fn unsupported(what: &str) -> AgentLoopError {
    AgentLoopError::config(format!(
        "this store cannot {what}; use one that can, or do it in the store itself"
    ))
}

/// Agents that can be changed.
#[async_trait]
pub trait RuntimeAgentStore: AgentStore {
    /// Adds or replaces an agent.
    async fn add_agent(&self, agent: Agent) -> Result<()>;
    /// Returns all agents.
    async fn list_agents(&self) -> Result<Vec<Agent>> {
        Err(unsupported("list agents"))
    }
    /// Removes an agent; tells whether it was there.
    async fn remove_agent(&self, _id: AgentId) -> Result<bool> {
        Err(unsupported("remove agents"))
    }
}

/// Harnesses that can be changed.
#[async_trait]
pub trait RuntimeHarnessStore: HarnessStore {
    /// Adds or replaces a harness.
    async fn add_harness(&self, harness: Harness) -> Result<()>;
    /// Returns all harnesses.
    async fn list_harnesses(&self) -> Result<Vec<Harness>> {
        Err(unsupported("list harnesses"))
    }
    /// Removes a harness; tells whether it was there.
    async fn remove_harness(&self, _id: HarnessId) -> Result<bool> {
        Err(unsupported("remove harnesses"))
    }
}

/// What a turn changes of a session's record.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionProgress {
    /// What the session is doing.
    pub status: SessionStatus,
    /// When its first turn started.
    pub started_at: Option<DateTime<Utc>>,
    /// What all its turns used.
    pub usage: Option<TokenUsage>,
    /// When this was.
    pub updated_at: DateTime<Utc>,
}

impl SessionProgress {
    /// Writes the progress into a record.
    pub fn apply(&self, session: &mut Session) {
        session.status = self.status;
        session.started_at = session.started_at.or(self.started_at);
        session.usage = self.usage.or(session.usage);
        session.updated_at = session.updated_at.max(self.updated_at);
    }
}

/// Sessions that can be changed.
#[async_trait]
pub trait RuntimeSessionStore: SessionStore + SessionMutator {
    /// Adds or replaces a session.
    async fn add_session(&self, session: Session) -> Result<()>;
    /// Notes what a turn did. A store that can change a record in place overrides this.
    async fn note_progress(&self, session_id: SessionId, progress: SessionProgress) -> Result<()> {
        if let Some(mut session) = self.get_session(session_id).await? {
            progress.apply(&mut session);
            self.add_session(session).await?;
        }
        Ok(())
    }
    /// Sets the status of a session that works for another; tells whether it is there. A store that can change a record in
    /// place overrides this, so that no other change of the record is lost.
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
    /// Tells whether a session is there. A store that can tell without copying overrides this.
    async fn has_session(&self, session_id: SessionId) -> Result<bool> {
        Ok(self.get_session(session_id).await?.is_some())
    }
    /// Returns all sessions.
    async fn list_sessions(&self) -> Result<Vec<Session>> {
        Err(unsupported("list sessions"))
    }
    /// Returns the ids of all sessions. A store that knows them without reading the records overrides this.
    async fn session_ids(&self) -> Result<Vec<SessionId>> {
        let sessions = self.list_sessions().await?;
        Ok(sessions.into_iter().map(|session| session.id).collect())
    }
    /// Returns the ids of sessions that work for another one, the newest first: of one parent or of all, `limit` behind the first `skip`. A
    /// store that can look them up overrides this.
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
    /// Removes a session; tells whether it was there.
    async fn remove_session(&self, _id: SessionId) -> Result<bool> {
        Err(unsupported("remove sessions"))
    }
}

/// Messages that can be added.
#[async_trait]
pub trait RuntimeMessageStore: MessageRetriever {
    /// Adds an input and returns the message it became.
    async fn add_input_message(
        &self,
        session_id: SessionId,
        input: InputMessage,
    ) -> Result<Message>;
    /// Adds a message.
    async fn store_message(&self, session_id: SessionId, message: Message) -> Result<()>;
}

/// Models that can be changed.
#[async_trait]
pub trait RuntimeProviderStore: LlmProviderStore {
    /// Sets the model to use when nothing names one.
    async fn set_default_model(&self, model: ModelWithProvider) -> Result<()>;
}

/// Events, for the host.
#[async_trait]
pub trait EventBus: EventEmitter {
    /// Returns what was collected, if this bus collects.
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

/// What a runtime keeps its records in.
///
/// The journal is the truth of conversations. `message_store` and `event_bus` show it; if an embedder puts its own
/// in their place, the runtime copies messages and events there after they are recorded, and never reads them.
#[derive(Clone)]
pub struct RuntimeBackends {
    /// Harnesses.
    pub harness_store: Arc<dyn RuntimeHarnessStore>,
    /// Agents.
    pub agent_store: Arc<dyn RuntimeAgentStore>,
    /// Sessions.
    pub session_store: Arc<dyn RuntimeSessionStore>,
    /// Messages.
    pub message_store: Arc<dyn RuntimeMessageStore>,
    /// Models.
    pub provider_store: Arc<dyn RuntimeProviderStore>,
    /// Events.
    pub event_bus: Arc<dyn EventBus>,
    /// Keys and secrets.
    pub storage_store: Arc<dyn SessionStorageStore>,
    /// Tokens of connected accounts.
    pub connection_resolver: Option<Arc<dyn UserConnectionResolver>>,
    /// The journal.
    pub journal: Arc<dyn Journal>,
    /// What answers about the threads and turns of the journal, for lists and for forks at a turn.
    pub queries: Option<Arc<dyn Queries>>,
    /// What all sessions may spend together in a day; `None` is no limit.
    pub daily_limit: Option<DailyLimit>,
    /// Files, where the platform's factory should not make them.
    pub file_system: Option<Arc<dyn SessionFileSystem>>,
    /// The views that came with the journal: what is still one of these needs no copy.
    pub(crate) views: Views,
}

#[derive(Clone)]
pub(crate) struct Views {
    pub(crate) messages: Arc<JournalMessages>,
    pub(crate) events: Arc<JournalEvents>,
}

impl std::fmt::Debug for RuntimeBackends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuntimeBackends").finish_non_exhaustive()
    }
}

impl RuntimeBackends {
    /// Keeps everything in memory.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::on_memory(&Arc::new(MemoryJournal::new()))
    }

    /// Keeps everything in memory, conversations in a journal that is there already.
    #[must_use]
    pub fn on_memory(journal: &Arc<MemoryJournal>) -> Self {
        let queries = MemoryQueries::new(Arc::clone(journal), Arc::default());
        Self::on_journal(Arc::clone(journal) as _).with_queries(Arc::new(queries))
    }

    /// Keeps conversations in a journal, and everything else in memory. Lists of sessions and forks at a turn need
    /// [queries](Self::with_queries) about that journal too.
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
            views: Views { messages, events },
        }
    }

    /// Sets what answers about the journal.
    #[must_use]
    pub fn with_queries(mut self, queries: Arc<dyn Queries>) -> Self {
        self.queries = Some(queries);
        self
    }
    /// Returns what answers about the journal.
    pub(crate) fn queries(&self) -> Result<&dyn Queries> {
        self.queries.as_deref().ok_or_else(|| {
            AgentLoopError::config(
                "the journal was given without queries, so its threads cannot be listed; give both, with \
                 RuntimeBackends::with_queries",
            )
        })
    }
    /// Limits what all sessions spend together in a day. The ledger must belong to the journal.
    #[must_use]
    pub fn with_daily_limit(mut self, limit: DailyLimit) -> Self {
        self.daily_limit = Some(limit);
        self
    }
    /// Sets the harnesses.
    #[must_use]
    pub fn with_harness_store(mut self, store: Arc<dyn RuntimeHarnessStore>) -> Self {
        self.harness_store = store;
        self
    }
    /// Sets the agents.
    #[must_use]
    pub fn with_agent_store(mut self, store: Arc<dyn RuntimeAgentStore>) -> Self {
        self.agent_store = store;
        self
    }
    /// Sets the sessions.
    #[must_use]
    pub fn with_session_store(mut self, store: Arc<dyn RuntimeSessionStore>) -> Self {
        self.session_store = store;
        self
    }
    /// Sets where messages are copied to.
    #[must_use]
    pub fn with_message_store(mut self, store: Arc<dyn RuntimeMessageStore>) -> Self {
        self.message_store = store;
        self
    }
    /// Sets the models.
    #[must_use]
    pub fn with_provider_store(mut self, store: Arc<dyn RuntimeProviderStore>) -> Self {
        self.provider_store = store;
        self
    }
    /// Sets where events are copied to.
    #[must_use]
    pub fn with_event_bus(mut self, bus: Arc<dyn EventBus>) -> Self {
        self.event_bus = bus;
        self
    }
    /// Sets the keys and secrets.
    #[must_use]
    pub fn with_storage_store(mut self, store: Arc<dyn SessionStorageStore>) -> Self {
        self.storage_store = store;
        self
    }
    /// Sets who finds tokens of connected accounts.
    #[must_use]
    pub fn with_connection_resolver(mut self, resolver: Arc<dyn UserConnectionResolver>) -> Self {
        self.connection_resolver = Some(resolver);
        self
    }
    /// Sets the files.
    #[must_use]
    pub fn with_file_system(mut self, files: Arc<dyn SessionFileSystem>) -> Self {
        self.file_system = Some(files);
        self
    }
}
