//! Store backends on a durable store.

use std::hash::Hash;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use windlass_core::agent::Agent;
use windlass_core::error::Result;
use windlass_core::harness::Harness;
use windlass_core::session::{Session, SubagentStatus};
use windlass_core::traits::{
    AgentStore, HarnessStore, SessionFileSystem, SessionMutator, SessionStorageStore, SessionStore,
};
use windlass_core::typed_id::{AgentId, HarnessId, SessionId};
use windlass_store::sqlite::{SqliteError, SqliteOptions, SqliteStore};
use windlass_store::{Journal, Queries, RecentlyUsed, Records};

use crate::backends::{
    RuntimeAgentStore, RuntimeBackends, RuntimeHarnessStore, RuntimeSessionStore, SessionProgress,
};
use crate::errors::from_query;
use crate::runtime::apply_thread;
use windlass_core::lock::lock;

/// The parts of a durable store. Only one process writes them.
pub struct DurableParts {
    /// Append-only event log of all sessions.
    pub journal: Arc<dyn Journal>,
    /// Queries over the journal.
    pub queries: Arc<dyn Queries>,
    /// Records of harnesses, agents and sessions.
    pub records: Arc<dyn Records>,
    /// Values and secrets of sessions.
    pub storage: Arc<dyn SessionStorageStore>,
    /// Files of sessions.
    pub files: Arc<dyn SessionFileSystem>,
}

impl RuntimeBackends {
    /// Stores everything in a data directory: conversations, records, files, values and secrets.
    ///
    /// Models are not stored, because a model has a key; set them when the runtime is built.
    pub async fn sqlite(options: SqliteOptions) -> std::result::Result<Self, SqliteError> {
        Ok(Self::on_sqlite(&SqliteStore::open(options).await?))
    }

    /// Stores everything in an open SQLite store.
    #[must_use]
    pub fn on_sqlite(store: &SqliteStore) -> Self {
        Self::durable(DurableParts {
            journal: Arc::new(store.journal()),
            queries: Arc::new(store.queries()),
            records: Arc::new(store.records()),
            storage: Arc::new(store.storage()),
            files: Arc::new(store.files()),
        })
    }

    /// Stores everything in a durable store of any kind.
    #[must_use]
    pub fn durable(parts: DurableParts) -> Self {
        let harnesses = DurableHarnesses {
            records: Arc::clone(&parts.records),
            chains: RecordCache::new(),
        };
        let agents = DurableAgents {
            records: Arc::clone(&parts.records),
            cache: RecordCache::new(),
        };
        let sessions = DurableSessions {
            records: parts.records,
            queries: Arc::clone(&parts.queries),
            cache: RecordCache::new(),
            progress: RecordCache::new(),
        };
        Self::on_journal(parts.journal)
            .with_queries(parts.queries)
            .with_harness_store(Arc::new(harnesses))
            .with_agent_store(Arc::new(agents))
            .with_session_store(Arc::new(sessions))
            .with_storage_store(parts.storage)
            .with_file_system(parts.files)
    }
}

/// Maximum number of cached records of a kind.
const MAX_CACHED: usize = 1024;

/// Recently used records. Only one process writes them, so the value it last wrote or read is current.
struct RecordCache<K, V>(Mutex<RecentlyUsed<K, V>>);

impl<K: Copy + Eq + Hash, V: Clone> RecordCache<K, V> {
    fn new() -> Self {
        Self(Mutex::default())
    }

    fn get(&self, key: K) -> Option<V> {
        lock(&self.0).get(key).cloned()
    }

    /// Returns the cached value, or reads and caches it.
    async fn get_or_read(
        &self,
        key: K,
        read: impl Future<Output = Result<Option<V>>>,
    ) -> Result<Option<V>> {
        if let Some(value) = self.get(key) {
            return Ok(Some(value));
        }
        let value = read.await?;
        if let Some(value) = &value {
            self.put(key, value.clone());
        }
        Ok(value)
    }

    fn put(&self, key: K, value: V) {
        let mut entries = lock(&self.0);
        entries.insert(key, value);
        if entries.count() > MAX_CACHED {
            entries.remove_oldest();
        }
    }

    fn remove(&self, key: K) {
        lock(&self.0).remove(key);
    }

    fn clear(&self) {
        lock(&self.0).clear();
    }
}

/// Agents on disk.
struct DurableAgents {
    records: Arc<dyn Records>,
    cache: RecordCache<AgentId, Agent>,
}

#[async_trait]
impl AgentStore for DurableAgents {
    async fn get_agent(&self, agent_id: AgentId) -> Result<Option<Agent>> {
        let read = self.records.get_agent(agent_id);
        self.cache.get_or_read(agent_id, read).await
    }
}

