//! Rows of streams, with their ancestors.

use deadpool_postgres::GenericClient;
use uuid::Uuid;
use windlass_core::typed_id::SessionId;
use windlass_store::StreamKey;
use windlass_store::durable::lineage::Lineage;

use crate::error::{DbResult, PostgresError};
use crate::notify::key_hash;
use crate::numbers::{int, uint};
use crate::store::Database;

/// A stream of the journal.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) head: u64,
    /// The chain at the head.
    pub(super) chain: Vec<u8>,
    /// The first record of the oldest open turn.
    pub(super) open_from: Option<u64>,
    pub(super) lineage: Lineage,
}

/// A query for the streams of a condition, each followed by its ancestors.
macro_rules! find {
    ($condition:literal) => {
        concat!(
            "WITH RECURSIVE line AS (SELECT 0 AS depth, id, key, parent, parent_seq, session, head, chain, open_from \
             FROM streams WHERE ",
            $condition,
            " UNION ALL SELECT depth + 1, up.id, up.key, up.parent, up.parent_seq, up.session, up.head, up.chain, up.open_from \
             FROM line JOIN streams up ON up.id = line.parent AND depth < 10000) SELECT * FROM line ORDER BY depth"
        )
    };
}

/// Looks up a stream by its name.
pub(super) async fn find(client: &impl GenericClient, key: &StreamKey) -> DbResult<Option<Stream>> {
    let sql = find!("key_hash = $1");
    let statement = client.prepare_cached(sql).await?;
    let hash = key_hash(key);
    stream(client.query(&statement, &[&hash.as_slice()]).await?)
}

/// Looks up a stream by its number.
pub(super) async fn find_by_id(client: &impl GenericClient, id: u64) -> DbResult<Option<Stream>> {
    let statement = client
        .prepare_cached(find!("id = $1 AND NOT removed"))
        .await?;
    stream(client.query(&statement, &[&int(id)]).await?)
}

fn name(bytes: &[u8]) -> DbResult<StreamKey> {
    let name = std::str::from_utf8(bytes);
    let name =
        name.map_err(|_| PostgresError::Database("a stream has no valid name".to_owned()))?;
    Ok(StreamKey::new(name))
}

/// Reads a stream, followed by its ancestors.
fn stream(rows: Vec<tokio_postgres::Row>) -> DbResult<Option<Stream>> {
    let mut rows = rows.iter();
    let Some(row) = rows.next() else {
        return Ok(None);
    };
    let lineage = Lineage::alone(&name(row.try_get("key")?)?, uint(row.try_get("id")?));
    let mut stream = Stream {
        head: uint(row.try_get("head")?),
        chain: row.try_get("chain")?,
        open_from: row.try_get::<_, Option<i64>>("open_from")?.map(uint),
        lineage,
    };
    let mut child = row;
    while let Some(parent) = child.try_get::<_, Option<i64>>("parent")? {
        let row = rows.next();
        let key = row.map(|row| name(row.try_get("key")?)).transpose()?;
        let session: Option<Uuid> = child.try_get("session")?;
        let session = SessionId::from_uuid(session.unwrap_or_default());
        let last: Option<i64> = child.try_get("parent_seq")?;
        let last = uint(last.unwrap_or_default());
        stream
            .lineage
            .add_parent((uint(parent), key), last, session)?;
        match row {
            Some(row) => child = row,
            None => break,
        }
    }
    Ok(Some(stream))
}

/// Returns the number of the newest record of a stream; 0 if it does not exist.
pub(super) async fn head(database: &Database, key: &StreamKey) -> DbResult<u64> {
    let client = database.client().await?;
    let sql = "SELECT head FROM streams WHERE key_hash = $1";
    let statement = client.prepare_cached(sql).await?;
    let row = client
        .query_opt(&statement, &[&key_hash(key).as_slice()])
        .await?;
    match row {
        Some(row) => Ok(uint(row.try_get(0)?)),
        None => Ok(0),
    }
}

/// Returns the streams with an open turn by name, after a given one.
pub(super) async fn open(
    database: &Database,
    after: Option<&StreamKey>,
    limit: usize,
) -> DbResult<Vec<StreamKey>> {
    let client = database.client().await?;
    let sql = "SELECT key FROM streams WHERE open_from IS NOT NULL AND NOT removed \
        AND ($1::bytea IS NULL OR key > $1) ORDER BY key LIMIT $2";
    let statement = client.prepare_cached(sql).await?;
    let after = after.map(|key| key.as_str().as_bytes());
    let rows = client
        .query(&statement, &[&after, &int(limit as u64)])
        .await?;
    rows.iter().map(|row| name(row.try_get(0)?)).collect()
}
