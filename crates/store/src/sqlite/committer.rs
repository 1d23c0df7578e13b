//! The one connection that writes, with what a writer knows. There is one committer, and whoever holds it writes.
//!
//! Jobs of a group run in one transaction. One that may be refused half-way runs in a savepoint of its own, and is undone
//! alone. Nobody hears of success before the commit is durable.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use rusqlite::{Connection, ErrorCode};

use super::commit_times::CommitTimes;
use super::counter::Counter;
use super::doorbells::{Doorbells, Wakeup};
use super::error::{SqliteError, explain};
use super::heads::Heads;
use super::numbers::int;
use super::owner::Owner;
use super::page_check::PageCheck;
use super::queries::row_writer::{RowWriter, step_in};
use super::queries::tail::NewerRows;
use super::removing;
use super::wal::Wal;
use super::writer::{Job, Reply};

/// What a job works with.
pub(crate) struct Work<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) state: &'a mut State,
}

/// What the writer knows without asking the database.
pub(crate) struct State {
    pub(crate) heads: Heads,
    /// The newest position that was given out.
    pub(crate) position: u64,
    /// The number of the commit that is being made.
    pub(crate) commit: u64,
    /// Who must hear of this commit, and what.
    pub(crate) rings: Vec<Wakeup>,
    /// Whether a record of this commit carries its number.
    pub(crate) is_numbered: bool,
    /// Whether records went away, so that the newest one may no longer carry the newest number.
    pub(crate) lost_records: bool,
    /// Whether there is something to be taken out of streams that were removed.
    pub(crate) is_removing: bool,
    /// How many records this commit has.
    pub(crate) new_records: u64,
}

/// Fields are dropped in this order: the lock is given up last.
pub(crate) struct Committer {
    pub(crate) wal: Wal,
    pub(crate) connection: Connection,
    pub(crate) counter: Counter,
    pub(crate) _owner: Owner,
    pub(crate) doorbells: Arc<Doorbells>,
    pub(crate) state: State,
    /// The number of the newest commit, for whoever asks.
    pub(crate) commits: Arc<AtomicU64>,
    /// Why nothing can be written any more.
    pub(crate) broken: Arc<OnceLock<String>>,
    pub(crate) page_check: PageCheck,
    /// The rows that are newer than the tables, and the thread that writes them.
    pub(crate) tail: Arc<NewerRows>,
    pub(crate) row_writer: Arc<RowWriter>,
    pub(crate) commit_times: CommitTimes,
}

impl Committer {
    /// Returns the number of the newest commit, for whoever asks.
    pub(crate) fn show_commits(&self) -> Arc<AtomicU64> {
        self.commits.store(self.state.commit, Ordering::Relaxed);
        Arc::clone(&self.commits)
    }

    /// Tells whether a caller may make a small commit itself: nobody else wants to, the disk is quick, and nothing is due
    /// that takes long.
    pub(crate) fn is_at_hand(&self) -> bool {
        self.commit_times.is_quick() && !self.wal.is_due()
    }

    /// Empties the log, so that the database is one file while nobody uses it. Trouble here loses nothing: the log stays.
    pub(crate) fn finish(mut self) {
        self.page_check.end();
        self.row_writer.end();
        self.wal.end();
        self.write_rows();
        let emptied = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        if let Err(error) = emptied {
            tracing::warn!(%error, "the log windlass.db-wal was not written back at the end; the next open reads it");
        }
        if let Err(error) = self.counter.sync(self.state.commit) {
            tracing::warn!(%error, "the counter windlass.commits was not synced at the end");
        }
    }

