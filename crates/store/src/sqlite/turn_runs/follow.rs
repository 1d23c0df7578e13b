//! What the writer remembers of turns.

use std::sync::Arc;

use rusqlite::Connection;

use super::super::error::Fault;
use super::super::recently_used::RecentlyUsed;
use super::super::record::Encoded;
use super::super::run_rows::{Rows, Unwritten};
use super::rows::{put, put_owner, remove};
use super::tail::fold_before;
use crate::journal::StreamKey;
use crate::journal::turn_runs::{RunFold, RunNews, RunRow};

/// How many folds are remembered; making one again costs its open turn.
const MAX_FOLDS: usize = 4096;

/// What the writer remembers.
#[derive(Debug)]
pub(crate) struct TurnRuns {
    /// `None` for a stream that cannot be folded, because a record is damaged or not known.
    by_stream: RecentlyUsed<Option<RunFold>>,
    /// What the running job has changed here, in case that it must be undone.
    touched: Vec<u64>,
    pub(crate) rows: Unwritten<RunRow>,
}

impl TurnRuns {
    pub(crate) fn new(rows: Rows<RunRow>) -> Self {
        Self {
            by_stream: RecentlyUsed::default(),
            touched: Vec::new(),
            rows: Unwritten::new(rows),
        }
    }

    /// Follows records that were appended one after the other; `position` is that of the last one.
    pub(crate) fn follow<'a>(
        &mut self,
        connection: &Connection,
        (stream, name): (u64, &StreamKey),
        position: u64,
        records: impl Iterator<Item = &'a Encoded> + Clone,
    ) -> Result<(), Fault> {
        let concerns = |record: &Encoded| {
            let event = record.event.as_ref();
            event.is_some_and(|event| RunFold::concerns(&event.data))
        };
        if !records.clone().any(concerns) {
            return Ok(());
        }
        let first = records.clone().find_map(|record| record.seq);
        self.remember(connection, stream, name, first.unwrap_or_default())?;
        let Some(Some(fold)) = self.by_stream.get(stream) else {
            return Ok(());
        };
        let before = position - records.clone().count() as u64;
        for (record, position) in records.zip(before + 1..) {
            let Some(event) = record.event.as_ref().filter(|_| concerns(record)) else {
                continue;
            };
            match fold.apply(event, (stream, position)) {
                Some(RunNews::Row(row)) => self.rows.note(Arc::new(row)),
                Some(RunNews::Owner) => put_owner(connection, stream, fold.agent())?,
                Some(RunNews::Forked) => {
                    put_owner(connection, stream, fold.agent())?;
                    remove(connection, stream, &(0..=event.seq()))?;
                    self.rows.give_up(stream);
                }
                None => {}
            }
        }
        Ok(())
    }

    fn remember(
        &mut self,
        connection: &Connection,
        stream: u64,
        name: &StreamKey,
        before: u64,
    ) -> Result<(), Fault> {
        self.touched.push(stream);
        if self.by_stream.get(stream).is_some() {
            return Ok(());
        }
        let fold = match fold_before(connection, name, stream, before) {
            Ok(fold) => Some(fold),
            Err(Fault::Journal(_)) => None,
            Err(fault) => return Err(fault),
        };
        self.by_stream.insert(stream, fold);
        if self.by_stream.len() > MAX_FOLDS {
            self.by_stream.remove_oldest();
        }
        Ok(())
    }

    /// Writes the rows of a stream, before records of it go.
    pub(crate) fn settle(&mut self, connection: &Connection, stream: u64) -> Result<(), Fault> {
        let rows = self.rows.rows(|row| row.stream == stream);
        put(connection, rows.into_values())?;
        self.rows.give_up(stream);
        Ok(())
    }

    /// Begins a job: what it changes here can be taken back until the next one begins.
    pub(crate) fn begin(&mut self) {
        self.touched.clear();
        self.rows.begin();
    }

    pub(crate) fn take_back(&mut self) {
        self.rows.take_back();
        for stream in std::mem::take(&mut self.touched) {
            self.by_stream.remove(stream);
        }
    }

    /// Forgets a stream whose rows are no longer, or no longer those that were shown.
    pub(crate) fn give_up(&mut self, stream: u64) {
        self.by_stream.remove(stream);
        self.rows.give_up(stream);
    }

    /// Forgets what a commit that failed has done.
    pub(crate) fn forget_all(&mut self) {
        self.by_stream.clear();
        self.rows.forget_news();
    }
}
