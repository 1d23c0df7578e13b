//! Removal of a stream and of all records that no other stream shares.
//!
//! Rows of streams are locked from a fork to its ancestors, as a fork locks them when it is created.

use deadpool_postgres::GenericClient;
use windlass_store::StreamKey;

use crate::error::DbResult;
use crate::notify::key_hash;
use crate::numbers::uint;
use crate::store::SharedState;

/// Removes a stream in one transaction; returns whether it existed.
pub(super) async fn remove(inner: &SharedState, key: &StreamKey) -> DbResult<bool> {
    let mut client = inner.database.client().await?;
    let transaction = client.transaction().await?;
    let sql = "SELECT id FROM streams WHERE key_hash = $1 FOR UPDATE";
    let hash = key_hash(key);
    let row = transaction.query_opt(sql, &[&hash.as_slice()]).await?;
    let Some(row) = row else {
        return Ok(false);
    };
    let stream: i64 = row.try_get(0)?;
    let shared = shared_upto(&transaction, stream).await?;
    let sql = "UPDATE streams SET removed = true, key_hash = NULL, head = $2, open_from = NULL WHERE id = $1";
    transaction.execute(sql, &[&stream, &shared]).await?;
    trim(&transaction, stream, shared).await?;
    if shared == 0 {
        delete(&transaction, stream).await?;
    }
    transaction.commit().await?;
    inner.heads.replace(uint(stream), None);
    inner.notifier.committed(key, None);
    Ok(true)
}

/// Deletes a removed stream without shared records, and then its removed ancestors that no other fork needs.
async fn delete(client: &impl GenericClient, stream: i64) -> DbResult<()> {
    let mut next = Some(stream);
    while let Some(stream) = next.take() {
        let sql = "DELETE FROM streams WHERE id = $1 RETURNING parent";
        let row = client.query_one(sql, &[&stream]).await?;
        let Some(parent) = row.try_get::<_, Option<i64>>(0)? else {
            break;
        };
        // Without a condition, so that this waits for a removal of the parent that is not committed yet.
        let sql = "SELECT removed FROM streams WHERE id = $1 FOR UPDATE";
        let row = client.query_opt(sql, &[&parent]).await?;
        if !row.is_some_and(|row| row.get(0)) {
            break;
        }
        let shared = shared_upto(client, parent).await?;
        trim(client, parent, shared).await?;
        if shared == 0 {
            next = Some(parent);
        }
    }
    Ok(())
}

/// Returns the last record of a stream that forks share; 0 if none is shared.
async fn shared_upto(client: &impl GenericClient, stream: i64) -> DbResult<i64> {
    let sql = "SELECT coalesce(max(parent_seq), 0) FROM streams WHERE parent = $1";
    Ok(client.query_one(sql, &[&stream]).await?.try_get(0)?)
}

async fn trim(client: &impl GenericClient, stream: i64, shared: i64) -> DbResult<()> {
    let sql = "DELETE FROM records WHERE stream = $1 AND seq > $2";
    client.execute(sql, &[&stream, &shared]).await?;
    Ok(())
}
