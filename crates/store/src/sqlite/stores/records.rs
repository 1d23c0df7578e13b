//! Harnesses, agents and sessions: primary data, stored as JSON with indexed columns.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::Utc;
use rusqlite::{Connection, Params, Row};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;
use windlass_core::agent::Agent;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::harness::Harness;
use windlass_core::session::{Session, SubagentStatus};
use windlass_core::traits::{AgentStore, HarnessStore, SessionMutator, SessionStore};
use windlass_core::typed_id::{AgentId, HarnessId, SessionId};

use crate::records::Records;
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::{DbError, DbResult, SqliteError};
use crate::sqlite::inner::Inner;
use crate::sqlite::numbers::{first_value, int};
use crate::sqlite::write::writer::WriteContext;

/// Harnesses, agents and sessions in a SQLite database; clones share them.
#[derive(Debug, Clone)]
pub struct SqliteRecords {
    pub(crate) inner: Arc<Inner>,
}

/// The child sessions of one parent, and of all parents, the newest first. Both read an index in its order.
pub(crate) const CHILDREN: &str = "SELECT id FROM sessions WHERE parent = ?3 ORDER BY created_at DESC, id DESC LIMIT ?1 OFFSET ?2";
pub(crate) const ALL_CHILDREN: &str = "SELECT id FROM sessions WHERE parent IS NOT NULL ORDER BY created_at DESC, id DESC LIMIT ?1 OFFSET ?2";

/// A record with a table of its own.
pub(crate) trait StoredEntity: Serialize + DeserializeOwned + Send + Sync + 'static {
    const TABLE: &'static str;

    fn uuid(&self) -> Uuid;

    /// Kind, ID and name of the record, for the operator.
    fn describe(&self) -> String;

    /// Inserts or replaces the record.
    fn put(&self, db: &Connection) -> DbResult<()>;
}

impl StoredEntity for Harness {
    const TABLE: &'static str = "harnesses";

    fn uuid(&self) -> Uuid {
        self.id.uuid()
    }

    fn describe(&self) -> String {
        format!("harness {} ({})", self.id, self.name)
    }

    fn put(&self, db: &Connection) -> DbResult<()> {
        let sql =
            "INSERT OR REPLACE INTO harnesses (id, name, parent, record) VALUES (?1, ?2, ?3, ?4)";
        let parent = self.parent_harness_id.map(|id| *id.uuid().as_bytes());
        let row = (self.uuid().into_bytes(), &self.name, parent, json(self)?);
        db.execute_cached(sql, row)?;
        Ok(())
    }
}

impl StoredEntity for Agent {
    const TABLE: &'static str = "agents";

    fn uuid(&self) -> Uuid {
        self.public_id.uuid()
    }

    fn describe(&self) -> String {
        format!("agent {} ({})", self.public_id, self.name)
    }

    fn put(&self, db: &Connection) -> DbResult<()> {
        let sql = "INSERT OR REPLACE INTO agents (id, name, record) VALUES (?1, ?2, ?3)";
        let row = (self.uuid().into_bytes(), &self.name, json(self)?);
        db.execute_cached(sql, row)?;
        Ok(())
    }
}

impl StoredEntity for Session {
    const TABLE: &'static str = "sessions";

    fn uuid(&self) -> Uuid {
        self.id.uuid()
    }

    fn describe(&self) -> String {
        let title = self.title.as_deref().unwrap_or("untitled");
        format!("session {} ({title})", self.id)
    }

    fn put(&self, db: &Connection) -> DbResult<()> {
        let sql = "INSERT OR REPLACE INTO sessions \
            (id, harness, agent, parent, status, created_at, updated_at, record) \
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let row = (
            self.uuid().into_bytes(),
            self.harness_id.uuid().into_bytes(),
            self.agent_id.map(|id| *id.uuid().as_bytes()),
            self.parent_session_id.map(|id| *id.uuid().as_bytes()),
            self.status.to_string(),
            self.created_at.timestamp_micros(),
            self.updated_at.timestamp_micros(),
            json(self)?,
        );
        db.execute_cached(sql, row)?;
        Ok(())
    }
}

fn json(record: &impl Serialize) -> DbResult<String> {
    serde_json::to_string(record)
        .map_err(|error| DbError::unavailable(format!("a record has no JSON: {error}")))
}

fn parse<T: StoredEntity>(text: &str) -> DbResult<T> {
    serde_json::from_str(text).map_err(|error| {
        let what = format!("record of {}", T::TABLE);
        let why = error.to_string();
        SqliteError::DamagedRow { what, why }.into()
    })
}

fn find<T: StoredEntity>(db: &Connection, id: Uuid) -> DbResult<Option<T>> {
    find_json(db, T::TABLE, id)?
        .map(|text| parse(&text))
        .transpose()
}

pub(crate) fn find_json(db: &Connection, table: &str, id: Uuid) -> DbResult<Option<String>> {
    let sql = format!("SELECT record FROM {table} WHERE id = ?1");
    Ok(db.find_row(&sql, [id.as_bytes()], first_value)?)
}

fn session_ids(db: &Connection, sql: &str, parameters: impl Params) -> DbResult<Vec<SessionId>> {
    let id = |row: &Row<'_>| Ok(SessionId::from_uuid(Uuid::from_bytes(row.get(0)?)));
    Ok(db.list_rows(sql, parameters, id)?)
}

impl SqliteRecords {
    async fn add<T: StoredEntity>(&self, record: T) -> Result<()> {
        self.inner.write(move |work| record.put(work.db)).await
    }

