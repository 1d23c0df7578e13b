//! Where the database is, and how connections to it are set up.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::error::{Fault, SqliteError};
use super::numbers::uint;
use super::{projection, spans};

/// After how many pages the write-ahead log is written back: 8 MiB with pages as SQLite makes them.
pub(crate) const CHECKPOINT_PAGES: u32 = 2048;

/// How big the file of the write-ahead log stays when it is empty again: twice what is mostly in it.
const LOG_BYTES: u32 = 16 * 1024 * 1024;

/// How long a connection waits for another program, such as a backup.
const BUSY: Duration = Duration::from_secs(5);

/// The files of a store.
#[derive(Debug, Clone)]
pub(crate) struct Location {
    pub(crate) directory: PathBuf,
}

impl Location {
    pub(crate) fn database(&self) -> PathBuf {
        self.directory.join("windlass.db")
    }
    pub(crate) fn log(&self) -> PathBuf {
        self.directory.join("windlass.db-wal")
    }
    /// What takes back a transaction that was cut off while the database had no log yet.
    fn rollback_journal(&self) -> PathBuf {
        self.directory.join("windlass.db-journal")
    }
    pub(crate) fn lock(&self) -> PathBuf {
        self.directory.join("windlass.lock")
    }
    pub(crate) fn counter(&self) -> PathBuf {
        self.directory.join("windlass.commits")
    }

    /// Takes back what a first opening that was cut off has left half-done. Only who may write can do that.
    pub(crate) fn take_back(&self) -> Result<(), Fault> {
        if !self.rollback_journal().exists() {
            return Ok(());
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        probe(&Connection::open_with_flags(self.database(), flags)?)?;
        Ok(())
    }

    /// Says that a first opening was cut off.
    pub(crate) fn cut_off(&self) -> SqliteError {
        let what = "its first opening was cut off; open it for writing";
        SqliteError::Io {
            doing: "open",
            path: self.database(),
            source: io::Error::new(ErrorKind::NotFound, what),
        }
    }

    /// Opens the one connection that writes.
    pub(crate) fn connect_to_write(&self, max_bytes: Option<u64>) -> Result<Connection, Fault> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(self.database(), flags)?;
        connection.busy_timeout(BUSY)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        // What a savepoint may take back is kept in memory: on disk it would be written twice.
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        // The [log](super::log) is seen to before; this is for what was larger than expected.
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES * 4)?;
        connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
        connection.set_prepared_statement_cache_capacity(64);
        plan_once(&connection)?;
        if let Some(bytes) = max_bytes {
            // A database of an earlier version has smaller pages.
            let page = connection.pragma_query_value(None, "page_size", |row| uint(row, 0))?;
            let pages = (bytes / page.max(1)).max(1);
            connection.pragma_update(None, "max_page_count", pages.cast_signed())?;
        }
        Ok(connection)
    }

    /// Opens a connection that writes the log back. A database that is no longer there is not made anew.
    pub(crate) fn connect_to_write_back(&self) -> Result<Connection, Fault> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(self.database(), flags)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        Ok(connection)
    }

    /// Opens a connection that cannot write.
    ///
    /// A database in WAL mode cannot be read where no file can be made beside it, except as one that nobody changes; that
    /// is true when the directory is read-only and no log is left.
    pub(crate) fn connect_to_read(&self) -> Result<Connection, Fault> {
        let path = self.database();
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&path, flags)?;
        connection.busy_timeout(BUSY)?;
        let connection = match probe(&connection) {
            Ok(()) => connection,
            Err(error) if is_out_of_reach(&error) && self.rollback_journal().exists() => {
                return Err(self.cut_off().into());
            }
            Err(error) if is_out_of_reach(&error) && !self.log().exists() => {
                let uri = format!("file:{}?immutable=1", escaped(&path)?);
                Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)?
            }
            // A file that is shorter than it says is read in this mode only; it can then be checked, and saved.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
                connection.pragma_update(None, "writable_schema", true)?;
                probe(&connection)?;
                connection
            }
            Err(error) => return Err(error.into()),
        };
        connection.set_prepared_statement_cache_capacity(32);
        plan_once(&connection)?;
        // Of a database that is too damaged to tell its version, the first query says more.
        let _ = spans::stand_in(&connection);
        let _ = projection::stand_in(&connection);
        Ok(connection)
    }
}

fn probe(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
}

/// Tells whether a connection shows a database of an earlier version as one of this.
pub(crate) fn has_stand_ins(connection: &Connection) -> bool {
    let found = connection
        .prepare_cached("SELECT 1 FROM temp.sqlite_schema")
        .and_then(|mut statement| statement.exists([]));
    found.unwrap_or(true)
}

/// Plans a statement once: SQLite would look at its values too, and prepare a cached statement anew for other ones.
fn plan_once(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

fn is_out_of_reach(error: &rusqlite::Error) -> bool {
    use ErrorCode::{CannotOpen, ReadOnly};
    matches!(error.sqlite_error_code(), Some(CannotOpen | ReadOnly))
}

/// Spells a path so that it can stand in a URI.
fn escaped(path: &Path) -> Result<String, SqliteError> {
    let text = path.to_str().ok_or_else(|| SqliteError::Io {
        doing: "open",
        path: path.to_owned(),
        source: std::io::Error::other("the path is not UTF-8"),
    })?;
    Ok(text
        .replace('%', "%25")
        .replace('?', "%3f")
        .replace('#', "%23"))
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::super::schema;
    use super::super::spans::{IN_ORDER, PLACED_COLUMNS, at, between};
    use super::*;

    #[test]
    fn a_cached_statement_is_prepared_once() {
        let directory = tempfile::tempdir().unwrap();
        let location = Location {
            directory: directory.path().to_owned(),
        };
        let mut writer = location.connect_to_write(None).unwrap();
        schema::migrate(&mut writer, &location).unwrap();
        let reader = location.connect_to_read().unwrap();
        let page = between!("?2 + 1", "?3");
        for connection in [&writer, &reader] {
            for (query, values) in [
                (
                    format!(
                        "SELECT chain FROM placed WHERE stream = ?1 AND {}",
                        at!("?2")
                    ),
                    2,
                ),
                (
                    format!(
                        "SELECT {PLACED_COLUMNS} FROM placed WHERE stream = ?1 AND {page} {IN_ORDER} LIMIT ?4"
                    ),
                    4,
                ),
            ] {
                let mut statement = connection.prepare(&query).unwrap();
                for value in 1..5 {
                    let values = rusqlite::params_from_iter(vec![value; values]);
                    assert!(!statement.exists(values).unwrap());
                }
                let again = statement.get_status(StatementStatus::RePrepare);
                assert_eq!(again, 0, "{query}");
            }
        }
    }
}
