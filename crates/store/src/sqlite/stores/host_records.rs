//! Records of the host in a database.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use rusqlite::Connection;
use windlass_core::error::Result;

use crate::host_records::{HostRecord, HostRecords, RowWrite};
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::DbResult;
use crate::sqlite::inner::Inner;

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

#[async_trait]
impl HostRecords for SqliteHostRecords {
    async fn get(&self, kind: &'static str, name: &str) -> Result<Option<HostRecord>> {
        let name = name.to_owned();
        self.inner
            .read(move |reader| {
                Ok(reader.find_row(&format!("{READ} AND name = ?2"), (kind, name), record)?)
            })
            .await
    }

    async fn list(&self, kind: &'static str) -> Result<Vec<HostRecord>> {
        self.inner
            .read(move |reader| {
                Ok(reader.list_rows(&format!("{READ} ORDER BY name"), [kind], record)?)
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
        self.inner
            .read(move |reader| {
                let place = match before {
                    Some(_) => "AND name < ?2",
                    None => "AND ?2 IS NULL",
                };
                Ok(reader.list_rows(
                    &format!("{READ} {place} ORDER BY name DESC LIMIT ?3"),
                    (kind, before, limit),
                    record,
                )?)
            })
            .await
    }

    async fn put_all(
        &self,
        records: Vec<(&'static str, HostRecord)>,
        at: DateTime<Utc>,
    ) -> Result<()> {
        self.inner
            .write(move |work| {
                let puts = records.iter();
                puts.map(|(kind, record)| (*kind, record.name.as_str(), Some(&*record.body)))
                    .try_for_each(|put| write(work.db, put, at))
            })
            .await
    }

    async fn add(&self, kind: &'static str, record: HostRecord, at: DateTime<Utc>) -> Result<bool> {
        self.inner
            .write(move |work| {
                let sql = "INSERT OR IGNORE INTO host_records (kind, name, at, body) \
                VALUES (?1, ?2, ?3, ?4)";
                let row = (kind, record.name, at.timestamp_micros(), &*record.body);
                Ok(work.db.execute_cached(sql, row)? > 0)
            })
            .await
    }

    async fn remove(&self, kind: &'static str, name: &str) -> Result<bool> {
        let name = name.to_owned();
        self.inner
            .write(move |work| {
                let deleted = work.db.execute_cached(
                    "DELETE FROM host_records WHERE kind = ?1 AND name = ?2",
                    (kind, name),
                )?;
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
        self.inner
            .write(move |work| {
                let old = work.db.execute_cached(
                    "DELETE FROM host_records WHERE kind = ?1 AND at < ?2",
                    (kind, before.timestamp_micros()),
                )?;
                // The offset exceeds the number of rows, so nothing is left to remove.
                let Some(newest) = newest else {
                    return Ok(old);
                };
                let sql = "DELETE FROM host_records WHERE rowid IN (SELECT rowid FROM host_records \
                     WHERE kind = ?1 ORDER BY at DESC, rowid DESC LIMIT -1 OFFSET ?2)";
                let many = work.db.execute_cached(sql, (kind, newest))?;
                Ok(old + many)
            })
            .await
    }
}

/// Writes the rows of an append.
pub(crate) fn apply(db: &Connection, puts: &[RowWrite], at: DateTime<Utc>) -> DbResult<()> {
    let mut puts = puts.iter();
    puts.try_for_each(|put| write(db, (put.kind, &put.key, put.value.as_deref()), at))
}

/// Writes a record or replaces the one of its name; removes it where there is none.
fn write(
    db: &Connection,
    (kind, name, body): (&str, &str, Option<&[u8]>),
    at: DateTime<Utc>,
) -> DbResult<()> {
    match body {
        Some(body) => db.execute_cached(
            "INSERT INTO host_records (kind, name, at, body) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT (kind, name) DO UPDATE SET at = excluded.at, body = excluded.body",
            (kind, name, at.timestamp_micros(), body),
        )?,
        None => db.execute_cached(
            "DELETE FROM host_records WHERE kind = ?1 AND name = ?2",
            (kind, name),
        )?,
    };
    Ok(())
}
