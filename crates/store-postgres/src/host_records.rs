//! StreamRecords of the host in a database.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
use windlass_core::error::Result;
use windlass_store::{HostRecord, HostRecords, RowWrite};

use crate::error::{DbResult, PostgresError};
use crate::numbers::int;
use crate::store::Database;

/// StreamRecords of the host in a PostgreSQL database; clones share them. A name has at most about 2,000 bytes.
#[derive(Debug, Clone)]
pub struct PostgresHostRecords {
    pub(crate) database: Database,
}

fn record(row: &Row) -> DbResult<HostRecord> {
    let name = String::from_utf8(row.try_get(0)?);
    let invalid = |_| PostgresError::Database("a host record has no valid name".to_owned());
    Ok(HostRecord {
        name: name.map_err(invalid)?,
        body: row.try_get::<_, Vec<u8>>(1)?.into(),
    })
}

impl PostgresHostRecords {
    async fn select(
        &self,
        kind: &str,
        before: Option<&str>,
        limit: usize,
        sql: &str,
    ) -> DbResult<Vec<HostRecord>> {
        let client = self.database.client().await?;
        let statement = client.prepare_cached(sql).await?;
        let before = before.map(str::as_bytes);
        let rows = client
            .query(&statement, &[&kind, &before, &int(limit as u64)])
            .await?;
        rows.iter().map(record).collect()
    }
}

#[async_trait]
impl HostRecords for PostgresHostRecords {
    async fn get(&self, kind: &'static str, name: &str) -> Result<Option<HostRecord>> {
        let sql =
            "SELECT name, body FROM host_records WHERE kind = $1 AND name = $2::bytea LIMIT $3";
        let records = self.select(kind, Some(name), 1, sql).await?;
        Ok(records.into_iter().next())
    }

    async fn list(&self, kind: &'static str) -> Result<Vec<HostRecord>> {
        let sql = "SELECT name, body FROM host_records WHERE kind = $1 AND $2::bytea IS NULL ORDER BY name LIMIT $3";
        Ok(self.select(kind, None, usize::MAX, sql).await?)
    }

    async fn page(
        &self,
        kind: &'static str,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<HostRecord>> {
        let sql = match before {
            Some(_) => {
                "SELECT name, body FROM host_records WHERE kind = $1 AND name < $2::bytea ORDER BY name DESC LIMIT $3"
            }
            None => {
                "SELECT name, body FROM host_records WHERE kind = $1 AND $2::bytea IS NULL ORDER BY name DESC LIMIT $3"
            }
        };
        Ok(self.select(kind, before, limit, sql).await?)
    }

    async fn put_all(
        &self,
        records: Vec<(&'static str, HostRecord)>,
        at: DateTime<Utc>,
    ) -> Result<()> {
        let puts = records.into_iter().map(|(kind, record)| RowWrite {
            kind,
            key: record.name,
            value: Some(record.body),
        });
        let puts: Vec<_> = puts.collect();
        let put_all = async {
            let mut client = self.database.client().await?;
            let transaction = client.transaction().await?;
            apply(&transaction, &puts, at).await?;
            DbResult::Ok(transaction.commit().await?)
        };
        Ok(put_all.await?)
    }

    async fn add(&self, kind: &'static str, record: HostRecord, at: DateTime<Utc>) -> Result<bool> {
        let sql = "INSERT INTO host_records (kind, name, at, body) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
        let (name, at) = (record.name.as_bytes(), at.timestamp_micros());
        let add = async {
            let client = self.database.client().await?;
            let row = client
                .execute(sql, &[&kind, &name, &at, &&*record.body])
                .await?;
            DbResult::Ok(row > 0)
        };
        Ok(add.await?)
    }

    async fn remove(&self, kind: &'static str, name: &str) -> Result<bool> {
        let remove = async {
            let client = self.database.client().await?;
            remove(&client, kind, name).await
        };
        Ok(remove.await? > 0)
    }

    async fn trim(
        &self,
        kind: &'static str,
        before: DateTime<Utc>,
        newest: usize,
    ) -> Result<usize> {
        let sql = "DELETE FROM host_records WHERE kind = $1 AND (at < $2 OR place IN \
            (SELECT place FROM host_records WHERE kind = $1 ORDER BY at DESC, place DESC OFFSET $3))";
        let trim = async {
            let client = self.database.client().await?;
            let (before, newest) = (before.timestamp_micros(), int(newest as u64));
            let removed = client.execute(sql, &[&kind, &before, &newest]).await?;
            DbResult::Ok(usize::try_from(removed).unwrap_or(usize::MAX))
        };
        Ok(trim.await?)
    }
}

/// Writes the rows of an append.
pub(crate) async fn apply(
    client: &impl GenericClient,
    puts: &[RowWrite],
    at: DateTime<Utc>,
) -> DbResult<()> {
    let sql = "INSERT INTO host_records (kind, name, at, body) VALUES ($1, $2, $3, $4) \
        ON CONFLICT (kind, name) DO UPDATE SET at = excluded.at, body = excluded.body";
    for put in puts {
        match &put.value {
            Some(body) => {
                let statement = client.prepare_cached(sql).await?;
                let (name, at) = (put.key.as_bytes(), at.timestamp_micros());
                client
                    .execute(&statement, &[&put.kind, &name, &at, &&**body])
                    .await?;
            }
            None => {
                remove(client, put.kind, &put.key).await?;
            }
        }
    }
    Ok(())
}

async fn remove(client: &impl GenericClient, kind: &str, name: &str) -> DbResult<u64> {
    let sql = "DELETE FROM host_records WHERE kind = $1 AND name = $2";
    let statement = client.prepare_cached(sql).await?;
    Ok(client
        .execute(&statement, &[&kind, &name.as_bytes()])
        .await?)
}
