//! The feed over all streams. There is one writer, so positions become visible in their order, and a cursor is one of them.

use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};

use rusqlite::Connection;

use super::ancestry::Lineage;
use super::page::Walk;
use super::record::STORED_COLUMNS;
use super::streams::named;
use crate::cursor::{Cursors, List};
use crate::durable::chain::Chain;
use crate::durable::record::{RecordBuffer, Stored};
use crate::journal::{FeedEntry, FeedPage, JournalError, StreamKey};
use crate::runs::is_run_stream;
use crate::sqlite::error::Fault;
use crate::sqlite::numbers::{int, uint};
use crate::sqlite::open::inspect::read_identity;

/// How many records of runs, and of streams that were removed, one page may step over.
const MAX_SKIPPED: usize = 4096;

/// Reads records after a position, each checked against the chain of its stream.
pub(super) fn read_feed(
    reader: &Connection,
    (chain, cursors): (&Chain, &Cursors),
    after: Option<&str>,
    limit: usize,
) -> Result<FeedPage, Fault> {
    let transaction = reader.unchecked_transaction()?;
    let upto = read_identity(&transaction)?.map_or(0, |identity| identity.position);
    let place = after.map(|cursor| cursors.read(List::Feed, upto, cursor));
    let (_, mut place) = place.transpose()?.unwrap_or_default();
    let mut statement = transaction.prepare_cached(&format!(
        "SELECT {STORED_COLUMNS}, stream, position FROM records WHERE position > ?1 ORDER BY position"
    ))?;
    let mut rows = statement.query([int(place)])?;
    let (mut walks, mut buffer) = (HashMap::new(), RecordBuffer::default());
    let (mut entries, mut skipped) = (Vec::new(), 0);
    let mut is_end = true;
    while let Some(row) = rows.next()? {
        if entries.len() == limit || skipped == MAX_SKIPPED {
            is_end = false;
            break;
        }
        let stored = Stored::from_row(&transaction, row, &mut buffer)?;
        let stream = uint(row, 5)?;
        let walk = match walks.entry(stream) {
            Occupied(known) => known.into_mut(),
            Vacant(place) => place.insert(walk_to(&transaction, chain, stream, stored.seq)?),
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
        place = uint(row, 6)?;
    }
    Ok(FeedPage {
        entries,
        next: cursors.write(List::Feed, upto, (0, place)),
        is_end,
    })
}

/// A reader of a stream, or why there is none.
type Reader<'a> = Result<Walk<'a>, (StreamKey, JournalError)>;

/// Returns a reader positioned in front of a record of a session; `None` if the stream is a run's or was removed.
fn walk_to<'a>(
    reader: &'a Connection,
    chain: &'a Chain,
    stream: u64,
    seq: u64,
) -> Result<Option<Reader<'a>>, Fault> {
    let Some(key) = named(reader, stream)?.filter(|key| !is_run_stream(key)) else {
        return Ok(None);
    };
    let lineage = match Lineage::of(reader, &key, stream) {
        Err(Fault::Journal(error)) => return Ok(Some(Err((key, error)))),
        lineage => lineage?,
    };
    match Walk::after(reader, chain, lineage.clone(), seq - 1) {
        // The preceding record is missing; the step over this record reports that.
        Err(Fault::Journal(JournalError::Damaged { .. })) => {
            Ok(Some(Ok(Walk::begin(reader, chain, lineage))))
        }
        walk => Ok(Some(Ok(walk?))),
    }
}

fn entry(walk: &mut Walk<'_>, stored: &Stored<'_>) -> Result<FeedEntry, Fault> {
    let event = match walk.step(stored) {
        Ok(()) => walk.event(stored),
        Err(Fault::Journal(error)) => {
            walk.resume(stored);
            Err(error)
        }
        Err(fault) => return Err(fault),
    };
    Ok(FeedEntry {
        stream: walk.key().clone(),
        seq: stored.seq,
        event,
    })
}
