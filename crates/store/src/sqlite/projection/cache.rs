//! What the writer does about projections.
//!
//! A fold that is not [remembered](super::folds) is made again from the stream's rows and what lies behind them, and only when
//! a row may have to be written: when a turn starts, ends or waits, or when no turn is open. So a long turn that does not
//! fit there is read again a few times, and never for each append.

use std::sync::Arc;

use rusqlite::{Connection, ErrorCode};
use windlass_core::items::{Change, change};

use super::super::ancestry::{Part, is_kept};
use super::super::error::Fault;
use super::super::heads::Head;
use super::super::record::Encoded;
use super::super::run_rows::RunRows;
use super::folds::{Folds, Loan, Remembered};
use super::load;
use super::newest::{self, MAX_RECORDS, MAX_ROWS, Newest};
use super::rows::ThreadRow;
use super::write::{put_thread, write};
use crate::journal::StreamKey;

/// What the writer remembers.
#[derive(Debug)]
pub(crate) struct Projections {
    folds: Arc<Folds>,
    /// What the running job has changed here, in case that it must be undone.
    touched: Vec<u64>,
    newest: Arc<Newest>,
    /// What this commit does to the newest rows; `None` where the table has the row, or nothing has.
    news: Vec<(u64, Option<ThreadRow>)>,
    /// How many of them there were when the running job began.
    news_before: usize,
    /// Up to which position the table is exact.
    projected: u64,
    /// What it will be once this commit is durable, where all rows go to the table.
    projecting: Option<u64>,
    /// What is wrong with the rows, where they are damaged.
    damage: Option<&'static str>,
    /// The rows of runs, which are remembered and written likewise.
    pub(crate) runs: RunRows,
}

impl Projections {
    /// Goes on from what is stored; `position` is that of the newest record. Rows that the table lacks must be folded,
    /// and nothing is written to it before.
    pub(crate) fn open(connection: &Connection, position: u64) -> Result<Self, Fault> {
        let projected = newest::projected(connection)?;
        Ok(Self {
            newest: Arc::new(match projected >= position {
                true => Newest::default(),
                false => Newest::behind(),
            }),
            projected,
            runs: RunRows::open(connection)?,
            folds: Arc::default(),
            touched: Vec::new(),
            news: Vec::new(),
            news_before: 0,
            projecting: None,
            damage: None,
        })
    }

    /// Returns the folds, to be shared with those who append.
    pub(crate) fn folds(&self) -> Arc<Folds> {
        Arc::clone(&self.folds)
    }

    /// Returns the newest rows, to be shared with those who list.
    pub(crate) fn newest(&self) -> Arc<Newest> {
        Arc::clone(&self.newest)
    }

