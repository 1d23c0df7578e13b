//! What a host keeps beside its sessions, in kinds that only it can read: a daemon's environments, for example.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension};
use windlass_core::error::Result;

use super::error::Fault;
use super::inner::Inner;
use super::writer::Work;

/// Records of the host in a SQLite database; clones share them.
#[derive(Debug, Clone)]
pub struct SqliteHostRecords {
    pub(super) inner: Arc<Inner>,
}

/// A record of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRecord {
    /// Names it among those of its kind.
    pub name: String,
    /// What it holds.
    pub body: Vec<u8>,
}

const READ: &str = "SELECT name, body FROM host_records WHERE kind = ?1";

fn record(row: &rusqlite::Row<'_>) -> rusqlite::Result<HostRecord> {
    Ok(HostRecord {
        name: row.get(0)?,
        body: row.get(1)?,
    })
}

impl SqliteHostRecords {
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> std::result::Result<T, Fault> + Send + 'static,
    ) -> Result<T> {
        Ok(self.inner.readers.read(work).await?)
    }

    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Work<'_>) -> std::result::Result<T, Fault> + Send + 'static,
    ) -> Result<T> {
        Ok(self.inner.writer()?.write(work).await?)
    }

    /// Finds a record.
    pub async fn get(&self, kind: &'static str, name: &str) -> Result<Option<HostRecord>> {
        let name = name.to_owned();
        self.read(move |reader| {
            let mut statement = reader.prepare_cached(&format!("{READ} AND name = ?2"))?;
            Ok(statement.query_row((kind, name), record).optional()?)
        })
        .await
    }

    /// Lists the records of a kind by name.
    pub async fn list(&self, kind: &'static str) -> Result<Vec<HostRecord>> {
        self.read(move |reader| {
            let mut statement = reader.prepare_cached(&format!("{READ} ORDER BY name"))?;
            let records = statement.query_map([kind], record)?;
            Ok(records.collect::<std::result::Result<_, _>>()?)
        })
        .await
    }

    /// Adds a record or replaces the one of its name.
    pub async fn put(
        &self,
        kind: &'static str,
        record: HostRecord,
        at: DateTime<Utc>,
    ) -> Result<()> {
        self.insert("INSERT OR REPLACE", kind, record, at)
            .await
            .map(drop)
    }

    /// Adds records, each of its kind, or replaces those of their names; all or nothing.
    pub async fn put_all(
        &self,
        records: Vec<(&'static str, HostRecord)>,
        at: DateTime<Utc>,
    ) -> Result<()> {
        self.write(move |work| {
            let mut statement = work.connection.prepare_cached(
                "INSERT INTO host_records (kind, name, at, body) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT (kind, name) DO UPDATE SET at = excluded.at, body = excluded.body",
            )?;
            for (kind, record) in records {
                let at = at.timestamp_micros();
                statement.execute((kind, record.name, at, record.body))?;
            }
            Ok(())
        })
        .await
    }

    /// Adds a record; tells whether its name was free.
    pub async fn add(
        &self,
        kind: &'static str,
        record: HostRecord,
        at: DateTime<Utc>,
    ) -> Result<bool> {
        self.insert("INSERT OR IGNORE", kind, record, at).await
    }

    async fn insert(
        &self,
        verb: &'static str,
        kind: &'static str,
        record: HostRecord,
        at: DateTime<Utc>,
    ) -> Result<bool> {
        self.write(move |work| {
            let sql =
                format!("{verb} INTO host_records (kind, name, at, body) VALUES (?1, ?2, ?3, ?4)");
            let inserted = work.connection.prepare_cached(&sql)?.execute((
                kind,
                record.name,
                at.timestamp_micros(),
                record.body,
            ))?;
            Ok(inserted > 0)
        })
        .await
    }

    /// Removes a record; tells whether it was there.
    pub async fn remove(&self, kind: &'static str, name: &str) -> Result<bool> {
        let name = name.to_owned();
        self.write(move |work| {
            let deleted = work
                .connection
                .prepare_cached("DELETE FROM host_records WHERE kind = ?1 AND name = ?2")?
                .execute((kind, name))?;
            Ok(deleted > 0)
        })
        .await
    }

    /// Removes the records of a kind that are older than a time, and of the rest all but the newest.
    pub async fn trim(
        &self,
        kind: &'static str,
        before: DateTime<Utc>,
        newest: usize,
    ) -> Result<usize> {
        let newest = i64::try_from(newest).unwrap_or(i64::MAX);
        self.write(move |work| {
            let old = work
                .connection
                .prepare_cached("DELETE FROM host_records WHERE kind = ?1 AND at < ?2")?
                .execute((kind, before.timestamp_micros()))?;
            let many = work
                .connection
                .prepare_cached(
                    "DELETE FROM host_records WHERE rowid IN (SELECT rowid FROM host_records \
                     WHERE kind = ?1 ORDER BY at DESC, rowid DESC LIMIT -1 OFFSET ?2)",
                )?
                .execute((kind, newest))?;
            Ok(old + many)
        })
        .await
    }
}
