//! The files of a store, and the set-up of connections to its database.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::schema;
use crate::sqlite::error::{DbError, SqliteError};
use crate::sqlite::numbers::uint;

/// The number of pages after which the write-ahead log is checkpointed: 2 MiB with SQLite's default page size.
pub(crate) const CHECKPOINT_PAGES: u32 = 512;

/// The size of the file of an empty write-ahead log: twice its usual content.
const LOG_BYTES: u32 = 4 * 1024 * 1024;

/// How long a connection waits for another program, such as a backup.
const BUSY: Duration = Duration::from_secs(5);

/// The files of a store.
#[derive(Debug, Clone)]
pub(crate) struct Location {
    pub(crate) directory: PathBuf,
}

impl Location {
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
        }
    }
    pub(crate) fn database(&self) -> PathBuf {
        self.directory.join("windlass.db")
    }
    pub(crate) fn log(&self) -> PathBuf {
        self.directory.join("windlass.db-wal")
    }
    /// The journal that rolls back an interrupted transaction from before the database had a log.
    fn rollback_journal(&self) -> PathBuf {
        self.directory.join("windlass.db-journal")
    }
    pub(crate) fn lock(&self) -> PathBuf {
        self.directory.join("windlass.lock")
    }
    pub(crate) fn counter(&self) -> PathBuf {
        self.directory.join("windlass.commits")
    }

    /// Rolls back an interrupted first open. This needs the right to write.
    pub(crate) fn roll_back_first_open(&self) -> Result<(), DbError> {
        if !self.rollback_journal().exists() {
            return Ok(());
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        probe(&Connection::open_with_flags(self.database(), flags)?)?;
        Ok(())
    }

    /// Returns the error for an interrupted first open.
    pub(crate) fn first_open_interrupted(&self) -> SqliteError {
        let what = "its first opening was interrupted; open it for writing";
        SqliteError::io("open", &self.database())(io::Error::new(ErrorKind::NotFound, what))
    }

    /// Opens the one connection that writes.
    pub(crate) fn connect_to_write(&self, max_bytes: Option<u64>) -> Result<Connection, DbError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        // A new database has the rights of the lock, which is there by now; its log has those of the database.
        let uri = format!("{}?modeof={}", uri(&self.database()), escaped(&self.lock()));
        let connection = Connection::open_with_flags(uri, flags)?;
        connection.busy_timeout(BUSY)?;
        sync_fully(&connection)?;
        mark_new_database(&connection)?;
        // Savepoint rollback data stays in memory; on disk it would be written twice.
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        // The [log](crate::sqlite::write::wal) is normally checkpointed earlier; this handles unusually large commits.
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES * 16)?;
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

    /// Opens a connection that rewrites the whole database. It sorts in files, because the data may not fit into memory.
    pub(crate) fn connect_to_compact(&self) -> Result<Connection, DbError> {
        let connection = self.connect_to_write_back()?;
        connection.busy_timeout(BUSY)?;
        return_pages(&connection)?;
        Ok(connection)
    }

    /// Opens a connection for checkpoints. It does not create a missing database.
    pub(crate) fn connect_to_write_back(&self) -> Result<Connection, DbError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(self.database(), flags)?;
        sync_fully(&connection)?;
        Ok(connection)
    }

    /// Determines which kind of file is at the database's path, before anything changes it.
    ///
    /// SQLite reads it, opened as immutable. A process that opens and closes the file directly releases the locks of all its connections, and another
    /// program may then remove the log under them.
    pub(crate) fn look(&self) -> Result<DatabaseFile, DbError> {
        let path = self.database();
        match fs::metadata(&path) {
            Ok(file) if file.is_file() && file.len() == 0 => return Ok(DatabaseFile::Nothing),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(DatabaseFile::Nothing),
            Err(error) => return Err(SqliteError::io("read", &path)(error).into()),
        }
        let connection = open_unchanged(&path)?;
        // This setting lets SQLite read a file that is shorter than its header claims.
        connection.pragma_update(None, "writable_schema", true)?;
        let id = connection.pragma_query_value(None, "application_id", |row| row.get::<_, i32>(0));
        match id {
            Ok(schema::APPLICATION_ID) => Ok(DatabaseFile::Ours),
            Ok(_) => Ok(DatabaseFile::Foreign("another program has made it")),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
                Ok(DatabaseFile::Foreign("it is not a SQLite file"))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a connection that cannot write.
    pub(crate) fn connect_to_read(&self) -> Result<Connection, DbError> {
        Ok(self.connect_to_look()?.0)
    }

    /// Opens a connection that cannot write, and returns whether it sees later commits of other connections.
    ///
    /// If no file can be created next to a database in WAL mode, it can only be read as immutable. That is correct if the directory is read-only, no
    /// log is left, and no other process writes.
    pub(crate) fn connect_to_look(&self) -> Result<(Connection, Freshness), DbError> {
        let path = self.database();
        let mut sees = Freshness::Changes;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&path, flags)?;
        connection.busy_timeout(BUSY)?;
        let connection = match probe(&connection) {
            Ok(()) => connection,
            Err(error) if is_out_of_reach(&error) && self.rollback_journal().exists() => {
                return Err(self.first_open_interrupted().into());
            }
            Err(error) if is_out_of_reach(&error) && !self.log().exists() => {
                sees = Freshness::NoChanges;
                open_unchanged(&path)?
            }
            // A file that is shorter than its header claims can be read only in this mode; it can then be checked and exported.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
                connection.pragma_update(None, "writable_schema", true)?;
                probe(&connection)?;
                connection
            }
            Err(error) => return Err(error.into()),
        };
        connection.set_prepared_statement_cache_capacity(32);
        plan_once(&connection)?;
        Ok((connection, sees))
    }
}

