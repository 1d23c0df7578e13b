//! Everything on disk: backends on one SQLite database.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use windlass_core::agent::Agent;
use windlass_core::error::Result;
use windlass_core::harness::Harness;
use windlass_core::session::Session;
use windlass_core::traits::{AgentStore, HarnessStore, SessionMutator, SessionStore};
use windlass_core::typed_id::{AgentId, HarnessId, SessionId};
use windlass_store::Queries;
use windlass_store::sqlite::{
    SqliteError, SqliteOptions, SqliteQueries, SqliteRecords, SqliteStore,
};

use crate::backends::{
    RuntimeAgentStore, RuntimeBackends, RuntimeHarnessStore, RuntimeSessionStore, SessionProgress,
};
use crate::errors::from_query;

impl RuntimeBackends {
    /// Keeps everything in a data directory: conversations, records, files, keys and secrets.
    ///
    /// Models are not stored, because a model has a key; set them when the runtime is built.
    pub async fn sqlite(options: SqliteOptions) -> std::result::Result<Self, SqliteError> {
        Ok(Self::on_sqlite(&SqliteStore::open(options).await?))
    }

    /// Keeps everything in a store that is open already.
    #[must_use]
    pub fn on_sqlite(store: &SqliteStore) -> Self {
        let records = store.records();
        let harnesses = SqliteHarnesses {
            records: records.clone(),
            chains: Cache::new(),
        };
        let agents = SqliteAgents {
            records: records.clone(),
            read: Cache::new(),
        };
        let sessions = SqliteSessions {
            records,
            queries: store.queries(),
            read: Cache::new(),
            progress: Cache::new(),
        };
        Self::on_journal(Arc::new(store.journal()))
            .with_queries(Arc::new(store.queries()))
            .with_harness_store(Arc::new(harnesses))
            .with_agent_store(Arc::new(agents))
            .with_session_store(Arc::new(sessions))
            .with_storage_store(Arc::new(store.storage()))
            .with_file_system(Arc::new(store.files()))
    }
}

/// How many records of a kind stay in memory.
const MAX_CACHED: usize = 1024;

/// Records that were read. One process alone writes a data directory, so what it wrote or read last is what is there.
struct Cache<K, V>(Mutex<HashMap<K, V>>);

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    fn new() -> Self {
        Self(Mutex::default())
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<K, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, key: &K) -> Option<V> {
        self.entries().get(key).cloned()
    }

    fn put(&self, key: K, value: V) {
        let mut entries = self.entries();
        if entries.len() >= MAX_CACHED {
            entries.clear();
        }
        entries.insert(key, value);
    }

    fn remove(&self, key: &K) {
        self.entries().remove(key);
    }

    fn clear(&self) {
        self.entries().clear();
    }
}

/// Agents on disk.
struct SqliteAgents {
    records: SqliteRecords,
    read: Cache<AgentId, Agent>,
}

#[async_trait]
impl AgentStore for SqliteAgents {
    async fn get_agent(&self, agent_id: AgentId) -> Result<Option<Agent>> {
        if let Some(agent) = self.read.get(&agent_id) {
            return Ok(Some(agent));
        }
        let agent = self.records.get_agent(agent_id).await?;
        if let Some(agent) = &agent {
            self.read.put(agent_id, agent.clone());
        }
        Ok(agent)
    }
}

#[async_trait]
impl RuntimeAgentStore for SqliteAgents {
    async fn add_agent(&self, agent: Agent) -> Result<()> {
        self.read.remove(&agent.public_id);
        self.records.add_agent(agent).await
    }
    async fn list_agents(&self) -> Result<Vec<Agent>> {
        self.records.list_agents().await
    }
    async fn remove_agent(&self, id: AgentId) -> Result<bool> {
        self.read.remove(&id);
        self.records.remove_agent(id).await
    }
}

/// Harnesses on disk. A change of one may change the chain of any other.
struct SqliteHarnesses {
    records: SqliteRecords,
    chains: Cache<HarnessId, Vec<Harness>>,
}

#[async_trait]
impl HarnessStore for SqliteHarnesses {
    async fn get_harness_chain(&self, harness_id: HarnessId) -> Result<Vec<Harness>> {
        if let Some(chain) = self.chains.get(&harness_id) {
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
impl RuntimeHarnessStore for SqliteHarnesses {
    async fn add_harness(&self, harness: Harness) -> Result<()> {
        self.chains.clear();
        let added = self.records.add_harness(harness).await;
        // Somebody may have read the old one while the new one was written.
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

/// Sessions on disk, with what their turns do in memory.
///
/// Status and figures follow from the journal, which is durable already. Writing them too would double the commits of
/// a turn, so they are laid over the record when it is read. Those of a session that is not in memory are looked up.
struct SqliteSessions {
    records: SqliteRecords,
    queries: SqliteQueries,
    read: Cache<SessionId, Session>,
    progress: Cache<SessionId, SessionProgress>,
}

impl SqliteSessions {
    async fn with_progress(&self, mut session: Session) -> Result<Session> {
        if let Some(progress) = self.progress.get(&session.id) {
            progress.apply(&mut session);
            return Ok(session);
        }
        let thread = self.queries.thread(&session.id.into()).await;
        if let Some(thread) = thread.map_err(from_query)? {
            // A fork that has no turn of its own is as it was made.
            if thread.turns > 0 || thread.origin.is_none() {
                session.status = thread.status();
            }
            session.usage = thread.usage.or(session.usage);
            session.updated_at = session.updated_at.max(thread.updated_at);
        }
        Ok(session)
    }

    async fn find(&self, session_id: SessionId) -> Result<Option<Session>> {
        if let Some(session) = self.read.get(&session_id) {
            return Ok(Some(session));
        }
        let session = self.records.get_session(session_id).await?;
        if let Some(session) = &session {
            self.read.put(session_id, session.clone());
        }
        Ok(session)
    }
}

#[async_trait]
impl SessionStore for SqliteSessions {
    async fn get_session(&self, session_id: SessionId) -> Result<Option<Session>> {
        match self.find(session_id).await? {
            Some(session) => Ok(Some(self.with_progress(session).await?)),
            None => Ok(None),
        }
    }
}

#[async_trait]
impl SessionMutator for SqliteSessions {
    async fn update_session_title(&self, session_id: SessionId, title: String) -> Result<Session> {
        let session = self.records.update_session_title(session_id, title).await?;
        self.read.put(session_id, session.clone());
        self.with_progress(session).await
    }
}

#[async_trait]
impl RuntimeSessionStore for SqliteSessions {
    async fn add_session(&self, session: Session) -> Result<()> {
        let session_id = session.id;
        let added = self.records.add_session(session).await;
        self.read.remove(&session_id);
        added
    }
    async fn note_progress(&self, session_id: SessionId, progress: SessionProgress) -> Result<()> {
        self.progress.put(session_id, progress);
        Ok(())
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
    async fn remove_session(&self, id: SessionId) -> Result<bool> {
        let removed = self.records.remove_session(id).await;
        self.read.remove(&id);
        self.progress.remove(&id);
        removed
    }
}
