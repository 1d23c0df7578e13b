//! The folds of the streams that are being written, as the writer remembers them.
//!
//! A fold that is not remembered is made again from the stream's rows and what lies behind them, and only when a row may
//! have to be written: when a turn starts, ends or waits, or when no turn is open. So a long turn that does not fit here
//! is read again a few times, and never for each append.

use std::collections::HashMap;

use rusqlite::Connection;
use windlass_core::items::{Change, change};

use super::super::error::Fault;
use super::super::heads::Head;
use super::super::record::Encoded;
use super::fold::Fold;
use super::load;
use super::write::{Flush, write};
use crate::journal::StreamKey;

/// How many folds are remembered.
const MAX_FOLDS: usize = 1024;
/// How many bytes of events they may hold together.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// What the writer remembers.
#[derive(Debug, Default)]
pub(crate) struct Projections {
    by_stream: HashMap<u64, Remembered>,
    bytes: usize,
    /// What the running job has changed here, in case that it must be undone.
    touched: Vec<u64>,
}

#[derive(Debug)]
struct Remembered {
    /// `None` for a stream that cannot be folded, because a record is damaged or not known. It has no rows, and its
    /// appends are no worse for it.
    fold: Option<Fold>,
    bytes: usize,
}

impl Projections {
    /// Follows records that were appended; `head` is the stream with them in it.
    pub(crate) fn follow<'a>(
        &mut self,
        connection: &Connection,
        stream: u64,
        head: &Head,
        mut records: impl Iterator<Item = &'a Encoded>,
    ) -> Result<(), Fault> {
        if let Some(known) = self.by_stream.get_mut(&stream) {
            let Some(fold) = &mut known.fold else {
                return Ok(());
            };
            for record in records {
                if let Some(event) = &record.event {
                    fold.apply(event);
                    known.bytes += record.bytes.len();
                    self.bytes += record.bytes.len();
                }
            }
        } else if head.open.first().is_none() || records.any(may_write) {
            // The records are in the table by now.
            self.load(connection, &head.key, stream)?;
        } else {
            return Ok(());
        }
        self.touched.push(stream);
        self.write(connection, stream, Flush::WhenDue)
    }

    /// Writes all rows of turns that have ended, before their records go.
    pub(crate) fn settle(
        &mut self,
        connection: &Connection,
        stream: u64,
        name: &StreamKey,
    ) -> Result<(), Fault> {
        let known = self.by_stream.get(&stream);
        if known.is_none_or(|known| known.fold.is_none()) {
            let (fold, bytes) = load::fold(connection, name, stream)?;
            self.put(stream, Some(fold), bytes);
        }
        self.touched.push(stream);
        self.write(connection, stream, Flush::Now)
    }

    fn load(
        &mut self,
        connection: &Connection,
        name: &StreamKey,
        stream: u64,
    ) -> Result<(), Fault> {
        match load::fold(connection, name, stream) {
            Ok((fold, bytes)) => self.put(stream, Some(fold), bytes),
            Err(Fault::Journal(_)) => self.put(stream, None, 0),
            Err(fault) => return Err(fault),
        }
        Ok(())
    }

    fn put(&mut self, stream: u64, fold: Option<Fold>, bytes: usize) {
        self.forget(stream);
        self.bytes += bytes;
        self.by_stream.insert(stream, Remembered { fold, bytes });
    }

    fn write(&mut self, connection: &Connection, stream: u64, flush: Flush) -> Result<(), Fault> {
        let Some(known) = self.by_stream.get_mut(&stream) else {
            return Ok(());
        };
        if let Some(fold) = &mut known.fold {
            let before = fold.taken().seq;
            write(connection, stream, fold, flush)?;
            if fold.taken().seq > before {
                self.bytes -= std::mem::take(&mut known.bytes);
            }
        }
        if self.by_stream.len() > MAX_FOLDS || self.bytes > MAX_BYTES {
            self.forget_all();
        }
        Ok(())
    }

    /// Begins a job: what it changes here can be taken back until the next one begins.
    pub(crate) fn begin(&mut self) {
        self.touched.clear();
    }

    pub(crate) fn take_back(&mut self) {
        for stream in std::mem::take(&mut self.touched) {
            self.forget(stream);
        }
    }

    pub(crate) fn forget(&mut self, stream: u64) {
        if let Some(known) = self.by_stream.remove(&stream) {
            self.bytes -= known.bytes;
        }
    }

    pub(crate) fn forget_all(&mut self) {
        self.by_stream.clear();
        self.bytes = 0;
    }
}

/// Tells whether a record may change the row of its thread.
fn may_write(record: &Encoded) -> bool {
    let Some(event) = &record.event else {
        return false;
    };
    let is_outside = event.context.turn_id.is_none();
    is_outside
        || event.data.ends_turn()
        || matches!(
            change(event),
            Some(Change::TurnStarted(_) | Change::Wait(_))
        )
}
