//! Records of the host in a database.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension};
use windlass_core::error::Result;

use crate::host_records::{HostRecord, HostRecords, RowWrite};
use crate::sqlite::error::Fault;
use crate::sqlite::inner::Inner;
use crate::sqlite::write::writer::Work;

/// Records of the host in a SQLite database; clones share them.
#[derive(Debug, Clone)]
pub struct SqliteHostRecords {
    pub(crate) inner: Arc<Inner>,
}

const READ: &str = "SELECT name, body FROM host_records WHERE kind = ?1";

fn record(row: &rusqlite::Row<'_>) -> rusqlite::Result<HostRecord> {
    Ok(HostRecord {
        name: row.get(0)?,
        body: row.get::<_, Vec<u8>>(1)?.into(),
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
}

#[async_trait]
impl HostRecords for SqliteHostRecords {
    async fn get(&self, kind: &'static str, name: &str) -> Result<Option<HostRecord>> {
        let name = name.to_owned();
        self.read(move |reader| {
            let mut statement = reader.prepare_cached(&format!("{READ} AND name = ?2"))?;
            Ok(statement.query_row((kind, name), record).optional()?)
        })
        .await
    }

    async fn list(&self, kind: &'static str) -> Result<Vec<HostRecord>> {
        self.read(move |reader| {
            let mut statement = reader.prepare_cached(&format!("{READ} ORDER BY name"))?;
            let records = statement.query_map([kind], record)?;
            Ok(records.collect::<std::result::Result<_, _>>()?)
        })
        .await
    }

    async fn page(
        &self,
        kind: &'static str,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<HostRecord>> {
        let before = before.map(str::to_owned);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.read(move |reader| {
            let place = match before {
                Some(_) => "AND name < ?2",
                None => "AND ?2 IS NULL",
            };
            let mut statement =
                reader.prepare_cached(&format!("{READ} {place} ORDER BY name DESC LIMIT ?3"))?;
            let records = statement.query_map((kind, before, limit), record)?;
            Ok(records.collect::<std::result::Result<_, _>>()?)
        })
        .await
    }

    async fn put_all(
        &self,
        records: Vec<(&'static str, HostRecord)>,
        at: DateTime<Utc>,
    ) -> Result<()> {
        self.write(move |work| {
            let puts = records.iter();
            puts.map(|(kind, record)| (*kind, record.name.as_str(), Some(&*record.body)))
                .try_for_each(|put| write(work.connection, put, at))
        })
        .await
    }

    async fn add(&self, kind: &'static str, record: HostRecord, at: DateTime<Utc>) -> Result<bool> {
        self.write(move |work| {
            let inserted = work
                .connection
                .prepare_cached(
                    "INSERT OR IGNORE INTO host_records (kind, name, at, body) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute((kind, record.name, at.timestamp_micros(), &*record.body))?;
            Ok(inserted > 0)
        })
        .await
    }

    async fn remove(&self, kind: &'static str, name: &str) -> Result<bool> {
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

    async fn trim(
        &self,
        kind: &'static str,
        before: DateTime<Utc>,
        newest: usize,
    ) -> Result<usize> {
        let newest = i64::try_from(newest).ok();
        self.write(move |work| {
            let old = work
                .connection
                .prepare_cached("DELETE FROM host_records WHERE kind = ?1 AND at < ?2")?
                .execute((kind, before.timestamp_micros()))?;
            // The offset exceeds the number of rows, so nothing is left to remove.
            let Some(newest) = newest else {
                return Ok(old);
            };
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

/// Writes the rows of an append.
pub(crate) fn apply(
    connection: &Connection,
    puts: &[RowWrite],
    at: DateTime<Utc>,
) -> std::result::Result<(), Fault> {
    let mut puts = puts.iter();
    puts.try_for_each(|put| write(connection, (put.kind, &put.key, put.value.as_deref()), at))
}

/// Writes a record or replaces the one of its name; removes it where there is none.
fn write(
    connection: &Connection,
    (kind, name, body): (&str, &str, Option<&[u8]>),
    at: DateTime<Utc>,
) -> std::result::Result<(), Fault> {
    match body {
        Some(body) => connection
            .prepare_cached(
                "INSERT INTO host_records (kind, name, at, body) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT (kind, name) DO UPDATE SET at = excluded.at, body = excluded.body",
            )?
            .execute((kind, name, at.timestamp_micros(), body))?,
        None => connection
            .prepare_cached("DELETE FROM host_records WHERE kind = ?1 AND name = ?2")?
            .execute((kind, name))?,
    };
    Ok(())
}
