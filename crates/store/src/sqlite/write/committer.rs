//! The only connection that writes, with the writer's state. There is one committer, and its holder writes.
//!
//! Jobs of a group run in one transaction. A job that may be rejected half-way runs in a savepoint of its own, and is undone alone. Success is
//! reported only once the commit is durable.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use rusqlite::{Connection, ErrorCode};

use super::commit_times::CommitTimes;
use super::stream_notifier::{StreamNotifier, Wakeup};
use super::wal::Wal;
use super::writer::{CommitReply, WriterJob};
use crate::sqlite::error::{SqliteError, explain};
use crate::sqlite::journal::heads::Heads;
use crate::sqlite::numbers::int;
use crate::sqlite::open::commit_counter::Counter;
use crate::sqlite::open::owner::DirectoryLock;
use crate::sqlite::open::page_check::PageCheck;
use crate::sqlite::queries::row_writer::{RowWriter, step_in};
use crate::sqlite::queries::tail::NewerRows;
use crate::sqlite::retention::deferred_delete;

/// The context of a job.
pub(crate) struct WriteContext<'a> {
    pub(crate) db: &'a Connection,
    pub(crate) state: &'a mut State,
}

/// The writer's cached state of the database.
pub(crate) struct State {
    pub(crate) heads: Heads,
    /// The newest position that was given out.
    pub(crate) position: u64,
    /// The number of the current commit.
    pub(crate) commit: u64,
    /// The watchers to notify after this commit.
    pub(crate) wakeups: Vec<Wakeup>,
    /// Whether a record of this commit carries its number.
    pub(crate) is_numbered: bool,
    /// Whether records went away, so that the newest one may no longer carry the newest number.
    pub(crate) lost_records: bool,
    /// Whether removed streams have rows to delete.
    pub(crate) is_removing: bool,
    /// How many records this commit has.
    pub(crate) new_records: u64,
}

/// Fields are dropped in this order: the lock is given up last.
pub(crate) struct Committer {
    pub(crate) wal: Wal,
    pub(crate) db: Connection,
    pub(crate) counter: Counter,
    pub(crate) _owner: DirectoryLock,
    pub(crate) notifier: Arc<StreamNotifier>,
    pub(crate) state: State,
    /// The number of the newest commit, shared with readers.
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
    /// Returns a shared counter with the number of the newest commit.
    pub(crate) fn show_commits(&self) -> Arc<AtomicU64> {
        self.commits.store(self.state.commit, Ordering::Relaxed);
        Arc::clone(&self.commits)
    }

    /// Returns whether a caller may make a small commit itself: the disk is quick, and no checkpoint is due.
    pub(crate) fn may_commit_in_place(&self) -> bool {
        self.commit_times.is_quick() && !self.wal.is_due()
    }

    /// Checkpoints and empties the log, so that an unused database is one file. A failure loses nothing: the log stays.
    pub(crate) fn finish(mut self) {
        self.page_check.end();
        self.row_writer.end();
        self.wal.end();
        self.write_rows();
        let emptied = self
            .db
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        if let Err(error) = emptied {
            tracing::warn!(%error, "the log windlass.db-wal was not written back at the end; the next open reads it");
        }
        if let Err(error) = self.counter.sync(self.state.commit) {
            tracing::warn!(%error, "the counter windlass.commits was not synced at the end");
        }
    }

