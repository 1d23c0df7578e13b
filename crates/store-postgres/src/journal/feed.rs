//! The feed over all streams.
//!
//! Transactions become visible in another order than they were numbered. A reader that follows their numbers would miss a transaction that commits
//! after one with a higher number was read. So the feed ends before the oldest transaction that is still running: no record with a lower number can
//! appear later. A long transaction of any program on the server delays the feed, but no record is lost.

use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::time::Duration;

use deadpool_postgres::GenericClient;
use tokio::time::sleep;
use tokio_postgres::Row;
use windlass_store::durable::lineage::Lineage;
use windlass_store::{CursorKind, FeedEntry, FeedPage};

use super::records::{StreamRecords, columns};
use super::streams::find_by_id;
use super::walk::{Walk, link_at};
use crate::error::DbResult;
use crate::numbers::{int, uint};
use crate::store::{SharedState, snapshot};

/// How long a page waits for running transactions, in milliseconds between its attempts.
const WAITS_MS: &[u64] = &[1, 2, 5, 10, 20, 50, 100];

/// The position of a record: the number of its commit, and its index there.
type Position = (i64, i64);

/// Reads records after a cursor, each checked against the chain of its stream.
pub(super) async fn read_feed(
    inner: &SharedState,
    cursor: Option<&str>,
    limit: usize,
) -> DbResult<FeedPage> {
    for wait in WAITS_MS {
        let page = try_read(inner, cursor, limit).await?;
        if page.is_end || !page.entries.is_empty() {
            return Ok(page);
        }
        sleep(Duration::from_millis(*wait)).await;
    }
    try_read(inner, cursor, limit).await
}

/// Reads a page. It is empty and not the last one while running transactions hide further records.
async fn try_read(inner: &SharedState, cursor: Option<&str>, limit: usize) -> DbResult<FeedPage> {
    let mut client = inner.database.client().await?;
    let transaction = snapshot(&mut client).await?;
    let sql = "SELECT $1 + pg_snapshot_xmin(pg_current_snapshot())::text::bigint, \
        $1 + pg_snapshot_xmax(pg_current_snapshot())::text::bigint";
    let statement = transaction.prepare_cached(sql).await?;
    let row = transaction
        .query_one(&statement, &[&inner.database.commit_base])
        .await?;
    let (horizon, next): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    let upto = uint(next);
    let key = cursor.map(|cursor| inner.cursors.read(CursorKind::Feed, upto, cursor));
    let (index, commit) = key.transpose()?.unwrap_or_default();
    let position = (int(commit), index);
    let sql = concat!(
        "SELECT ",
        columns!(),
        ", commit_number, commit_index FROM records \
         WHERE (commit_number, commit_index) > ($1, $2) AND commit_number < $3 \
         AND EXISTS (SELECT 1 FROM streams WHERE id = stream AND NOT removed) \
         ORDER BY commit_number, commit_index LIMIT $4"
    );
    let statement = transaction.prepare_cached(sql).await?;
    let (commit, index) = &position;
    let rows = transaction
        .query(&statement, &[commit, index, &horizon, &int(limit as u64)])
        .await?;
    let last = rows.last().map(position_of).transpose()?;
    let is_full = rows.len() >= limit;
    let sql = "SELECT EXISTS (SELECT 1 FROM records WHERE commit_number >= $1)";
    let statement = transaction.prepare_cached(sql).await?;
    let hidden = transaction.query_one(&statement, &[&horizon]).await?;
    let is_end = !is_full && !hidden.try_get::<_, bool>(0)?;
    let entries = entries(&transaction, inner, &rows).await?;
    let (commit, index) = last.unwrap_or(position);
    let key = (index, uint(commit));
    Ok(FeedPage {
        entries,
        next: inner.cursors.write(CursorKind::Feed, upto, key),
        is_end,
    })
}

fn position_of(row: &Row) -> Result<Position, tokio_postgres::Error> {
    Ok((row.try_get("commit_number")?, row.try_get("commit_index")?))
}

async fn entries(
    client: &impl GenericClient,
    inner: &SharedState,
    rows: &[Row],
) -> DbResult<Vec<FeedEntry>> {
    let mut records = StreamRecords::load(client, rows).await?;
    let mut lineages: HashMap<u64, Lineage> = HashMap::new();
    for row in &records.rows {
        if let Vacant(entry) = lineages.entry(row.stream)
            && let Some(stream) = find_by_id(client, row.stream).await?
        {
            entry.insert(stream.lineage);
        }
    }
    let mut walks: HashMap<u64, Walk<'_>> = HashMap::new();
    let mut entries = Vec::with_capacity(rows.len());
    for index in 0..records.rows.len() {
        let (stream, seq) = (records.rows[index].stream, records.rows[index].seq);
        let Some(lineage) = lineages.get(&stream) else {
            continue;
        };
        let walk = match walks.entry(stream) {
            Occupied(known) => known.into_mut(),
            Vacant(entry) => {
                let mut walk = Walk::begin(&inner.chain, lineage);
                // If the preceding record is missing, the step over this record reports that.
                if seq > 1
                    && let Some((link, _)) = link_at(client, lineage, seq - 1).await?
                {
                    walk.resume(seq - 1, link);
                }
                entry.insert(walk)
            }
        };
        let stored = records.stored(index);
        let event = match walk.step(&stored) {
            Ok(()) => walk.event(&stored),
            Err(error) => {
                walk.resume(stored.seq, stored.chain);
                Err(error)
            }
        };
        entries.push(FeedEntry {
            stream: walk.key().clone(),
            seq,
            event,
        });
    }
    Ok(entries)
}
