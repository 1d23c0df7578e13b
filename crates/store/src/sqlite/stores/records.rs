//! Harnesses, agents and sessions: tables that are truth themselves, a JSON record and the columns to find it by.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::Utc;
use rusqlite::Connection;
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

/// Sessions that work for one parent, and those that work for any, the newest first. Both read an index in its order.
pub(crate) const CHILDREN: &str = "SELECT id FROM sessions WHERE parent = ?3 ORDER BY created_at DESC, id DESC LIMIT ?1 OFFSET ?2";
pub(crate) const ALL_CHILDREN: &str = "SELECT id FROM sessions WHERE parent IS NOT NULL ORDER BY created_at DESC, id DESC LIMIT ?1 OFFSET ?2";

fn json(record: &impl Serialize) -> DbResult<String> {
    serde_json::to_string(record)
        .map_err(|error| DbError::unavailable(format!("a record has no JSON: {error}")))
}

fn parse<T: DeserializeOwned>(table: &str, text: &str) -> DbResult<T> {
    serde_json::from_str(text).map_err(|error| {
        let what = format!("record of {table}");
        let why = error.to_string();
        SqliteError::DamagedRow { what, why }.into()
    })
}

fn get<T: DeserializeOwned>(db: &Connection, table: &str, id: Uuid) -> DbResult<Option<T>> {
    let text = text(db, table, id)?;
    text.map(|text| parse(table, &text)).transpose()
}

/// Reads the JSON of a record.
pub(crate) fn text(db: &Connection, table: &str, id: Uuid) -> DbResult<Option<String>> {
    let text = db.find_row(
        &format!("SELECT record FROM {table} WHERE id = ?1"),
        [id.as_bytes()],
        first_value,
    )?;
    Ok(text)
}

fn select<T: DeserializeOwned>(
    db: &Connection,
    table: &str,
    rest: &str,
    parameters: impl rusqlite::Params,
) -> DbResult<Vec<T>> {
    let mut statement = db.prepare_cached(&format!("SELECT record FROM {table} {rest}"))?;
    let mut rows = statement.query(parameters)?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        records.push(parse(
            table,
            row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?,
        )?);
    }
    Ok(records)
}

fn delete(work: &mut WriteContext<'_>, table: &str, id: Uuid) -> DbResult<bool> {
    let deleted = work.db.execute_cached(
        &format!("DELETE FROM {table} WHERE id = ?1"),
        [id.as_bytes()],
    )?;
    Ok(deleted > 0)
}

pub(crate) fn put_harness(work: &mut WriteContext<'_>, harness: &Harness) -> DbResult<()> {
    let parent = harness.parent_harness_id.map(|id| *id.uuid().as_bytes());
    work.db.execute_cached(
        "INSERT OR REPLACE INTO harnesses (id, name, parent, record) VALUES (?1, ?2, ?3, ?4)",
        (
            harness.id.uuid().as_bytes(),
            &harness.name,
            parent,
            json(harness)?,
        ),
    )?;
    Ok(())
}

pub(crate) fn put_agent(work: &mut WriteContext<'_>, agent: &Agent) -> DbResult<()> {
    work.db.execute_cached(
        "INSERT OR REPLACE INTO agents (id, name, record) VALUES (?1, ?2, ?3)",
        (agent.public_id.uuid().as_bytes(), &agent.name, json(agent)?),
    )?;
    Ok(())
}

pub(crate) fn put_session(work: &mut WriteContext<'_>, session: &Session) -> DbResult<()> {
    let sql = "INSERT OR REPLACE INTO sessions \
             (id, harness, agent, parent, status, created_at, updated_at, record) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    work.db.execute_cached(
        sql,
        (
            session.id.uuid().as_bytes(),
            session.harness_id.uuid().as_bytes(),
            session.agent_id.map(|id| *id.uuid().as_bytes()),
            session.parent_session_id.map(|id| *id.uuid().as_bytes()),
            session.status.to_string(),
            session.created_at.timestamp_micros(),
            session.updated_at.timestamp_micros(),
            json(session)?,
        ),
    )?;
    Ok(())
}

impl SqliteRecords {
    /// Changes a session atomically; `None` if it does not exist.
    async fn modify_session(
        &self,
        id: SessionId,
        change: impl FnOnce(&mut Session) + Send + 'static,
    ) -> Result<Option<Session>> {
        self.inner
            .write(move |work| {
                let found: Option<Session> = get(work.db, "sessions", id.uuid())?;
                let Some(mut session) = found else {
                    return Ok(None);
                };
                change(&mut session);
                put_session(work, &session)?;
                Ok(Some(session))
            })
            .await
    }
}