    /// Makes a group durable and answers it.
    pub(crate) fn commit(&mut self, group: Vec<Box<dyn Job>>) {
        self.commit_times.note_group(group.len());
        let mut jobs = group.into_iter();
        while jobs.len() > 0 {
            if let Some(why) = self.broken.get() {
                jobs.for_each(|job| job.refuse(why));
                return;
            }
            let mut replies = Vec::with_capacity(jobs.len());
            let done = self.transact(&mut jobs, &mut replies);
            self.commits.store(self.state.commit, Ordering::Relaxed);
            match &done {
                Ok(()) => {
                    let records = std::mem::take(&mut self.state.new_records);
                    self.row_writer.note(records);
                    let rings = self.state.rings.drain(..);
                    rings.for_each(|ring| self.doorbells.ring(ring));
                    if records > 0 {
                        self.doorbells.ring_all();
                    }
                }
                Err(_) => {
                    self.state.rings.clear();
                    self.state.heads.forget_all();
                }
            }
            let done = done.map_err(|error| self.note_failure(&error));
            for reply in replies {
                reply(done.as_ref().copied().map_err(String::as_str));
            }
        }
    }

    /// Runs jobs in one transaction. It ends early when SQLite takes the whole transaction back because of one of them.
    fn transact(
        &mut self,
        jobs: &mut std::vec::IntoIter<Box<dyn Job>>,
        replies: &mut Vec<Reply>,
    ) -> rusqlite::Result<()> {
        let begun = Instant::now();
        let connection = &self.connection;
        let state = &mut self.state;
        let changes = connection.total_changes();
        if let Err(error) = connection.prepare_cached("BEGIN IMMEDIATE")?.execute([]) {
            self.commit_times.note_commit(begun.elapsed());
            let why = explain(&error);
            jobs.for_each(|job| job.refuse(&why));
            return Err(error);
        }
        let before = state.commit;
        state.commit += 1;
        (state.is_numbered, state.lost_records) = (false, false);
        state.new_records = 0;
        let finished = run_jobs(connection, state, jobs, replies).and_then(|is_kept| {
            if !is_kept || connection.total_changes() == changes {
                connection.prepare_cached("ROLLBACK")?.execute([])?;
                state.commit = before;
                return Ok(false);
            }
            state.note(connection)?;
            connection.prepare_cached("COMMIT")?.execute([])?;
            self.wal.note_changes(connection.total_changes() - changes);
            Ok(true)
        });
        // With the wait for another program that holds the database, and also where it came to nothing.
        self.commit_times.note_commit(begun.elapsed());
        match finished {
            Ok(true) => {
                // A counter that cannot be written is behind, and that is allowed.
                if let Err(error) = self.counter.note(state.commit) {
                    tracing::warn!(%error, "the counter windlass.commits cannot be written");
                }
                Ok(())
            }
            Ok(false) => Ok(()),
            Err(error) => {
                state.commit = before;
                if !connection.is_autocommit() {
                    let _ = connection.execute_batch("ROLLBACK");
                }
                Err(error)
            }
        }
    }

    /// Writes all rows that are newer than the tables.
    fn write_rows(&mut self) {
        let is_done = Arc::new(AtomicBool::new(false));
        while !is_done.load(Ordering::Relaxed) {
            let (tail, is_done) = (Arc::clone(&self.tail), Arc::clone(&is_done));
            self.commit(vec![Box::new(WriteRows { tail, is_done })]);
        }
    }

    /// Does what takes longer, once those who wait have their answers.
    pub(crate) fn tidy_up(&mut self) {
        if self.broken.get().is_some() {
            return;
        }
        if self.state.is_removing {
            self.commit(vec![Box::new(TakeOut)]);
        }
        self.wal.tidy_up(&self.connection);
    }

    /// Writes nothing any more.
    pub(crate) fn give_up(&self, why: &str) {
        let _ = self.broken.set(why.to_owned());
    }

    /// Decides whether a failure is for good. A sync that failed once may have lost pages that a second one does not
    /// write again, so the database must be opened anew; a full disk only needs room.
    fn note_failure(&mut self, error: &rusqlite::Error) -> String {
        const FSYNC: i32 = rusqlite::ffi::SQLITE_IOERR_FSYNC;
        let why = explain(error);
        let is_final = match error.sqlite_error() {
            Some(inner) => inner.extended_code == FSYNC || inner.code == ErrorCode::DatabaseCorrupt,
            None => false,
        };
        if is_final {
            let _ = self.broken.set(why.clone());
        }
        why
    }
}

