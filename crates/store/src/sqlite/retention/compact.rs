//! Returning free pages to the file system: gradually during maintenance, or all at once.
//!
//! Gradual return works in databases that were created or compacted by a version that sets `auto_vacuum`. In others, free pages are only reused.

use std::fs;
use std::sync::Arc;

use rusqlite::Connection;

use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::{DbResult, SqliteError};
use crate::sqlite::numbers::first_number;
use crate::sqlite::open::connect::Location;
use crate::sqlite::transfer::backup::{BackupProgress, with_progress};
use crate::sqlite::write::writer::WriteContext;
use crate::sqlite::{SqliteStore, run_blocking};

/// How many pages one commit returns.
const PAGES: u64 = 128;
/// The maximum number of commits per maintenance: 4 GiB.
const STEPS: u64 = 8192;
/// How many free pages stay at least, and which part of the pages in use, so that pages do not come and go.
const SPARE_PAGES: u64 = 128;
const SPARE_PART: u64 = 16;
/// The value of `auto_vacuum` with which pages can be returned.
const INCREMENTAL: u64 = 2;

/// The result of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactReport {
    /// How many bytes the file had.
    pub before: u64,
    /// How many bytes it has.
    pub after: u64,
}

impl SqliteStore {
    /// Rewrites the database without free pages. No other write runs meanwhile, so the host has to be idle.
    ///
    /// It needs [`used_bytes`](Self::used_bytes) of free space in the data directory, and the same in the directory for temporary files. A crash
    /// leaves the database unchanged.
    pub async fn compact(
        &self,
        progress: impl FnMut(BackupProgress) + Send + 'static,
    ) -> Result<CompactReport, SqliteError> {
        self.inner.writer()?;
        let used = self.used_bytes().await?;
        let readers = Arc::clone(&self.inner.readers);
        run_blocking(move || Ok(compact(readers.location(), used, progress)?)).await
    }

    /// Returns free pages to the file system, except for some that new records will need.
    pub(crate) async fn return_free_pages(&self) -> Result<(), SqliteError> {
        for _ in 0..STEPS {
            if !self.read(has_pages_to_return).await? {
                break;
            }
            let step = |work: &mut WriteContext<'_>| {
                let pragma = format!("PRAGMA incremental_vacuum({PAGES})");
                let mut statement = work.db.prepare_cached(&pragma)?;
                let mut rows = statement.query([])?;
                while rows.next()?.is_some() {}
                // SQLite rolls back a commit that changes no row.
                let change = "UPDATE state SET folded = folded WHERE only = 1";
                work.db.execute_cached(change, [])?;
                Ok(())
            };
            self.write(step).await?;
        }
        Ok(())
    }
}

fn has_pages_to_return(reader: &Connection) -> DbResult<bool> {
    let ask = |pragma| reader.pragma_query_value(None, pragma, first_number);
    let free = ask("freelist_count")?;
    let used = ask("page_count")?.saturating_sub(free);
    let spare = SPARE_PAGES.max(used / SPARE_PART);
    Ok(free >= spare + PAGES && ask("auto_vacuum")? == INCREMENTAL)
}

fn compact(
    location: &Location,
    used: u64,
    progress: impl FnMut(BackupProgress) + Send,
) -> DbResult<CompactReport> {
    let db = location.connect_to_compact()?;
    let truncate = || db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    let bytes = |path| fs::metadata(path).map_or(0, |file| file.len());
    truncate()?;
    let before = bytes(location.database());
    let page_size = db.pragma_query_value(None, "page_size", first_number)?;
    let page_size = page_size.max(1);
    // The rewritten pages are in the log before they are in the database.
    let measure = || bytes(location.log()) / page_size;
    with_progress(measure, used / page_size, progress, || {
        db.execute_batch("VACUUM")
    })?;
    truncate()?;
    Ok(CompactReport {
        before,
        after: bytes(location.database()),
    })
}
