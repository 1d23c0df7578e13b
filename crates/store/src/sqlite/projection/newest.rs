//! Rows of threads that are newer than the table.
//!
//! The row of a thread changes at least twice in a turn, and a commit writes whole pages: written each time, such rows cost
//! as much as the records. So the newest ones stay in memory and go to the table together, many at a time.
//! `state.projected` says up to which position the table is exact. After a crash, the rows of streams with newer
//! records are folded again, and so does whoever reads the database of another process.

use std::collections::{HashMap, HashSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

use super::super::error::{Fault, SqliteError};
use super::super::journal::named;
use super::super::numbers::{int, uint};
use super::load;
use super::rows::ThreadRow;
use crate::runs::is_run_stream;

/// How many rows stay in memory.
pub(crate) const MAX_ROWS: usize = 512;
/// How many records may be newer than the table is exact: what is looked through after a crash.
pub(crate) const MAX_RECORDS: u64 = 2048;

/// The newest rows by their streams.
pub(super) type ThreadRows = HashMap<u64, ThreadRow>;

/// What the writer and those who list share.
#[derive(Debug, Default)]
pub(crate) struct Newest {
    rows: Mutex<Rows>,
    /// Rings when the rows of an earlier process are there.
    folded: Condvar,
    /// Rings when somebody waits for them.
    wanted: Condvar,
}

#[derive(Debug, Default)]
struct Rows {
    by_stream: ThreadRows,
    /// Raised when a row goes, so that a reader notices when the table and the rows do not belong together.
    generation: u64,
    earlier: Earlier,
    /// Whether somebody waits for the rows of an earlier process.
    is_wanted: bool,
    /// Whether nobody will try to fold them any more.
    is_over: bool,
}

/// The rows that an earlier process has not written.
#[derive(Debug, Default)]
enum Earlier {
    /// They are all there, or there are none.
    #[default]
    Here,
    /// They are being folded, but for those of streams that have changed meanwhile.
    Folding { changed: HashSet<u64> },
    /// They could not be folded, and why. Whoever asks for them lets it be tried again.
    Failed { why: String, changed: HashSet<u64> },
}

impl Earlier {
    /// Returns the streams that have changed since, where rows are missing.
    fn changed(&mut self) -> Option<&mut HashSet<u64>> {
        match self {
            Self::Here => None,
            Self::Folding { changed } | Self::Failed { changed, .. } => Some(changed),
        }
    }
}

impl Newest {
    /// Begins without the rows of an earlier process; [`Newest::fold`] brings them.
    pub(super) fn behind() -> Self {
        let rows = Rows {
            earlier: Earlier::Folding {
                changed: HashSet::new(),
            },
            ..Rows::default()
        };
        Self {
            rows: Mutex::new(rows),
            folded: Condvar::new(),
            wanted: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether all rows are there that are newer than the table.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.lock().earlier, Earlier::Here)
    }

    /// Waits for a time, or until somebody wants the rows.
    pub(crate) fn wait_until_wanted(&self, time: Duration) {
        let is_early = |rows: &mut Rows| !rows.is_wanted;
        drop(self.wanted.wait_timeout_while(self.lock(), time, is_early));
    }

    /// Lets the rows be folded now.
    pub(crate) fn want(&self) {
        self.lock().is_wanted = true;
        self.wanted.notify_all();
    }

    /// Folds the rows that an earlier process has not written. Whoever lists waits for it, and nobody else.
    pub(crate) fn fold(&self, connection: &Connection) -> Result<(), Fault> {
        if self.is_whole() {
            return Ok(());
        }
        let transaction = connection.unchecked_transaction()?;
        let mut folded = fold_newest(&transaction)?;
        let mut rows = self.lock();
        if let Some(changed) = rows.earlier.changed() {
            folded.retain(|stream, _| !changed.contains(stream));
        }
        rows.earlier = Earlier::Here;
        rows.by_stream.extend(folded);
        drop(rows);
        self.folded.notify_all();
        Ok(())
    }

    /// Notes that the rows of an earlier process could not be folded; whoever lists now hears why.
    pub(crate) fn fail(&self, fault: Fault) {
        let why = SqliteError::from(fault).to_string();
        tracing::warn!(error = %why, "threads cannot be listed yet: what an earlier process left could not be read");
        let mut rows = self.lock();
        rows.is_wanted = false;
        if let Some(changed) = rows.earlier.changed() {
            let changed = std::mem::take(changed);
            rows.earlier = Earlier::Failed { why, changed };
        }
        drop(rows);
        self.folded.notify_all();
    }

    /// Notes that nobody will try again, and why whoever lists is refused from now on.
    pub(crate) fn end(&self, why: Option<&str>) {
        let mut rows = self.lock();
        rows.is_over = true;
        if let Some(why) = why {
            rows.earlier = Earlier::Failed {
                why: why.to_owned(),
                changed: HashSet::new(),
            };
        }
        drop(rows);
        self.folded.notify_all();
    }

    /// Returns all rows that are newer than the table.
    pub(super) fn rows(&self) -> Result<(ThreadRows, u64), Fault> {
        let mut rows = self.lock();
        if !rows.is_over
            && let Some(changed) = rows.earlier.changed()
        {
            let changed = std::mem::take(changed);
            rows.earlier = Earlier::Folding { changed };
            rows.is_wanted = true;
            self.wanted.notify_all();
        }
        let is_folding = |rows: &mut Rows| matches!(rows.earlier, Earlier::Folding { .. });
        let rows = self
            .folded
            .wait_while(rows, is_folding)
            .unwrap_or_else(PoisonError::into_inner);
        match &rows.earlier {
            Earlier::Failed { why, .. } => Err(Fault::unavailable(why)),
            _ => Ok((rows.by_stream.clone(), rows.generation)),
        }
    }

    pub(super) fn row(&self, stream: u64) -> Option<ThreadRow> {
        self.lock().by_stream.get(&stream).copied()
    }

    pub(super) fn generation(&self) -> u64 {
        self.lock().generation
    }

    pub(super) fn len(&self) -> usize {
        self.lock().by_stream.len()
    }

    /// Takes over what a commit has made durable: rows that are newer than the table, and streams whose rows are in it.
    pub(super) fn publish(&self, news: impl Iterator<Item = (u64, Option<ThreadRow>)>) {
        let mut rows = self.lock();
        for (stream, row) in news {
            if let Some(changed) = rows.earlier.changed() {
                changed.insert(stream);
            }
            match row {
                Some(row) => drop(rows.by_stream.insert(stream, row)),
                None if rows.by_stream.remove(&stream).is_some() => rows.generation += 1,
                None => {}
            }
        }
    }

    /// Forgets all rows: the table has them.
    pub(super) fn clear(&self) {
        let mut rows = self.lock();
        rows.by_stream.clear();
        rows.generation += 1;
    }
}

/// Returns up to which position the table is exact.
pub(super) fn projected(connection: &Connection) -> Result<u64, Fault> {
    let mut statement = connection.prepare_cached("SELECT projected FROM state")?;
    Ok(statement.query_row([], |row| uint(row, 0))?)
}

/// Notes up to which position the table is exact.
pub(super) fn note_projected(connection: &Connection, position: u64) -> Result<(), Fault> {
    connection
        .prepare_cached("UPDATE state SET projected = ?1")?
        .execute([int(position)])?;
    Ok(())
}

pub(super) const TAIL_QUERY: &str = "SELECT DISTINCT stream FROM records WHERE position > ?1";

/// Folds the rows of all streams with records behind the position up to which the table is exact. A stream that cannot be
/// read has none.
pub(super) fn fold_newest(connection: &Connection) -> Result<ThreadRows, Fault> {
    let after = projected(connection)?;
    let mut statement = connection.prepare_cached(TAIL_QUERY)?;
    let streams = statement.query_map([int(after)], |row| uint(row, 0))?;
    let mut rows = ThreadRows::new();
    for stream in streams {
        let stream = stream?;
        let name = named(connection, stream)?;
        let Some(name) = name.filter(|name| !is_run_stream(name)) else {
            continue;
        };
        match load::fold(connection, &name, stream) {
            Ok(fold) => drop(rows.insert(stream, fold.thread())),
            Err(Fault::Journal(_)) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(rows)
}