#[async_trait]
impl RuntimeAgentStore for DurableAgents {
    async fn add_agent(&self, agent: Agent) -> Result<()> {
        self.cache.remove(agent.public_id);
        self.records.add_agent(agent).await
    }
    async fn list_agents(&self) -> Result<Vec<Agent>> {
        self.records.list_agents().await
    }
    async fn remove_agent(&self, id: AgentId) -> Result<bool> {
        self.cache.remove(id);
        self.records.remove_agent(id).await
    }
}

/// Harnesses on disk. A change of one may change the inheritance chain of any other.
struct DurableHarnesses {
    records: Arc<dyn Records>,
    chains: RecordCache<HarnessId, Vec<Harness>>,
}

#[async_trait]
impl HarnessStore for DurableHarnesses {
    async fn get_harness_chain(&self, harness_id: HarnessId) -> Result<Vec<Harness>> {
        if let Some(chain) = self.chains.get(harness_id) {
            return Ok(chain);
        }
        let chain = self.records.get_harness_chain(harness_id).await?;
        if !chain.is_empty() {
            self.chains.put(harness_id, chain.clone());
        }
        Ok(chain)
    }
}

#[async_trait]
impl RuntimeHarnessStore for DurableHarnesses {
    async fn add_harness(&self, harness: Harness) -> Result<()> {
        self.chains.clear();
        let added = self.records.add_harness(harness).await;
        // A concurrent reader may have cached the old record while the new one was written.
        self.chains.clear();
        added
    }
    async fn list_harnesses(&self) -> Result<Vec<Harness>> {
        self.records.list_harnesses().await
    }
    async fn remove_harness(&self, id: HarnessId) -> Result<bool> {
        let removed = self.records.remove_harness(id).await;
        self.chains.clear();
        removed
    }
}

/// Sessions on disk, with the progress of their turns in memory.
///
/// Status and usage follow from the journal, which is durable already. Writing them as well would double the commits of a turn, so they are merged
/// into the record when it is read. For a session that is not in memory they are queried.
struct DurableSessions {
    records: Arc<dyn Records>,
    queries: Arc<dyn Queries>,
    cache: RecordCache<SessionId, Session>,
    progress: RecordCache<SessionId, SessionProgress>,
}

impl DurableSessions {
    async fn with_progress(&self, mut session: Session) -> Result<Session> {
        if let Some(progress) = self.progress.get(session.id) {
            progress.apply(&mut session);
            return Ok(session);
        }
        let thread = self.queries.thread(&session.id.into()).await;
        if let Some(thread) = thread.map_err(from_query)? {
            apply_thread(&mut session, &thread);
        }
        Ok(session)
    }

    async fn find(&self, session_id: SessionId) -> Result<Option<Session>> {
        let read = self.records.get_session(session_id);
        self.cache.get_or_read(session_id, read).await
    }
}

#[async_trait]
impl SessionStore for DurableSessions {
    async fn get_session(&self, session_id: SessionId) -> Result<Option<Session>> {
        match self.find(session_id).await? {
            Some(session) => Ok(Some(self.with_progress(session).await?)),
            None => Ok(None),
        }
    }
}

#[async_trait]
impl SessionMutator for DurableSessions {
    async fn update_session_title(&self, session_id: SessionId, title: String) -> Result<Session> {
        let session = self.records.update_session_title(session_id, title).await?;
        self.cache.put(session_id, session.clone());
        self.with_progress(session).await
    }
}

#[async_trait]
impl RuntimeSessionStore for DurableSessions {
    async fn add_session(&self, session: Session) -> Result<()> {
        let session_id = session.id;
        let added = self.records.add_session(session).await;
        self.cache.remove(session_id);
        added
    }
    async fn note_progress(&self, session_id: SessionId, progress: SessionProgress) -> Result<()> {
        self.progress.put(session_id, progress);
        Ok(())
    }
    async fn set_subagent_status(
        &self,
        session_id: SessionId,
        status: SubagentStatus,
    ) -> Result<bool> {
        let set = self.records.set_subagent_status(session_id, status).await;
        self.cache.remove(session_id);
        set
    }
    async fn has_session(&self, session_id: SessionId) -> Result<bool> {
        Ok(self.find(session_id).await?.is_some())
    }
    async fn list_sessions(&self) -> Result<Vec<Session>> {
        let mut sessions = Vec::new();
        for session in self.records.list_sessions().await? {
            sessions.push(self.with_progress(session).await?);
        }
        Ok(sessions)
    }
    async fn session_ids(&self) -> Result<Vec<SessionId>> {
        self.records.session_ids().await
    }
    async fn child_ids(
        &self,
        parent: Option<SessionId>,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<SessionId>> {
        self.records.child_ids(parent, skip, limit).await
    }
    async fn remove_session(&self, id: SessionId) -> Result<bool> {
        let removed = self.records.remove_session(id).await;
        self.cache.remove(id);
        self.progress.remove(id);
        removed
    }
}