    /// Follows records that were appended; `head` is the stream with them in it, `position` that of the last one. A fold that
    /// was lent has followed them.
    ///
    /// Rows that are damaged fail the commit that comes upon them, because SQLite then refuses every further write in the same
    /// transaction. From then on they are left alone, and nobody who writes is the worse for it.
    pub(crate) fn follow<'a>(
        &mut self,
        connection: &Connection,
        of_stream: (u64, Option<Loan>),
        head: &Head,
        position: u64,
        records: impl Iterator<Item = &'a Encoded> + Clone,
    ) -> Result<(), Fault> {
        if self.damage.is_some() {
            return Ok(());
        }
        let followed = self.follow_rows(connection, of_stream, head, position, records);
        self.noting_damage(followed)
    }

    fn follow_rows<'a>(
        &mut self,
        connection: &Connection,
        (stream, loan): (u64, Option<Loan>),
        head: &Head,
        position: u64,
        mut records: impl Iterator<Item = &'a Encoded> + Clone,
    ) -> Result<(), Fault> {
        let named = (stream, &head.key);
        let turns = &mut self.runs.turns;
        turns.follow(connection, named, position, records.clone())?;
        let mut known = match self.folds.take(stream, loan) {
            Some((known, true)) => known,
            Some((mut known, false)) => {
                known.apply(records);
                known
            }
            // The records are in the table by now.
            None if head.open.first().is_none() || records.any(may_write) => {
                load(connection, &head.key, stream)?
            }
            None => return Ok(()),
        };
        self.show(connection, stream, &mut known)?;
        self.put(stream, known);
        Ok(())
    }

    /// Remembers that rows are damaged, and leaves them alone from then on. They can be made anew.
    fn noting_damage(&mut self, done: Result<(), Fault>) -> Result<(), Fault> {
        if let Err(Fault::Sql(error)) = &done
            && error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt)
        {
            let why = "what is listed of threads and runs is damaged, and no longer kept up to date; rebuild the store";
            tracing::error!(%error, "{why}");
            self.newest.end(Some(why));
            self.damage = Some(why);
        }
        done
    }

    fn refuse_damaged(&self) -> Result<(), Fault> {
        match self.damage {
            Some(why) => Err(Fault::unavailable(why)),
            None => Ok(()),
        }
    }

    /// Tells whether rows are damaged.
    pub(crate) fn are_damaged(&self) -> bool {
        self.damage.is_some()
    }

    /// Writes all rows of turns that have ended, before their records go.
    pub(crate) fn settle(
        &mut self,
        connection: &Connection,
        stream: u64,
        name: &StreamKey,
    ) -> Result<(), Fault> {
        self.refuse_damaged()?;
        self.runs.turns.settle(connection, stream)?;
        let known = self.folds.take(stream, None);
        let known = known.filter(|(known, _)| known.fold.is_some());
        let mut known = match known {
            Some((known, _)) => known,
            None => Remembered::new(load::fold(connection, name, stream)?),
        };
        self.write(connection, stream, &mut known)?;
        self.put(stream, known);
        Ok(())
    }

    /// Writes the rows of a stream up to a place between turns, where they are not written yet. Those of a stream that is kept for
    /// its forks are.
    pub(crate) fn settle_upto(
        &mut self,
        connection: &Connection,
        part: &Part,
        seq: u64,
    ) -> Result<(), Fault> {
        let row = load::thread(connection, part.stream)?;
        if row.is_some_and(|row| row.upto.seq >= seq) || is_kept(connection, part.stream)? {
            return Ok(());
        }
        self.settle(connection, part.stream, &part.key)
    }

    fn put(&mut self, stream: u64, known: Remembered) {
        self.touched.push(stream);
        self.folds.put(stream, known);
    }

    /// Writes rows when enough have come together; until then the row of the thread stays in memory.
    fn show(
        &mut self,
        connection: &Connection,
        stream: u64,
        known: &mut Remembered,
    ) -> Result<(), Fault> {
        let Some(fold) = &mut known.fold else {
            return Ok(());
        };
        if fold.is_due() {
            return self.write(connection, stream, known);
        }
        if fold.is_news() {
            fold.note_shown();
            self.news.push((stream, Some(fold.thread())));
        }
        Ok(())
    }

    fn write(
        &mut self,
        connection: &Connection,
        stream: u64,
        known: &mut Remembered,
    ) -> Result<(), Fault> {
        if let Some(fold) = &mut known.fold {
            write(connection, stream, fold)?;
            self.news.push((stream, None));
        }
        Ok(())
    }

    /// Writes all rows that are newer than the table if they have become many; `position` is that of the newest record.
    pub(crate) fn persist_if_due(
        &mut self,
        connection: &Connection,
        position: u64,
    ) -> Result<(), Fault> {
        if self.damage.is_some() {
            return Ok(());
        }
        let mut persisted = self.runs.persist_if_due(connection, position);
        if persisted.is_ok() && self.are_threads_due(position) {
            persisted = self.persist_threads(connection, position);
        }
        self.noting_damage(persisted)
    }

    /// Tells whether rows have become many.
    pub(crate) fn is_due(&self, position: u64) -> bool {
        self.damage.is_none() && (self.runs.is_due(position) || self.are_threads_due(position))
    }

    fn are_threads_due(&self, position: u64) -> bool {
        let is_due = self.newest.len() + self.news.len() > MAX_ROWS
            || position - self.projected.min(position) >= MAX_RECORDS;
        is_due && self.projecting.is_none() && self.newest.is_whole()
    }

    /// Writes all rows that are newer than the tables.
    pub(crate) fn persist(&mut self, connection: &Connection, position: u64) -> Result<(), Fault> {
        self.refuse_damaged()?;
        self.runs.persist(connection, position)?;
        self.persist_threads(connection, position)
    }

    fn persist_threads(&mut self, connection: &Connection, position: u64) -> Result<(), Fault> {
        let (mut rows, _) = self.newest.rows()?;
        for (stream, row) in &self.news {
            match row {
                Some(row) => drop(rows.insert(*stream, *row)),
                None => drop(rows.remove(stream)),
            }
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        rows.sort_unstable_by_key(|(stream, _)| *stream);
        for (stream, row) in &rows {
            put_thread(connection, *stream, row)?;
        }
        newest::note_projected(connection, position)?;
        self.projecting = Some(position);
        Ok(())
    }

    /// Tells whether the tables lack nothing.
    pub(crate) fn is_persisted(&self, position: u64) -> bool {
        self.projected == position && self.runs.is_persisted(position)
    }

    /// Shows what the commit has made durable.
    pub(crate) fn publish(&mut self) {
        self.runs.publish();
        match self.projecting.take() {
            Some(position) => {
                self.projected = position;
                self.news.clear();
                self.newest.clear();
            }
            None => self.newest.publish(self.news.drain(..)),
        }
    }

    /// Begins a job: what it changes here can be taken back until the next one begins.
    pub(crate) fn begin(&mut self) {
        self.runs.begin();
        self.touched.clear();
        self.news_before = self.news.len();
    }

    pub(crate) fn take_back(&mut self) {
        self.runs.take_back();
        self.projecting = None;
        self.news.truncate(self.news_before);
        for stream in std::mem::take(&mut self.touched) {
            self.folds.forget(stream);
        }
    }

    /// Forgets a stream whose row is no longer, or no longer the one that was shown.
    pub(crate) fn give_up(&mut self, stream: u64) {
        self.runs.give_up(stream);
        self.folds.forget(stream);
        self.news.push((stream, None));
    }

    /// Forgets what a commit that failed has done.
    pub(crate) fn forget_all(&mut self) {
        self.runs.forget_all();
        self.folds.forget_all();
        self.news.clear();
        self.projecting = None;
    }
}

/// Makes the fold of a stream; one that cannot be read has none.
fn load(connection: &Connection, name: &StreamKey, stream: u64) -> Result<Remembered, Fault> {
    match load::fold(connection, name, stream) {
        Ok(folded) => Ok(Remembered::new(folded)),
        Err(Fault::Journal(_)) => Ok(Remembered { fold: None }),
        Err(fault) => Err(fault),
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
