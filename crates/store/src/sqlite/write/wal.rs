//! The write-ahead log and its checkpoints.
//!
//! A checkpoint takes many times as long as a commit, and no writer should wait for it. So a thread with its own connection runs it while writers
//! continue. Their writes prevent the log from restarting, so the small rest is checkpointed between two commits.

use std::io;
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use crate::sqlite::error::{DbError, DbResult, SqliteError};
use crate::sqlite::open::connect::{CHECKPOINT_PAGES, Location};

/// After how many changed rows the log is written back for the first time.
const FIRST: u64 = 512;
/// The minimum number of changes between checkpoints.
const FEWEST: u64 = 64;

/// The writer's view of the log. Only SQLite knows its length, so this counts changed rows.
#[derive(Debug)]
pub(crate) struct Wal {
    location: Location,
    changes: u64,
    /// How many fill it.
    due: u64,
    /// The thread that writes it back; it ends with its connection.
    checkpoint: Option<JoinHandle<DbResult<Connection>>>,
    /// The connection of the last one.
    spare: Option<Connection>,
    /// Why it could not be written back the last time.
    last_error: Option<String>,
}

impl Wal {
    pub(crate) fn new(location: Location) -> Self {
        Self {
            location,
            changes: 0,
            due: FIRST,
            checkpoint: None,
            spare: None,
            last_error: None,
        }
    }

    pub(crate) fn note_changes(&mut self, changes: u64) {
        self.changes += changes;
    }

    /// Returns whether a checkpoint is due.
    pub(crate) fn is_due(&self) -> bool {
        match &self.checkpoint {
            Some(thread) => thread.is_finished(),
            None => self.changes >= self.due,
        }
    }

    /// Checkpoints the log if it is long. A failure loses nothing: the log stays.
    pub(crate) fn tidy_up(&mut self, writer: &Connection) {
        if !self.is_due() {
            return;
        }
        match self.checkpoint.take() {
            Some(thread) => {
                let done = thread.join();
                let died = |_| {
                    Err(DbError::unavailable(
                        "the thread that writes it back has died",
                    ))
                };
                let written = done
                    .unwrap_or_else(died)
                    .map(|spare| self.spare = Some(spare));
                let rest = self.checkpoint_rest(writer);
                self.report(written.and(rest));
            }
            None => match self.begin() {
                Ok(thread) => self.checkpoint = Some(thread),
                Err(_) => {
                    let written = self.checkpoint_rest(writer);
                    self.report(written);
                }
            },
        }
    }

    /// Logs when checkpoints begin to fail, and when they work again. A failure loses nothing, but the log grows.
    fn report(&mut self, written: DbResult<()>) {
        let last_error = written
            .err()
            .map(|error| SqliteError::from(error).to_string());
        match (&self.last_error, &last_error) {
            (None, Some(error)) => {
                tracing::error!(%error, "the log windlass.db-wal cannot be written back, and grows");
            }
            (Some(_), None) => tracing::info!("the log windlass.db-wal is written back again"),
            _ => {}
        }
        self.last_error = last_error;
    }

    fn begin(&mut self) -> io::Result<JoinHandle<DbResult<Connection>>> {
        let (location, spare) = (self.location.clone(), self.spare.take());
        let name = "windlass-sqlite-log".to_owned();
        thread::Builder::new().name(name).spawn(move || {
            let db = match spare {
                Some(db) => db,
                None => location.connect_to_write_back()?,
            };
            write_back(&db)?;
            Ok(db)
        })
    }

    /// Checkpoints the pages that were written during the thread's checkpoint, and learns how many changes fill the log.
    fn checkpoint_rest(&mut self, writer: &Connection) -> DbResult<()> {
        let pages = write_back(writer);
        let known = pages.as_ref().copied().unwrap_or(0);
        self.due = next_due(self.changes, self.due, known);
        self.changes = 0;
        Ok(pages.map(drop)?)
    }

    /// Waits for the thread.
    pub(crate) fn end(&mut self) {
        self.spare = None;
        if let Some(thread) = self.checkpoint.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Wal {
    fn drop(&mut self) {
        self.end();
    }
}

/// Checkpoints the pages that no reader uses; returns how many pages the log has.
fn write_back(db: &Connection) -> rusqlite::Result<u32> {
    db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1))
}

/// Returns how many changes fill the log, given that `changes` changes made `pages` pages.
fn next_due(changes: u64, due: u64, pages: u32) -> u64 {
    let filling = changes * u64::from(CHECKPOINT_PAGES) / u64::from(pages.max(1));
    filling.clamp(FEWEST, due.max(FEWEST) * 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::open::owner::DirectoryLock;

    /// Makes the log due, and waits for its checkpoint.
    fn write_back_once(wal: &mut Wal, writer: &Connection) {
        wal.note_changes(wal.due);
        wal.tidy_up(writer);
        while wal.checkpoint.is_some() {
            std::thread::yield_now();
            wal.tidy_up(writer);
        }
    }

    #[test]
    fn failing_checkpoint_is_reported_until_it_succeeds() {
        let directory = tempfile::tempdir().unwrap();
        let location = Location::new(directory.path());
        let _owner = DirectoryLock::take(&location).unwrap();
        let writer = location.connect_to_write(None).unwrap();
        writer.pragma_update(None, "journal_mode", "WAL").unwrap();
        writer.execute_batch("CREATE TABLE t (x)").unwrap();
        let mut wal = Wal::new(location.clone());
        write_back_once(&mut wal, &writer);
        assert_eq!(wal.last_error, None);

        // A connection of its own cannot be opened.
        let away = directory.path().join("away");
        std::fs::rename(location.database(), &away).unwrap();
        wal.spare = None;
        write_back_once(&mut wal, &writer);
        assert!(wal.last_error.is_some());
        std::fs::rename(away, location.database()).unwrap();
        write_back_once(&mut wal, &writer);
        assert_eq!(wal.last_error, None);
    }

    #[test]
    fn number_of_changes_per_log_adapts() {
        assert_eq!(next_due(512, 512, CHECKPOINT_PAGES / 2), 1024);
        assert_eq!(next_due(512, 512, 10), 1024, "at most twice as many");
        assert_eq!(next_due(512, 512, CHECKPOINT_PAGES * 4), 128);
        assert_eq!(next_due(1, FEWEST, u32::MAX), FEWEST);
        assert_eq!(next_due(0, 0, 0), FEWEST);
    }
}
