//! Forks: a stream that begins with records of another one.
//!
//! A fork writes a few rows, regardless of the length of the conversation: its origin, the totals at that record, and its first own records. All of
//! them are one job of the writer, so a fork is complete or absent.

use std::sync::Arc;

use rusqlite::Connection;
use windlass_core::events::Event;
use windlass_core::typed_id::SessionId;

use super::ancestry::Lineage;
use super::spans::{IN_ORDER, PLACED_COLUMNS, at, between};
use crate::durable::chain::{Chain, Digest};
use crate::durable::record::{RecordBuffer, StoredRecord, encode};
use crate::durable::window::Window;
use crate::journal::fork::{
    BUSY, HAS_RECORDS, OpenInputs, PRUNED, TOO_SHORT, own_records, refused,
};
use crate::journal::open_turns::{OpenTurns, TurnChange};
use crate::journal::{StreamKey, StreamStatus};
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::DbResult;
use crate::sqlite::journal::{Append, claim, find};
use crate::sqlite::numbers::{int, uint};
use crate::sqlite::write::writer::WriteContext;

/// A requested fork.
pub(crate) struct Fork {
    pub(crate) parent: StreamKey,
    pub(crate) at_seq: u64,
    pub(crate) child: StreamKey,
    pub(crate) forked: Event,
}

impl Fork {
    /// Creates the fork; returns the number of its newest record.
    pub(crate) fn run(self, work: &mut WriteContext<'_>) -> DbResult<u64> {
        let Self {
            parent,
            at_seq,
            child,
            forked,
        } = self;
        // Check before claiming: a claim would fence off the writer of a stream that is in use.
        if find(work.db, &child)?.is_some_and(|child| child.head > 0) {
            return Err(refused(&child, 0, HAS_RECORDS).into());
        }
        let mut waiting = OpenInputs::default();
        let claim = match at_seq {
            0 => claim(work, &child)?,
            _ => {
                let lineage = forkable(work.db, &parent, at_seq)?;
                waiting = waiting_at(work.db, &lineage, at_seq)?;
                if waiting.is_busy() {
                    return Err(refused(&parent, at_seq, BUSY).into());
                }
                let claim = claim(work, &child)?;
                share(work, claim.stream, &lineage, at_seq, forked.session_id)?;
                claim
            }
        };
        let records = own_records(&forked, at_seq, waiting);
        let head = at_seq + records.len() as u64;
        let encoded = encode(&records, &mut Window::default())?;
        Append::new((claim.stream, claim.epoch), at_seq + 1, encoded).run(work)?;
        Ok(head)
    }
}

/// Checks that a stream can be forked after a record.
fn forkable(db: &Connection, parent: &StreamKey, at_seq: u64) -> DbResult<Lineage> {
    let found = find(db, parent)?.filter(|found| found.head >= at_seq);
    let found = found.ok_or_else(|| refused(parent, at_seq, TOO_SHORT))?;
    let lineage = Lineage::load(db, parent, found.stream)?;
    let is_retained = match record(db, &lineage, at_seq)? {
        None => false,
        Some((_, 0)) => true,
        // A process that died while it pruned leaves the end of a turn without its beginning.
        Some((_, open_from)) => link_at(db, &lineage, open_from)?.is_some(),
    };
    if is_retained {
        Ok(lineage)
    } else {
        Err(refused(parent, at_seq, PRUNED).into())
    }
}

/// Makes an empty stream share the records of another one up to a number.
pub(crate) fn share(
    work: &mut WriteContext<'_>,
    child: u64,
    parent: &Lineage,
    at_seq: u64,
    session: SessionId,
) -> DbResult<()> {
    let db = work.db;
    let holder = parent.part_of(at_seq);
    db.execute_cached(
        "INSERT INTO forks (stream, parent, parent_seq, session) VALUES (?1, ?2, ?3, ?4)",
        (
            int(child),
            int(holder.stream),
            int(at_seq),
            session.uuid().as_bytes(),
        ),
    )?;
    // Shared text chunks cannot be pruned, so a sweep begins after them.
    db.execute_cached(
        "UPDATE streams SET swept = max(swept, ?2) WHERE id = ?1",
        [int(holder.stream), int(at_seq)],
    )?;
    // The cached head begins at the first record, which is now shared.
    work.state.heads.forget(child);
    Ok(())
}

