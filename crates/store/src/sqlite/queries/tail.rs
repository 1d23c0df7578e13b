//! The rows that are newer than the tables, folded from the records after the position up to which the tables are exact.
//!
//! An open store has one tail. A reader first advances it to the newest record in the reader's transaction, and then overlays its rows on those of
//! the tables. Recently used folds are cached. Any of them can be evicted, because folding continues from the rows.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, Transaction};
use windlass_core::typed_id::ExecId;

use super::load::{Folded, PositionedRecord};
use super::tables::is_damaged;
use crate::RecentlyUsed;
use crate::cursor::Cursors;
use crate::durable::record::RecordBuffer;
use crate::queries::{ThreadRow, TurnRow, WaitRow};
use crate::runs::StoredRun;
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::{DbResult, SqliteError};
use crate::sqlite::journal::spans::{IN_ORDER, from};
use crate::sqlite::numbers::{first_number, int};

/// The maximum number of cached folds.
const MAX_FOLDS: usize = 1024;
/// The maximum number of rows that stay after the tables contain them.
const MAX_ROWS: usize = 16 * 1024;
/// The maximum number of bytes that one step of the thread that writes rows folds.
const STEP_BYTES: usize = 1024 * 1024;
/// The maximum number of records per step.
pub(super) const STEP_RECORDS: u64 = 2048;

/// Rows that are newer than the tables.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadModelRows {
    /// By ID of the stream.
    pub(super) threads: HashMap<u64, Arc<ThreadRow>>,
    /// By position, with the IDs of their streams.
    pub(super) turns: BTreeMap<u64, (u64, Arc<TurnRow>)>,
    /// By stream and call.
    pub(super) waits: BTreeMap<(u64, ExecId), WaitRow>,
    /// By ID of the stream.
    pub(super) runs: HashMap<u64, Arc<StoredRun>>,
    /// All streams with a newer record, and the position of its newest one.
    pub(super) touched: HashMap<u64, u64>,
}

impl ReadModelRows {
    pub(super) fn count(&self) -> usize {
        self.threads.len() + self.turns.len() + self.waits.len() + self.runs.len()
    }

    /// Splits off some rows; the rest retains the list of streams.
    pub(super) fn split(&self, count: usize) -> (Self, Self) {
        let (mut part, mut rest, mut left) = (Self::default(), Self::default(), count);
        for (stream, row) in &self.threads {
            let rows = side(&mut left, &mut part, &mut rest);
            rows.threads.insert(*stream, Arc::clone(row));
        }
        for (position, row) in &self.turns {
            let rows = side(&mut left, &mut part, &mut rest);
            rows.turns.insert(*position, row.clone());
        }
        for (key, row) in &self.waits {
            let rows = side(&mut left, &mut part, &mut rest);
            rows.waits.insert(*key, row.clone());
        }
        for (stream, row) in &self.runs {
            let rows = side(&mut left, &mut part, &mut rest);
            rows.runs.insert(*stream, Arc::clone(row));
        }
        rest.touched.clone_from(&self.touched);
        (part, rest)
    }
}

/// Returns the part while it has capacity, then the rest.
fn side<'a>(
    room: &mut usize,
    part: &'a mut ReadModelRows,
    rest: &'a mut ReadModelRows,
) -> &'a mut ReadModelRows {
    match room.checked_sub(1) {
        Some(less) => {
            *room = less;
            part
        }
        None => rest,
    }
}

/// The rows that are newer than the tables.
#[derive(Debug)]
pub(crate) struct NewerRows {
    state: Mutex<State>,
    pub(crate) cursors: Cursors,
}

#[derive(Debug, Default)]
struct State {
    /// The rows are those of records after this position. If the tables are exact only up to an earlier one, some are missing.
    base: u64,
    /// The newest record that was folded.
    upto: u64,
    rows: Arc<ReadModelRows>,
    folds: RecentlyUsed<u64, Folded>,
}

/// The extent of a fold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoldExtent {
    /// To the newest record.
    Newest,
    /// A limited number of bytes, to bound memory.
    Step,
}

impl NewerRows {
    pub(crate) fn new(database: [u8; 16]) -> Self {
        Self {
            state: Mutex::default(),
            cursors: Cursors::new(database),
        }
    }

    /// A panic may leave a fold incomplete, so all of them are rebuilt.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| {
            let mut state = PoisonError::into_inner(poisoned);
            let base = state.base;
            state.begin_at(base);
            self.state.clear_poison();
            state
        })
    }

    /// Begins a read transaction and advances the tail to its state. Also returns the newest visible record.
    pub(super) fn look<'a>(
        &self,
        reader: &'a Connection,
        reach: FoldExtent,
    ) -> DbResult<(Transaction<'a>, Arc<ReadModelRows>, u64)> {
        // Lock first, then begin the transaction: it then sees all records that the tail has folded and all rows that it has dropped.
        let mut state = self.lock();
        let transaction = reader.unchecked_transaction()?;
        let (rows, upto) = state.catch_up(&transaction, reach)?;
        Ok((transaction, rows, upto))
    }

    /// Like `look`, in the writer's transaction, which writes nothing else and may still be rolled back.
    pub(super) fn look_in(
        &self,
        transaction: &Connection,
        reach: FoldExtent,
    ) -> DbResult<(Arc<ReadModelRows>, u64)> {
        self.lock().catch_up(transaction, reach)
    }

    /// Drops rows that have been written, up to a position.
    pub(crate) fn written(&self, rows: &ReadModelRows, upto: u64) {
        let mut state = self.lock();
        state.base = state.base.max(upto);
        let newer = Arc::make_mut(&mut state.rows);
        newer
            .threads
            .retain(|stream, row| !is_same(rows.threads.get(stream), row));
        newer.turns.retain(|position, (_, row)| {
            let written = rows.turns.get(position).map(|(_, row)| row);
            !is_same(written, row)
        });
        newer
            .waits
            .retain(|key, row| rows.waits.get(key) != Some(row));
        newer
            .runs
            .retain(|stream, row| !is_same(rows.runs.get(stream), row));
        newer.touched.retain(|_, position| *position > upto);
    }

    /// Rebuilds the rows of a stream from those of the tables and the later records.
    pub(super) fn reload(&self, reader: &Connection, stream: u64) -> DbResult<()> {
        let mut state = self.lock();
        // It sees all that the tail has folded: that was durable before.
        let transaction = reader.unchecked_transaction()?;
        state.folds.remove(stream);
        let rows = Arc::make_mut(&mut state.rows);
        rows.threads.remove(&stream);
        rows.runs.remove(&stream);
        rows.turns.retain(|_, (of, _)| *of != stream);
        rows.waits.retain(|(of, _), _| *of != stream);
        state.advance_stream(&transaction, stream)
    }
}

