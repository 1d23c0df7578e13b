//! Returning free pages to the file system: some at a time during upkeep, or all at once.
//!
//! The first works in databases that were made or compacted by a version that sets `auto_vacuum`; in others free pages are only
//! used again.

use std::fs;
use std::sync::Arc;

use rusqlite::Connection;

use super::SqliteStore;
use super::backup::{BackupProgress, watched};
use super::connect::Location;
use super::error::{Fault, SqliteError};
use super::numbers::uint;
use super::writer::Work;

/// How many pages one commit returns.
const PAGES: u64 = 128;
/// How many commits one upkeep makes for it: 4 GiB.
const STEPS: u64 = 8192;
/// How many free pages stay at least, and which part of the pages in use, so that pages do not come and go.
const SPARE_PAGES: u64 = 128;
const SPARE_PART: u64 = 16;
/// The value of `auto_vacuum` with which pages can be returned.
const INCREMENTAL: u64 = 2;

/// What a compaction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactReport {
    /// How many bytes the file had.
    pub before: u64,
    /// How many bytes it has.
    pub after: u64,
}

impl SqliteStore {
    /// Rewrites the database without free pages. Nothing else is written meanwhile, so the host has to be idle.
    ///
    /// While it works it needs as much room in the data directory as [`used_bytes`](Self::used_bytes) says, and the same in the
    /// directory for temporary files. A crash leaves the database as it was.
    pub async fn compact(
        &self,
        progress: impl FnMut(BackupProgress) + Send + 'static,
    ) -> Result<CompactReport, SqliteError> {
        self.inner.writer()?;
        let used = self.used_bytes().await?;
        let readers = Arc::clone(&self.inner.readers);
        let done = tokio::task::spawn_blocking(move || {
            let location = readers.location();
            Ok::<_, SqliteError>(compact(location, used, progress)?)
        });
        done.await
            .map_err(|error| SqliteError::Unavailable(error.to_string()))?
    }

    /// Returns free pages to the file system, but for some that new records will need.
    pub(super) async fn return_free_pages(&self) -> Result<(), SqliteError> {
        for _ in 0..STEPS {
            if !self.read(has_pages_to_return).await? {
                break;
            }
            let step = |work: &mut Work<'_>| {
                let pragma = format!("PRAGMA incremental_vacuum({PAGES})");
                let mut statement = work.connection.prepare_cached(&pragma)?;
                let mut rows = statement.query([])?;
                while rows.next()?.is_some() {}
                // A commit in which no row changes is taken back.
                let change = "UPDATE state SET folded = folded WHERE only = 1";
                work.connection.prepare_cached(change)?.execute([])?;
                Ok(())
            };
            self.inner.writer()?.write(step).await?;
        }
        Ok(())
    }
}

fn has_pages_to_return(reader: &Connection) -> Result<bool, Fault> {
    let ask = |pragma| reader.pragma_query_value(None, pragma, |row| uint(row, 0));
    let free = ask("freelist_count")?;
    let used = ask("page_count")?.saturating_sub(free);
    let spare = SPARE_PAGES.max(used / SPARE_PART);
    Ok(free >= spare + PAGES && ask("auto_vacuum")? == INCREMENTAL)
}

fn compact(
    location: &Location,
    used: u64,
    progress: impl FnMut(BackupProgress) + Send,
) -> Result<CompactReport, Fault> {
    let connection = location.connect_to_compact()?;
    let truncate = || connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    let bytes = |path| fs::metadata(path).map_or(0, |file| file.len());
    truncate()?;
    let before = bytes(location.database());
    let page_size = connection.pragma_query_value(None, "page_size", |row| uint(row, 0))?;
    let page_size = page_size.max(1);
    // The rewritten pages are in the log before they are in the database.
    let measure = || bytes(location.log()) / page_size;
    watched(measure, used / page_size, progress, || {
        connection.execute_batch("VACUUM")
    })?;
    truncate()?;
    Ok(CompactReport {
        before,
        after: bytes(location.database()),
    })
}