/// Returns the start of a fork without own records: the number, the chain and the open turns.
pub(crate) fn start(
    db: &Connection,
    chain: &Chain,
    fork: &Lineage,
) -> DbResult<(u64, Digest, OpenTurns)> {
    let at_seq = fork.own().after;
    let link = link_at(db, fork, at_seq)?;
    let link = link.ok_or_else(|| refused(&fork.own().key, at_seq, PRUNED))?;
    let open = open_at(db, fork, at_seq)?;
    Ok((at_seq, chain.fork(&link, &fork.own().key), open))
}

/// Returns the turns that are open at a record that was not pruned.
pub(crate) fn open_at(db: &Connection, lineage: &Lineage, at_seq: u64) -> DbResult<OpenTurns> {
    let mut open = OpenTurns::default();
    replay_open(db, lineage, at_seq, |event| {
        open.apply(event.seq(), TurnChange::of(event));
    })?;
    Ok(open)
}

fn waiting_at(db: &Connection, lineage: &Lineage, at_seq: u64) -> DbResult<OpenInputs> {
    let mut waiting = OpenInputs::default();
    replay_open(db, lineage, at_seq, |event| {
        waiting.apply(&event.data);
    })?;
    Ok(waiting)
}

/// Returns the number of a stream's newest record, and its open turns.
pub(crate) fn status(reader: &Connection, key: &StreamKey) -> DbResult<StreamStatus> {
    let transaction = reader.unchecked_transaction()?;
    let Some(stream) = find(&transaction, key)? else {
        return Ok(StreamStatus::default());
    };
    let open = match stream.open_from {
        None => Vec::new(),
        Some(_) => {
            let lineage = Lineage::load(&transaction, key, stream.stream)?;
            waiting_at(&transaction, &lineage, stream.head)?.turns()
        }
    };
    Ok(StreamStatus {
        head: stream.head,
        open,
    })
}

/// Returns the link of a record; `None` if it was pruned.
pub(crate) fn link_at(db: &Connection, lineage: &Lineage, seq: u64) -> DbResult<Option<Digest>> {
    Ok(record(db, lineage, seq)?.map(|(link, _)| link))
}

/// Looks up a record's link and the first record of the oldest open turn there.
fn record(db: &Connection, lineage: &Lineage, seq: u64) -> DbResult<Option<(Digest, u64)>> {
    let at = [int(lineage.part_of(seq).stream), int(seq)];
    Ok(db.find_row(
        concat!(
            "SELECT chain, open_from FROM placed WHERE stream = ?1 AND ",
            at!("?2")
        ),
        at,
        |row| Ok((row.get(0)?, uint(row, 1)?)),
    )?)
}

/// Replays the events that may have opened or ended a turn that is open at a record.
fn replay_open(
    db: &Connection,
    lineage: &Lineage,
    at_seq: u64,
    each: impl FnMut(&Arc<Event>),
) -> DbResult<()> {
    match record(db, lineage, at_seq)? {
        Some((_, from)) if from > 0 => replay(db, lineage, from - 1, at_seq, each),
        _ => Ok(()),
    }
}

/// Replays events of a stream, without text chunks.
pub(crate) fn replay(
    db: &Connection,
    lineage: &Lineage,
    after: u64,
    upto: u64,
    mut each: impl FnMut(&Arc<Event>),
) -> DbResult<()> {
    let mut statement = db.prepare_cached(&format!(
        "SELECT {PLACED_COLUMNS} FROM placed WHERE stream = ?1 AND {} AND chunk = 0 {IN_ORDER}",
        between!("?2 + 1", "?3")
    ))?;
    let parts = &lineage.parts[lineage.index_of(after + 1)..=lineage.index_of(upto)];
    for part in parts {
        let range = [part.stream, after.max(part.after), upto.min(part.last)].map(int);
        let mut rows = statement.query(range)?;
        let mut buffer = RecordBuffer::default();
        while let Some(row) = rows.next()? {
            let stored = StoredRecord::from_row(db, row, &mut buffer)?;
            each(&lineage.show(stored.decode(&lineage.own().key)?));
        }
    }
    Ok(())
}
