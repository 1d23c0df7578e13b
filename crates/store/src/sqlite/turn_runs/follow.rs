//! What the writer remembers of turns, and when their rows go to the table.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::Connection;

use super::super::error::Fault;
use super::super::record::Encoded;
use super::newest::{NewestRuns, News, Rows, apply};
use super::rows::{note_projected, projected, put, put_owner, remove};
use super::tail::{fold_before, fold_tail};
use crate::journal::StreamKey;
use crate::journal::turn_runs::{RunFold, RunNews, RunRow};

/// How many rows stay in memory.
const MAX_ROWS: usize = 1024;
/// How many records may be newer than the table is exact: what is looked through after a crash.
const MAX_RECORDS: u64 = 2048;
/// How many folds are remembered; making one again costs its open turn.
const MAX_FOLDS: usize = 4096;

/// What the writer remembers.
#[derive(Debug, Default)]
pub(crate) struct TurnRuns {
    /// `None` for a stream that cannot be folded, because a record is damaged or not known.
    by_stream: HashMap<u64, Option<RunFold>>,
    /// What the running job has changed here, in case that it must be undone.
    touched: Vec<u64>,
    newest: Arc<NewestRuns>,
    /// What this commit does to the newest rows.
    news: Vec<News>,
    /// How many of them there were when the running job began.
    news_before: usize,
    projected: u64,
    /// What it will be once this commit is durable, where all rows go to the table.
    projecting: Option<u64>,
}

impl TurnRuns {
    /// Goes on from what is stored; rows that the table lacks are folded.
    pub(crate) fn open(connection: &Connection) -> Result<Self, Fault> {
        // One look at the database for all queries: each for itself would lock it.
        let transaction = connection.unchecked_transaction()?;
        Ok(Self {
            newest: Arc::new(NewestRuns::new(fold_tail(&transaction)?)),
            projected: projected(&transaction)?,
            ..Self::default()
        })
    }

    /// Returns the newest rows, to be shared with those who list.
    pub(crate) fn newest(&self) -> Arc<NewestRuns> {
        Arc::clone(&self.newest)
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
        let Some(Some(fold)) = self.by_stream.get_mut(&stream) else {
            return Ok(());
        };
        let before = position - records.clone().count() as u64;
        let from = self.news.len();
        for (record, position) in records.zip(before + 1..) {
            let Some(event) = record.event.as_ref().filter(|_| concerns(record)) else {
                continue;
            };
            match fold.apply(event, (stream, position)) {
                Some(RunNews::Row(row)) => note(&mut self.news, from, row),
                Some(RunNews::Owner) => put_owner(connection, stream, fold.agent())?,
                Some(RunNews::Forked) => {
                    put_owner(connection, stream, fold.agent())?;
                    remove(connection, stream, &(0..=event.seq()))?;
                    self.news.push(News::Gone(stream));
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
        if self.by_stream.contains_key(&stream) {
            return Ok(());
        }
        if self.by_stream.len() >= MAX_FOLDS {
            self.by_stream.clear();
        }
        let fold = match fold_before(connection, name, stream, before) {
            Ok(fold) => Some(fold),
            Err(Fault::Journal(_)) => None,
            Err(fault) => return Err(fault),
        };
        self.by_stream.insert(stream, fold);
        Ok(())
    }

    /// Writes the rows of a stream, before records of it go.
    pub(crate) fn settle(&mut self, connection: &Connection, stream: u64) -> Result<(), Fault> {
        let rows = self.with_news(self.newest.of_stream(stream));
        put(connection, rows.values().filter(|row| row.stream == stream))?;
        self.news.push(News::Gone(stream));
        Ok(())
    }

    /// Returns rows as this commit will have made them.
    fn with_news(&self, mut rows: Rows) -> Rows {
        for news in &self.news {
            match news {
                News::Row(row) => apply(&mut rows, News::Row(row.clone())),
                News::Gone(stream) => apply(&mut rows, News::Gone(*stream)),
            };
        }
        rows
    }

    /// Writes all rows that are newer than the table if they have become many; `position` is that of the newest record.
    pub(crate) fn persist_if_due(
        &mut self,
        connection: &Connection,
        position: u64,
    ) -> Result<(), Fault> {
        match self.is_due(position) {
            true => self.persist(connection, position),
            false => Ok(()),
        }
    }

    /// Tells whether rows have become many.
    pub(crate) fn is_due(&self, position: u64) -> bool {
        let is_due = self.newest.len() + self.news.len() > MAX_ROWS
            || position - self.projected.min(position) >= MAX_RECORDS;
        is_due && self.projecting.is_none()
    }

    /// Writes all rows that are newer than the table.
    pub(crate) fn persist(&mut self, connection: &Connection, position: u64) -> Result<(), Fault> {
        let rows = self.with_news(self.newest.rows());
        put(connection, rows.values())?;
        note_projected(connection, position)?;
        self.news.clear();
        self.projecting = Some(position);
        Ok(())
    }

    /// Tells whether the table lacks nothing.
    pub(crate) fn is_persisted(&self, position: u64) -> bool {
        self.projected == position
    }

    /// Shows what the commit has made durable.
    pub(crate) fn publish(&mut self) {
        match self.projecting.take() {
            Some(position) => {
                self.projected = position;
                self.news.clear();
                self.newest.clear();
            }
            None if self.news.is_empty() => {}
            None => self.newest.publish(self.news.drain(..)),
        }
    }

    /// Begins a job: what it changes here can be taken back until the next one begins.
    pub(crate) fn begin(&mut self) {
        self.touched.clear();
        self.news_before = self.news.len();
    }

    pub(crate) fn take_back(&mut self) {
        self.news.truncate(self.news_before);
        for stream in std::mem::take(&mut self.touched) {
            self.by_stream.remove(&stream);
        }
    }

    /// Forgets a stream whose rows are no longer, or no longer those that were shown.
    pub(crate) fn give_up(&mut self, stream: u64) {
        self.by_stream.remove(&stream);
        self.news.push(News::Gone(stream));
    }

    /// Forgets what a commit that failed has done.
    pub(crate) fn forget_all(&mut self) {
        self.by_stream.clear();
        self.news.clear();
        self.projecting = None;
    }
}

/// Notes what a run has become; only the last state in a batch matters.
fn note(news: &mut Vec<News>, from: usize, row: RunRow) {
    let mut of_batch = news[from..].iter_mut().rev();
    let known = of_batch.find_map(|news| match news {
        News::Row(known) if known.position == row.position => Some(known),
        _ => None,
    });
    match known {
        Some(known) => *known = row,
        None => news.push(News::Row(row)),
    }
}