    async fn remove<T: StoredEntity>(&self, id: Uuid) -> Result<bool> {
        let sql = format!("DELETE FROM {} WHERE id = ?1", T::TABLE);
        Ok(self.inner.execute(sql, [id.into_bytes()]).await? > 0)
    }

    async fn find<T: StoredEntity>(&self, id: Uuid) -> Result<Option<T>> {
        self.inner.read(move |reader| find(reader, id)).await
    }

    async fn list<T: StoredEntity>(&self, order: &'static str) -> Result<Vec<T>> {
        let list = move |reader: &Connection| {
            let sql = format!("SELECT record FROM {} ORDER BY {order}", T::TABLE);
            let texts = reader.list_rows(&sql, [], first_value::<String>)?;
            texts.iter().map(|text| parse(text)).collect()
        };
        self.inner.read(list).await
    }

    /// Changes a session atomically; `None` if it does not exist.
    async fn modify_session(
        &self,
        id: SessionId,
        change: impl FnOnce(&mut Session) + Send + 'static,
    ) -> Result<Option<Session>> {
        let modify = move |work: &mut WriteContext<'_>| {
            let Some(mut session) = find::<Session>(work.db, id.uuid())? else {
                return Ok(None);
            };
            change(&mut session);
            session.put(work.db)?;
            Ok(Some(session))
        };
        self.inner.write(modify).await
    }
}

#[async_trait]
impl Records for SqliteRecords {
    async fn add_harness(&self, harness: Harness) -> Result<()> {
        self.add(harness).await
    }
    async fn remove_harness(&self, id: HarnessId) -> Result<bool> {
        self.remove::<Harness>(id.uuid()).await
    }
    async fn list_harnesses(&self) -> Result<Vec<Harness>> {
        self.list("id").await
    }

    async fn add_agent(&self, agent: Agent) -> Result<()> {
        self.add(agent).await
    }
    async fn remove_agent(&self, id: AgentId) -> Result<bool> {
        self.remove::<Agent>(id.uuid()).await
    }
    async fn list_agents(&self) -> Result<Vec<Agent>> {
        self.list("id").await
    }

    async fn add_session(&self, session: Session) -> Result<()> {
        self.add(session).await
    }
    async fn set_subagent_status(&self, id: SessionId, status: SubagentStatus) -> Result<bool> {
        let changed = self.modify_session(id, move |session| {
            session.subagent_status = Some(status);
        });
        Ok(changed.await?.is_some())
    }
    async fn remove_session(&self, id: SessionId) -> Result<bool> {
        self.remove::<Session>(id.uuid()).await
    }
    async fn list_sessions(&self) -> Result<Vec<Session>> {
        self.list("created_at, id").await
    }
    async fn session_ids(&self) -> Result<Vec<SessionId>> {
        let sql = "SELECT id FROM sessions ORDER BY created_at, id";
        self.inner.read(|reader| session_ids(reader, sql, [])).await
    }
    async fn child_ids(
        &self,
        parent: Option<SessionId>,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<SessionId>> {
        let list = move |reader: &Connection| {
            let (limit, skip) = (int(limit as u64), int(skip as u64));
            match parent {
                Some(parent) => {
                    session_ids(reader, CHILDREN, (limit, skip, parent.uuid().as_bytes()))
                }
                None => session_ids(reader, ALL_CHILDREN, (limit, skip)),
            }
        };
        self.inner.read(list).await
    }
}

#[async_trait]
impl SessionStore for SqliteRecords {
    async fn get_session(&self, session_id: SessionId) -> Result<Option<Session>> {
        self.find(session_id.uuid()).await
    }
}

#[async_trait]
impl SessionMutator for SqliteRecords {
    async fn update_session_title(&self, session_id: SessionId, title: String) -> Result<Session> {
        let changed = self.modify_session(session_id, |session| {
            session.title = Some(title);
            session.updated_at = Utc::now();
        });
        changed
            .await?
            .ok_or_else(|| AgentLoopError::store(format!("session not found: {session_id}")))
    }
}

#[async_trait]
impl AgentStore for SqliteRecords {
    async fn get_agent(&self, agent_id: AgentId) -> Result<Option<Agent>> {
        self.find(agent_id.uuid()).await
    }
}

#[async_trait]
impl HarnessStore for SqliteRecords {
    async fn get_harness_chain(&self, harness_id: HarnessId) -> Result<Vec<Harness>> {
        let chain = move |reader: &_| harness_chain(reader, harness_id);
        self.inner.read(chain).await
    }
}

/// Follows the parents of a harness; root first.
fn harness_chain(reader: &Connection, harness_id: HarnessId) -> DbResult<Vec<Harness>> {
    let mut chain: Vec<Harness> = Vec::new();
    let mut next = Some(harness_id);
    while let Some(id) = next {
        if chain.iter().any(|harness| harness.id == id) {
            let what = format!("harness {id} inherits from itself");
            return Err(AgentLoopError::config(what).into());
        }
        let Some(harness) = find::<Harness>(reader, id.uuid())? else {
            let Some(child) = chain.last() else {
                return Ok(Vec::new());
            };
            let child = child.id;
            let what = format!("harness {child} inherits from {id}, which does not exist");
            return Err(AgentLoopError::config(what).into());
        };
        next = harness.parent_harness_id;
        chain.push(harness);
    }
    chain.reverse();
    Ok(chain)
}