fn is_same<T>(written: Option<&Arc<T>>, row: &Arc<T>) -> bool {
    written.is_some_and(|written| Arc::ptr_eq(written, row))
}

/// Returns the position up to which the tables are exact.
pub(crate) fn folded(db: &Connection) -> DbResult<u64> {
    Ok(db.get_row("SELECT folded FROM state", [], first_number)?)
}

/// Selects the columns that [`PositionedRecord::of`] reads; the condition and the order follow.
pub(super) const RECORDS: &str = "seq, version, form, chain, body, position, stream, chunk, at";

impl State {
    fn begin_at(&mut self, position: u64) {
        *self = Self {
            base: position,
            upto: position,
            ..Self::default()
        };
    }

    fn catch_up(
        &mut self,
        transaction: &Connection,
        reach: FoldExtent,
    ) -> DbResult<(Arc<ReadModelRows>, u64)> {
        let folded = folded(transaction)?;
        // Another process has written rows: either all that were folded here, which its retention may have changed since, or enough to drop these.
        let is_much = self.rows.count() > MAX_ROWS;
        if folded < self.base || (folded > self.base && (folded >= self.upto || is_much)) {
            self.begin_at(folded);
        }
        self.advance(transaction, reach)?;
        Ok((Arc::clone(&self.rows), self.upto))
    }

    /// Folds newer records.
    fn advance(&mut self, db: &Connection, reach: FoldExtent) -> DbResult<()> {
        let mut statement = db.prepare_cached(&format!(
            "SELECT {RECORDS} FROM records WHERE position > ?1 ORDER BY position LIMIT ?2"
        ))?;
        let limit = match reach {
            FoldExtent::Newest => u64::MAX,
            FoldExtent::Step => STEP_RECORDS,
        };
        let records = statement.query([int(self.upto), int(limit)])?;
        self.fold_whole(db, records, reach)
    }

    /// The same for one stream, from its first record that no row has.
    fn advance_stream(&mut self, db: &Connection, stream: u64) -> DbResult<()> {
        let seen = Folded::load(db, &self.rows, stream)?.seq();
        let mut statement = db.prepare_cached(&format!(
            "SELECT {RECORDS}, last FROM placed WHERE stream = ?1 AND position <= ?2 AND {} {IN_ORDER}",
            from!("?3 + 1")
        ))?;
        let records = statement.query([stream, self.upto, seen].map(int))?;
        self.fold_whole(db, records, FoldExtent::Newest)
    }

    /// Folds records. After a failure, an incomplete fold is rebuilt from the tables.
    fn fold_whole(
        &mut self,
        db: &Connection,
        records: rusqlite::Rows<'_>,
        reach: FoldExtent,
    ) -> DbResult<()> {
        let folded = self.fold(db, records, reach);
        if folded.is_err() {
            self.begin_at(self.base);
        }
        folded
    }

    fn fold(
        &mut self,
        db: &Connection,
        mut records: rusqlite::Rows<'_>,
        reach: FoldExtent,
    ) -> DbResult<()> {
        let (mut buffer, mut bytes) = (RecordBuffer::default(), 0);
        // Records that are appended together are adjacent, so the stream is mostly that of the preceding record.
        let mut current = None;
        while let Some(row) = records.next()? {
            let record = PositionedRecord::of(db, row, &mut buffer)?;
            let mut folded = match current.take() {
                Some((stream, folded)) if stream == record.stream => folded,
                other => {
                    self.put_back(other);
                    self.take_out(db, record.stream)?
                }
            };
            folded.apply(db, &record, Arc::make_mut(&mut self.rows))?;
            bytes += record.stored.size();
            self.upto = self.upto.max(record.position);
            current = Some((record.stream, folded));
            if reach == FoldExtent::Step && bytes > STEP_BYTES {
                break;
            }
        }
        self.put_back(current);
        Ok(())
    }

    fn take_out(&mut self, db: &Connection, stream: u64) -> DbResult<Folded> {
        match self.folds.remove(stream) {
            Some(folded) => Ok(folded),
            None => match Folded::load(db, &self.rows, stream) {
                Err(error) if is_damaged(&error) => {
                    let error = SqliteError::from(error);
                    tracing::warn!(%error, "a thread stays outdated until its rows are rebuilt (`windlass store rebuild`)");
                    Ok(Folded::Left)
                }
                loaded => loaded,
            },
        }
    }

    fn put_back(&mut self, current: Option<(u64, Folded)>) {
        if let Some((stream, mut folded)) = current {
            folded.show(stream, Arc::make_mut(&mut self.rows));
            self.folds.insert(stream, folded);
            if self.folds.count() > MAX_FOLDS {
                self.folds.remove_oldest();
            }
        }
    }
}
