//! Records of the host in a database.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use rusqlite::{Connection, Params};
use windlass_core::error::Result;

use crate::host_records::{HostRecord, HostRecords, RowWrite};
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::DbResult;
use crate::sqlite::inner::Inner;
use crate::sqlite::write::writer::WriteContext;

/// Records of the host in a SQLite database; clones share them.
#[derive(Debug, Clone)]
pub struct SqliteHostRecords {
    pub(crate) inner: Arc<Inner>,
}

fn record(row: &rusqlite::Row<'_>) -> rusqlite::Result<HostRecord> {
    Ok(HostRecord {
        name: row.get(0)?,
        body: row.get::<_, Vec<u8>>(1)?.into(),
    })
}

impl SqliteHostRecords {
    async fn select(
        &self,
        condition: &str,
        parameters: impl Params + Send + 'static,
    ) -> Result<Vec<HostRecord>> {
        let sql = format!("SELECT name, body FROM host_records WHERE kind = ?1 {condition}");
        let list = move |reader: &Connection| Ok(reader.list_rows(&sql, parameters, record)?);
        self.inner.read(list).await
    }
}

#[async_trait]
impl HostRecords for SqliteHostRecords {
    async fn get(&self, kind: &'static str, name: &str) -> Result<Option<HostRecord>> {
        let records = self
            .select("AND name = ?2", (kind, name.to_owned()))
            .await?;
        Ok(records.into_iter().next())
    }

    async fn list(&self, kind: &'static str) -> Result<Vec<HostRecord>> {
        self.select("ORDER BY name", [kind]).await
    }

    async fn page(
        &self,
        kind: &'static str,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<HostRecord>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let condition = match before {
            Some(_) => "AND name < ?2 ORDER BY name DESC LIMIT ?3",
            None => "AND ?2 IS NULL ORDER BY name DESC LIMIT ?3",
        };
        let parameters = (kind, before.map(str::to_owned), limit);
        self.select(condition, parameters).await
    }

    async fn put_all(
        &self,
        records: Vec<(&'static str, HostRecord)>,
        at: DateTime<Utc>,
    ) -> Result<()> {
        let put_all = move |work: &mut WriteContext<'_>| {
            let puts = records.iter();
            puts.map(|(kind, record)| (*kind, record.name.as_str(), Some(&*record.body)))
                .try_for_each(|put| write(work.db, put, at))
        };
        self.inner.write(put_all).await
    }

    async fn add(&self, kind: &'static str, record: HostRecord, at: DateTime<Utc>) -> Result<bool> {
        let sql =
            "INSERT OR IGNORE INTO host_records (kind, name, at, body) VALUES (?1, ?2, ?3, ?4)";
        let row = (
            kind,
            record.name,
            at.timestamp_micros(),
            record.body.to_vec(),
        );
        Ok(self.inner.execute(sql, row).await? > 0)
    }

    async fn remove(&self, kind: &'static str, name: &str) -> Result<bool> {
        let sql = "DELETE FROM host_records WHERE kind = ?1 AND name = ?2";
        Ok(self.inner.execute(sql, (kind, name.to_owned())).await? > 0)
    }

    async fn trim(
        &self,
        kind: &'static str,
        before: DateTime<Utc>,
        newest: usize,
    ) -> Result<usize> {
        // An offset that no `i64` can express exceeds the number of rows.
        let newest = i64::try_from(newest).unwrap_or(i64::MAX);
        let trim = move |work: &mut WriteContext<'_>| {
            let sql = "DELETE FROM host_records WHERE kind = ?1 AND at < ?2";
            let old = (work.db).execute_cached(sql, (kind, before.timestamp_micros()))?;
            let sql = "DELETE FROM host_records WHERE rowid IN (SELECT rowid FROM host_records \
                WHERE kind = ?1 ORDER BY at DESC, rowid DESC LIMIT -1 OFFSET ?2)";
            Ok(old + work.db.execute_cached(sql, (kind, newest))?)
        };
        self.inner.write(trim).await
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