/// Runs the jobs; tells whether one of them is to be kept. A job that is alone, or checks before it changes anything, needs
/// no savepoint.
fn run_jobs(
    connection: &Connection,
    state: &mut State,
    jobs: &mut std::vec::IntoIter<Box<dyn Job>>,
    replies: &mut Vec<Reply>,
) -> rusqlite::Result<bool> {
    let is_alone = jobs.len() == 1;
    for job in jobs {
        let is_marked = !is_alone && !job.is_checked();
        let mark = |statement| match is_marked {
            true => connection.prepare_cached(statement)?.execute([]),
            false => Ok(0),
        };
        let changes = connection.total_changes();
        mark("SAVEPOINT job")?;
        state.heads.begin();
        let (rings, position, records) = (state.rings.len(), state.position, state.new_records);
        let (is_numbered, lost_records) = (state.is_numbered, state.lost_records);
        match job.run(&mut Work { connection, state }) {
            Ok(reply) => replies.push(reply),
            Err(()) if connection.is_autocommit() => return Err(taken_back()),
            Err(()) if !is_alone && !is_marked && connection.total_changes() != changes => {
                return Err(taken_back());
            }
            Err(()) => {
                mark("ROLLBACK TO job")?;
                state.heads.take_back();
                state.rings.truncate(rings);
                (state.position, state.new_records) = (position, records);
                (state.is_numbered, state.lost_records) = (is_numbered, lost_records);
            }
        }
        mark("RELEASE job")?;
    }
    Ok(!replies.is_empty())
}

/// Writes some of the rows that are newer than the tables, so that the next open finds them there.
struct WriteRows {
    tail: Arc<NewerRows>,
    is_done: Arc<AtomicBool>,
}

impl Job for WriteRows {
    fn run(self: Box<Self>, work: &mut Work<'_>) -> Result<Reply, ()> {
        let Self { tail, is_done } = *self;
        match step_in(work.connection, &tail) {
            Ok(Some((rows, upto))) => Ok(Box::new(move |committed| match committed {
                Ok(()) => tail.written(&rows, upto),
                Err(_) => is_done.store(true, Ordering::Relaxed),
            })),
            Ok(None) => {
                is_done.store(true, Ordering::Relaxed);
                Err(())
            }
            Err(fault) => {
                is_done.store(true, Ordering::Relaxed);
                let error = SqliteError::from(fault);
                tracing::warn!(%error, "rows for lists were not written at the end; the next open makes them again");
                Err(())
            }
        }
    }

    fn refuse(self: Box<Self>, _why: &str) {
        self.is_done.store(true, Ordering::Relaxed);
    }
}

/// Takes out some of what is left of removed streams.
struct TakeOut;

impl Job for TakeOut {
    fn run(self: Box<Self>, work: &mut Work<'_>) -> Result<Reply, ()> {
        let done = removing::step(work);
        done.map(|_| unheard()).map_err(|fault| {
            // The next open tries again.
            work.state.is_removing = false;
            let error = SqliteError::from(fault);
            tracing::warn!(%error, "a removed stream cannot be taken out of the database");
        })
    }

    fn refuse(self: Box<Self>, _why: &str) {}
}

/// The reply to a job that nobody waits for.
fn unheard() -> Reply {
    Box::new(|_| {})
}

/// The whole group goes: SQLite ends a transaction by itself when there is no room for it, and one that failed in the
/// middle of a checked job cannot be kept.
fn taken_back() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL),
        Some("the group of commits was taken back".to_owned()),
    )
}

impl State {
    /// Keeps the number of the commit, unless a record carries it.
    fn note(&self, connection: &Connection) -> rusqlite::Result<()> {
        if self.is_numbered && !self.lost_records {
            return Ok(());
        }
        connection
            .prepare_cached("UPDATE state SET commits = ?1, position = ?2")?
            .execute([int(self.commit), int(self.position)])?;
        Ok(())
    }
}