#[async_trait]
impl Records for SqliteRecords {
    async fn add_harness(&self, harness: Harness) -> Result<()> {
        self.inner
            .write(move |work| put_harness(work, &harness))
            .await
    }
    async fn remove_harness(&self, id: HarnessId) -> Result<bool> {
        self.inner
            .write(move |work| delete(work, "harnesses", id.uuid()))
            .await
    }
    async fn list_harnesses(&self) -> Result<Vec<Harness>> {
        self.inner
            .read(|reader| select(reader, "harnesses", "ORDER BY id", []))
            .await
    }

    async fn add_agent(&self, agent: Agent) -> Result<()> {
        self.inner.write(move |work| put_agent(work, &agent)).await
    }
    async fn remove_agent(&self, id: AgentId) -> Result<bool> {
        self.inner
            .write(move |work| delete(work, "agents", id.uuid()))
            .await
    }
    async fn list_agents(&self) -> Result<Vec<Agent>> {
        self.inner
            .read(|reader| select(reader, "agents", "ORDER BY id", []))
            .await
    }

    async fn add_session(&self, session: Session) -> Result<()> {
        self.inner
            .write(move |work| put_session(work, &session))
            .await
    }
    async fn set_subagent_status(&self, id: SessionId, status: SubagentStatus) -> Result<bool> {
        let changed = self.modify_session(id, move |session| {
            session.subagent_status = Some(status);
        });
        Ok(changed.await?.is_some())
    }
    async fn remove_session(&self, id: SessionId) -> Result<bool> {
        self.inner
            .write(move |work| delete(work, "sessions", id.uuid()))
            .await
    }
    async fn list_sessions(&self) -> Result<Vec<Session>> {
        self.inner
            .read(|reader| select(reader, "sessions", "ORDER BY created_at, id", []))
            .await
    }
    async fn session_ids(&self) -> Result<Vec<SessionId>> {
        self.inner
            .read(|reader| {
                let mut statement =
                    reader.prepare_cached("SELECT id FROM sessions ORDER BY created_at, id")?;
                let ids = statement.query_map([], |row| row.get(0).map(Uuid::from_bytes))?;
                let ids: rusqlite::Result<_> = ids.map(|id| id.map(SessionId::from_uuid)).collect();
                Ok(ids?)
            })
            .await
    }
    async fn child_ids(
        &self,
        parent: Option<SessionId>,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<SessionId>> {
        let query = match parent {
            Some(_) => CHILDREN,
            None => ALL_CHILDREN,
        };
        self.inner
            .read(move |reader| {
                let (limit, skip) = (int(limit as u64), int(skip as u64));
                let parent = parent.map(|id| *id.uuid().as_bytes());
                let all: [&dyn rusqlite::ToSql; 3] = [&limit, &skip, &parent];
                let mut statement = reader.prepare_cached(query)?;
                let count = statement.parameter_count();
                let ids =
                    statement.query_map(&all[..count], |row| row.get(0).map(Uuid::from_bytes))?;
                let ids: rusqlite::Result<_> = ids.map(|id| id.map(SessionId::from_uuid)).collect();
                Ok(ids?)
            })
            .await
    }
}

#[async_trait]
impl SessionStore for SqliteRecords {
    async fn get_session(&self, session_id: SessionId) -> Result<Option<Session>> {
        self.inner
            .read(move |reader| get(reader, "sessions", session_id.uuid()))
            .await
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
        self.inner
            .read(move |reader| get(reader, "agents", agent_id.uuid()))
            .await
    }
}

#[async_trait]
impl HarnessStore for SqliteRecords {
    async fn get_harness_chain(&self, harness_id: HarnessId) -> Result<Vec<Harness>> {
        self.inner
            .read(move |reader| harness_chain(reader, harness_id))
            .await
    }
}

/// Follows the parents of a harness; root first.
fn harness_chain(reader: &Connection, harness_id: HarnessId) -> DbResult<Vec<Harness>> {
    let mut chain: Vec<Harness> = Vec::new();
    let mut next = Some(harness_id);
    while let Some(id) = next {
        if chain.iter().any(|harness| harness.id == id) {
            return Err(
                AgentLoopError::config(format!("harness {id} inherits from itself")).into(),
            );
        }
        let found: Option<Harness> = get(reader, "harnesses", id.uuid())?;
        let Some(harness) = found else {
            return match chain.last() {
                None => Ok(Vec::new()),
                Some(child) => Err(AgentLoopError::config(format!(
                    "harness {} inherits from {id}, which does not exist",
                    child.id
                ))
                .into()),
            };
        };
        next = harness.parent_harness_id;
        chain.push(harness);
    }
    chain.reverse();
    Ok(chain)
}
