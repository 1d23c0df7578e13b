//! The thread that writes rows: a short while after appends, many at a time, in a commit of its own. A failure disturbs no append: the rows stay in
//! memory, and the thread retries.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;

use super::tail::{FoldExtent, NewerRows, STEP_RECORDS, folded};
use super::write::{write, write_part};
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::{DbError, SqliteError};
use crate::sqlite::numbers::uint;
use crate::sqlite::open::connect::Location;
use crate::sqlite::write::writer::{WeakWriter, Writer};

/// How many rows one commit writes.
const COMMIT_ROWS: usize = 4096;
/// The delay before rows are written, so that more can join them.
const DELAY: Duration = Duration::from_millis(250);
/// How long it waits after a failure.
const AGAIN: Duration = Duration::from_secs(5);

/// The state that the thread waits on.
#[derive(Debug, Default)]
pub(crate) struct RowWriter {
    pending: Mutex<Pending>,
    wake: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Pending {
    /// How many records came since the rows were written.
    records: u64,
    /// Whether the thread waits for the first of them.
    is_idle: bool,
    is_closing: bool,
}

impl RowWriter {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes new records. It wakes the thread for the first of them, and when they have become many.
    pub(crate) fn note(&self, records: u64) {
        if records == 0 {
            return;
        }
        let mut pending = self.pending();
        pending.records += records;
        if pending.is_idle || pending.records >= STEP_RECORDS {
            pending.is_idle = false;
            self.wake.notify_one();
        }
    }

    /// Waits until rows are to be written; `false` when the store closes.
    fn wait(&self) -> bool {
        let mut pending = self.pending();
        pending.is_idle = pending.records == 0;
        let waited = self.wake.wait_while(pending, |pending| {
            pending.records == 0 && !pending.is_closing
        });
        pending = waited.unwrap_or_else(PoisonError::into_inner);
        pending.is_idle = false;
        drop(pending);
        self.pause(DELAY, |pending| pending.records < STEP_RECORDS)
    }

    /// Waits for a time, or until something else holds; `false` when the store closes.
    fn pause(&self, time: Duration, goes_on: impl Fn(&Pending) -> bool) -> bool {
        let is_waiting = |pending: &mut Pending| !pending.is_closing && goes_on(pending);
        let waited = self
            .wake
            .wait_timeout_while(self.pending(), time, is_waiting);
        let (mut pending, _) = waited.unwrap_or_else(PoisonError::into_inner);
        pending.records = 0;
        !pending.is_closing
    }

    /// Starts the thread.
    pub(crate) fn begin(
        self: &Arc<Self>,
        location: Location,
        tail: Arc<NewerRows>,
        writer: WeakWriter,
    ) -> io::Result<()> {
        let row_writer = Arc::clone(self);
        let name = "windlass-sqlite-rows".to_owned();
        let thread = std::thread::Builder::new().name(name);
        let thread = thread.spawn(move || row_writer.run(&location, &tail, &writer))?;
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    fn run(&self, location: &Location, tail: &NewerRows, writer: &WeakWriter) {
        let mut connection = None;
        let mut has_failed = false;
        while self.wait() {
            let done = catch_up(location, &mut connection, tail, writer);
            match done {
                Ok(()) if has_failed => tracing::info!("rows for lists are written again"),
                Ok(()) => {}
                Err(error) => {
                    if !has_failed && !self.pending().is_closing {
                        let error = SqliteError::from(error);
                        tracing::error!(%error, "rows for lists cannot be written, and are kept in memory");
                    }
                    connection = None;
                    has_failed = true;
                    if !self.pause(AGAIN, |_| true) {
                        return;
                    }
                    self.note(1);
                    continue;
                }
            }
            has_failed = false;
        }
    }

    /// Ends the thread. Closing the store writes the remaining rows.
    pub(crate) fn end(&self) {
        self.pending().is_closing = true;
        self.wake.notify_all();
        let thread = (self.thread.lock().unwrap_or_else(PoisonError::into_inner)).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

fn catch_up(
    location: &Location,
    connection: &mut Option<Connection>,
    tail: &NewerRows,
    writer: &WeakWriter,
) -> Result<(), DbError> {
    let reader = match connection.take() {
        Some(reader) => reader,
        None => location.connect_to_read()?,
    };
    loop {
        // The writer is gone when the store closes; closing writes the rest.
        let Some(writer) = writer.upgrade() else {
            return Ok(());
        };
        if !step(&reader, tail, &writer)? {
            break;
        }
    }
    *connection = Some(reader);
    Ok(())
}

/// Folds and writes some of the records that are newer than the tables. Returns whether some of those present at the start remain. Later records are
/// ignored, because each commit would otherwise cause another one.
pub(crate) fn step(
    reader: &Connection,
    tail: &NewerRows,
    writer: &Writer,
) -> Result<bool, DbError> {
    let (transaction, rows, upto) = tail.look(reader, FoldExtent::Step)?;
    let is_done = upto <= folded(&transaction)?;
    let is_more = upto < newest(&transaction)?;
    drop(transaction);
    if is_done {
        return Ok(is_more);
    }
    // A reader may have folded much more than a step, so the rows are written in parts. Writing a row twice is idempotent.
    let mut newer = Arc::clone(&rows);
    while newer.count() > COMMIT_ROWS {
        let (part, rest) = newer.split(COMMIT_ROWS);
        writer.write_alone(move |work| write_part(work.connection, &part))?;
        newer = Arc::new(rest);
    }
    writer.write_alone(move |work| write(work.connection, &newer, upto))?;
    tail.written(&rows, upto);
    Ok(is_more)
}

/// Returns the position of the newest record.
fn newest(connection: &Connection) -> Result<u64, DbError> {
    let query = "SELECT coalesce(max(position), 0) FROM records";
    Ok(connection.get_row(query, [], |row| uint(row, 0))?)
}

/// Like `step`, in a transaction that writes. Returns the rows to pass to [`NewerRows::written`] once it is durable.
pub(crate) fn step_in(
    connection: &Connection,
    tail: &NewerRows,
) -> Result<Option<(Arc<super::ReadModelRows>, u64)>, DbError> {
    let (rows, upto) = tail.look_in(connection, FoldExtent::Step)?;
    if upto <= folded(connection)? {
        return Ok(None);
    }
    write(connection, &rows, upto)?;
    Ok(Some((rows, upto)))
}
