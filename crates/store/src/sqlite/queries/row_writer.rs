//! The thread that writes rows, soon after appends and many per commit. A failure affects no append: the rows stay in memory, and the thread retries.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;

use super::tail::{FoldExtent, NewerRows, STEP_RECORDS, folded};
use super::write::{write, write_part};
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::{DbResult, SqliteError};
use crate::sqlite::numbers::first_number;
use crate::sqlite::open::connect::Location;
use crate::sqlite::write::writer::{WeakWriter, Writer};
use windlass_core::lock::lock;

/// How many rows one commit writes.
const COMMIT_ROWS: usize = 4096;
/// The delay before rows are written, so that more can join them.
const DELAY: Duration = Duration::from_millis(250);
/// The delay before a retry.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// The state that the thread waits on.
#[derive(Debug, Default)]
pub(crate) struct RowWriter {
    pending: Mutex<Pending>,
    wake: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Pending {
    /// Appended records since rows were last written.
    records: u64,
    /// Whether the thread waits for the first of them.
    is_idle: bool,
    is_closing: bool,
}

impl RowWriter {
    /// Notes new records. It wakes the thread for the first of them, and when they have become many.
    pub(crate) fn note(&self, records: u64) {
        if records == 0 {
            return;
        }
        let mut pending = lock(&self.pending);
        pending.records += records;
        if pending.is_idle || pending.records >= STEP_RECORDS {
            pending.is_idle = false;
            self.wake.notify_one();
        }
    }

    /// Waits until rows are due; returns false when the store closes.
    fn wait(&self) -> bool {
        let mut pending = lock(&self.pending);
        pending.is_idle = pending.records == 0;
        let waited = self.wake.wait_while(pending, |pending| {
            pending.records == 0 && !pending.is_closing
        });
        pending = waited.unwrap_or_else(PoisonError::into_inner);
        pending.is_idle = false;
        drop(pending);
        self.pause(DELAY, |pending| pending.records < STEP_RECORDS)
    }

    /// Waits for a duration, or until the condition is false; returns false when the store closes.
    fn pause(&self, time: Duration, condition: impl Fn(&Pending) -> bool) -> bool {
        let is_waiting = |pending: &mut Pending| !pending.is_closing && condition(pending);
        let waited = self
            .wake
            .wait_timeout_while(lock(&self.pending), time, is_waiting);
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
        *lock(&self.thread) = Some(thread);
        Ok(())
    }

    fn run(&self, location: &Location, tail: &NewerRows, writer: &WeakWriter) {
        let mut db = None;
        let mut has_failed = false;
        while self.wait() {
            let done = catch_up(location, &mut db, tail, writer);
            match done {
                Ok(()) if has_failed => tracing::info!("rows of the read model are written again"),
                Ok(()) => {}
                Err(error) => {
                    if !has_failed && !lock(&self.pending).is_closing {
                        let error = SqliteError::from(error);
                        tracing::error!(%error, "rows of the read model cannot be written and stay in memory");
                    }
                    db = None;
                    has_failed = true;
                    if !self.pause(RETRY_DELAY, |_| true) {
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
        lock(&self.pending).is_closing = true;
        self.wake.notify_all();
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

fn catch_up(
    location: &Location,
    db: &mut Option<Connection>,
    tail: &NewerRows,
    writer: &WeakWriter,
) -> DbResult<()> {
    let reader = match db.take() {
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
    *db = Some(reader);
    Ok(())
}

/// Folds and writes some of the records that are newer than the tables. Returns whether some of those present at the start remain. Later records are
/// ignored, because each commit would otherwise cause another one.
pub(crate) fn step(reader: &Connection, tail: &NewerRows, writer: &Writer) -> DbResult<bool> {
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
        writer.write_alone(move |work| write_part(work.db, &part))?;
        newer = Arc::new(rest);
    }
    writer.write_alone(move |work| write(work.db, &newer, upto))?;
    tail.written(&rows, upto);
    Ok(is_more)
}

/// Returns the position of the newest record.
fn newest(db: &Connection) -> DbResult<u64> {
    let query = "SELECT coalesce(max(position), 0) FROM records";
    Ok(db.get_row(query, [], first_number)?)
}

/// Like `step`, in a transaction that writes. Returns the rows to pass to [`NewerRows::written`] once it is durable.
pub(crate) fn step_in(
    db: &Connection,
    tail: &NewerRows,
) -> DbResult<Option<(Arc<super::ReadModelRows>, u64)>> {
    let (rows, upto) = tail.look_in(db, FoldExtent::Step)?;
    if upto <= folded(db)? {
        return Ok(None);
    }
    write(db, &rows, upto)?;
    Ok(Some((rows, upto)))
}
