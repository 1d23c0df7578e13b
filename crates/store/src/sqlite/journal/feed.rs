//! The feed over all streams. There is one writer, so positions become visible in their order, and a cursor is one of them.

use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};

use rusqlite::Connection;

use super::ancestry::Lineage;
use super::page::ChainWalk;
use super::record::STORED_COLUMNS;
use super::streams::named;
use crate::cursor::{CursorKind, Cursors};
use crate::durable::chain::Chain;
use crate::durable::record::{RecordBuffer, StoredRecord};
use crate::journal::{FeedEntry, FeedPage, JournalError, StreamKey};
use crate::runs::is_run_stream;
use crate::sqlite::error::{DbError, DbResult};
use crate::sqlite::numbers::{int, uint};
use crate::sqlite::open::inspect::read_identity;

/// The maximum number of records of runs and removed streams that one page skips.
const MAX_SKIPPED: usize = 4096;

/// Reads records after a position, each checked against the chain of its stream.
pub(super) fn read_feed(
    reader: &Connection,
    (chain, cursors): (&Chain, &Cursors),
    after: Option<&str>,
    limit: usize,
) -> DbResult<FeedPage> {
    let transaction = reader.unchecked_transaction()?;
    let upto = read_identity(&transaction)?.map_or(0, |identity| identity.position);
    let key = after.map(|cursor| cursors.read(CursorKind::Feed, upto, cursor));
    let (_, mut position) = key.transpose()?.unwrap_or_default();
    let mut statement = transaction.prepare_cached(&format!(
        "SELECT {STORED_COLUMNS}, stream, position FROM records WHERE position > ?1 ORDER BY position"
    ))?;
    let mut rows = statement.query([int(position)])?;
    let (mut walks, mut buffer) = (HashMap::new(), RecordBuffer::default());
    let (mut entries, mut skipped) = (Vec::new(), 0);
    let mut is_end = true;
    while let Some(row) = rows.next()? {
        if entries.len() == limit || skipped == MAX_SKIPPED {
            is_end = false;
            break;
        }
        let stored = StoredRecord::from_row(&transaction, row, &mut buffer)?;
        let stream = uint(row, 5)?;
        let walk = match walks.entry(stream) {
            Occupied(known) => known.into_mut(),
            Vacant(entry) => entry.insert(walk_to(&transaction, chain, stream, stored.seq)?),
        };
        match walk {
            Some(Ok(walk)) => entries.push(entry(walk, &stored)?),
            Some(Err((stream, error))) => entries.push(FeedEntry {
                stream: stream.clone(),
                seq: stored.seq,
                event: Err(error.clone()),
            }),
            None => skipped += 1,
        }
        position = uint(row, 6)?;
    }
    Ok(FeedPage {
        entries,
        next: cursors.write(CursorKind::Feed, upto, (0, position)),
        is_end,
    })
}

/// A reader of a stream, or why there is none.
type WalkResult<'a> = Result<ChainWalk<'a>, (StreamKey, JournalError)>;

/// Returns a reader positioned in front of a record of a session; `None` if the stream is a run's or was removed.
fn walk_to<'a>(
    reader: &'a Connection,
    chain: &'a Chain,
    stream: u64,
    seq: u64,
) -> DbResult<Option<WalkResult<'a>>> {
    let Some(key) = named(reader, stream)?.filter(|key| !is_run_stream(key)) else {
        return Ok(None);
    };
    let lineage = match Lineage::load(reader, &key, stream) {
        Err(DbError::Journal(error)) => return Ok(Some(Err((key, error)))),
        lineage => lineage?,
    };
    match ChainWalk::after(reader, chain, lineage.clone(), seq - 1) {
        // The preceding record is missing; the step over this record reports that.
        Err(DbError::Journal(JournalError::Damaged { .. })) => {
            Ok(Some(Ok(ChainWalk::begin(reader, chain, lineage))))
        }
        walk => Ok(Some(Ok(walk?))),
    }
}

fn entry(walk: &mut ChainWalk<'_>, stored: &StoredRecord<'_>) -> DbResult<FeedEntry> {
    let event = match walk.step(stored) {
        Ok(()) => walk.event(stored),
        Err(DbError::Journal(error)) => {
            walk.resume(stored);
            Err(error)
        }
        Err(error) => return Err(error),
    };
    Ok(FeedEntry {
        stream: walk.key().clone(),
        seq: stored.seq,
        event,
    })
}