    /// Commits a group and replies to its callers.
    pub(crate) fn commit(&mut self, group: Vec<Box<dyn WriterJob>>) {
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
                    let wakeups = self.state.wakeups.drain(..);
                    wakeups.for_each(|wakeup| self.notifier.notify(wakeup));
                    if records > 0 {
                        self.notifier.notify_all();
                    }
                }
                Err(_) => {
                    self.state.wakeups.clear();
                    self.state.heads.forget_all();
                }
            }
            let done = done.map_err(|error| self.note_failure(&error));
            for reply in replies {
                reply(done.as_ref().copied().map_err(String::as_str));
            }
        }
    }

    /// Runs jobs in one transaction. It ends early if a job makes SQLite roll back the whole transaction.
    fn transact(
        &mut self,
        jobs: &mut std::vec::IntoIter<Box<dyn WriterJob>>,
        replies: &mut Vec<CommitReply>,
    ) -> rusqlite::Result<()> {
        let begun = Instant::now();
        let db = &self.db;
        let state = &mut self.state;
        let changes = db.total_changes();
        if let Err(error) = db.prepare_cached("BEGIN IMMEDIATE")?.execute([]) {
            self.commit_times.note_commit(begun.elapsed());
            let why = explain(&error);
            jobs.for_each(|job| job.refuse(&why));
            return Err(error);
        }
        let before = state.commit;
        state.commit += 1;
        (state.is_numbered, state.lost_records) = (false, false);
        state.new_records = 0;
        let finished = run_jobs(db, state, jobs, replies).and_then(|is_needed| {
            if !is_needed || db.total_changes() == changes {
                db.prepare_cached("ROLLBACK")?.execute([])?;
                state.commit = before;
                return Ok(false);
            }
            state.note(db)?;
            db.prepare_cached("COMMIT")?.execute([])?;
            self.wal.note_changes(db.total_changes() - changes);
            Ok(true)
        });
        // Includes the wait for another program that locks the database, even if the commit failed.
        self.commit_times.note_commit(begun.elapsed());
        match finished {
            Ok(true) => {
                // A counter that cannot be written lags, which is allowed.
                if let Err(error) = self.counter.note(state.commit) {
                    tracing::warn!(%error, "the counter windlass.commits cannot be written");
                }
                Ok(())
            }
            Ok(false) => Ok(()),
            Err(error) => {
                state.commit = before;
                if !db.is_autocommit() {
                    let _ = db.execute_batch("ROLLBACK");
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

    /// Runs longer work after the replies.
    pub(crate) fn tidy_up(&mut self) {
        if self.broken.get().is_some() {
            return;
        }
        if self.state.is_removing {
            self.commit(vec![Box::new(DeleteRemovedRows)]);
        }
        self.wal.tidy_up(&self.db);
    }

    /// Stops all writing.
    pub(crate) fn give_up(&self, why: &str) {
        let _ = self.broken.set(why.to_owned());
    }

    /// Decides whether a failure is final. A failed sync may have lost pages that a second one does not write again, so the database must be
    /// reopened. After a full disk, writing continues once there is space.
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

/// Runs the jobs; returns whether one of them succeeded and needs the commit. A job that is alone, or checks before it changes anything, needs no
/// savepoint.
fn run_jobs(
    db: &Connection,
    state: &mut State,
    jobs: &mut std::vec::IntoIter<Box<dyn WriterJob>>,
    replies: &mut Vec<CommitReply>,
) -> rusqlite::Result<bool> {
    let is_alone = jobs.len() == 1;
    for job in jobs {
        let is_marked = !is_alone && !job.is_checked();
        let mark = |statement| {
            if is_marked {
                db.prepare_cached(statement)?.execute([])
            } else {
                Ok(0)
            }
        };
        let changes = db.total_changes();
        mark("SAVEPOINT job")?;
        state.heads.begin();
        let (wakeups, position, records) = (state.wakeups.len(), state.position, state.new_records);
        let (is_numbered, lost_records) = (state.is_numbered, state.lost_records);
        match job.run(&mut WriteContext { db, state }) {
            Ok(reply) => replies.push(reply),
            Err(()) if db.is_autocommit() => return Err(group_rolled_back()),
            Err(()) if !is_alone && !is_marked && db.total_changes() != changes => {
                return Err(group_rolled_back());
            }
            Err(()) => {
                mark("ROLLBACK TO job")?;
                state.heads.roll_back();
                state.wakeups.truncate(wakeups);
                (state.position, state.new_records) = (position, records);
                (state.is_numbered, state.lost_records) = (is_numbered, lost_records);
            }
        }
        mark("RELEASE job")?;
    }
    Ok(!replies.is_empty())
}

/// Writes some of the rows that are newer than the tables, so that the next open need not fold them.
struct WriteRows {
    tail: Arc<NewerRows>,
    is_done: Arc<AtomicBool>,
}

impl WriterJob for WriteRows {
    fn run(self: Box<Self>, work: &mut WriteContext<'_>) -> Result<CommitReply, ()> {
        let Self { tail, is_done } = *self;
        match step_in(work.db, &tail) {
            Ok(Some((rows, upto))) => Ok(Box::new(move |committed| match committed {
                Ok(()) => tail.written(&rows, upto),
                Err(_) => is_done.store(true, Ordering::Relaxed),
            })),
            Ok(None) => {
                is_done.store(true, Ordering::Relaxed);
                Err(())
            }
            Err(error) => {
                is_done.store(true, Ordering::Relaxed);
                let error = SqliteError::from(error);
                tracing::warn!(%error, "rows for lists were not written at the end; the next open makes them again");
                Err(())
            }
        }
    }

    fn refuse(self: Box<Self>, _why: &str) {
        self.is_done.store(true, Ordering::Relaxed);
    }
}

/// Deletes some rows of removed streams.
struct DeleteRemovedRows;

impl WriterJob for DeleteRemovedRows {
    fn run(self: Box<Self>, work: &mut WriteContext<'_>) -> Result<CommitReply, ()> {
        let done = deferred_delete::step(work);
        done.map(|_| no_reply()).map_err(|error| {
            // The next open tries again.
            work.state.is_removing = false;
            let error = SqliteError::from(error);
            tracing::warn!(%error, "a removed stream cannot be taken out of the database");
        })
    }

    fn refuse(self: Box<Self>, _why: &str) {}
}

/// The reply to a job without a waiting caller.
fn no_reply() -> CommitReply {
    Box::new(|_| {})
}

/// Rejects the whole group. SQLite ends a transaction when the disk is full, and a checked job that failed half-way cannot be undone alone.
fn group_rolled_back() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL),
        Some("the group of commits was taken back".to_owned()),
    )
}

impl State {
    /// Stores the number of the commit, unless a record contains it.
    fn note(&self, db: &Connection) -> rusqlite::Result<()> {
        if self.is_numbered && !self.lost_records {
            return Ok(());
        }
        db.prepare_cached("UPDATE state SET commits = ?1, position = ?2")?
            .execute([int(self.commit), int(self.position)])?;
        Ok(())
    }
}