/// The kind of file at the path of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatabaseFile {
    Nothing,
    Ours,
    /// Another file, with a description.
    Foreign(&'static str),
}

/// Whether a connection sees commits after its open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freshness {
    Changes,
    NoChanges,
}

/// Writes the first page of a new database. The mode of its free pages and the mark of Windlass are one commit: a database without the
/// mark is refused as one of another program.
fn mark_new_database(connection: &Connection) -> rusqlite::Result<()> {
    let pages = connection.pragma_query_value(None, "page_count", |row| row.get::<_, i64>(0))?;
    if pages > 0 {
        return Ok(());
    }
    let transaction = connection.unchecked_transaction()?;
    return_pages(&transaction)?;
    transaction.pragma_update(None, "application_id", schema::APPLICATION_ID)?;
    transaction.commit()
}

/// Enables the gradual return of free pages to the file system. SQLite applies it to a database without tables, or when it rewrites the whole
/// database.
fn return_pages(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")
}

/// Makes a commit survive a power failure, even on systems where fsync does not flush the disk's cache (macOS).
fn sync_fully(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)
}

/// Opens a file as immutable.
fn open_unchanged(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(format!("{}?immutable=1", uri(path)), flags)
}

fn probe(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
}

/// Plans a statement once. Otherwise SQLite also considers its values, and plans a cached statement again for other values.
fn plan_once(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

fn is_out_of_reach(error: &rusqlite::Error) -> bool {
    use ErrorCode::{CannotOpen, ReadOnly};
    matches!(error.sqlite_error_code(), Some(CannotOpen | ReadOnly))
}

/// Converts a path to a URI. A leading slash must not look like a host name.
fn uri(path: &Path) -> String {
    let host = if path.is_absolute() { "//" } else { "" };
    format!("file:{host}{}", escaped(path))
}

/// Percent-encodes a path for a URI: byte by byte, because a path need not be UTF-8.
fn escaped(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => {
                text.push(char::from(*byte));
            }
            byte => text.push_str(&format!("%{byte:02x}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;
    use crate::sqlite::journal::spans::{IN_ORDER, PLACED_COLUMNS, at, between};
    use crate::sqlite::open::owner::DirectoryLock;
    use crate::sqlite::open::schema;

    /// A process may be killed right after it has opened a new database.
    #[test]
    fn first_commit_marks_a_new_database() {
        let directory = tempfile::tempdir().unwrap();
        let location = Location::new(directory.path());
        let _owner = DirectoryLock::take(&location).unwrap();
        let connection = location.connect_to_write(None).unwrap();
        let mode = connection.pragma_query_value(None, "auto_vacuum", |row| row.get::<_, i64>(0));
        assert_eq!(mode.unwrap(), 2);
        drop(connection);
        assert!(matches!(location.look(), Ok(DatabaseFile::Ours)));
    }

    #[test]
    fn cached_statement_is_prepared_once() {
        let directory = tempfile::tempdir().unwrap();
        let location = Location::new(directory.path());
        let _owner = DirectoryLock::take(&location).unwrap();
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
