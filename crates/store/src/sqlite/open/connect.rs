//! The files of a store, and the set-up of connections to its database.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::schema;
use crate::sqlite::error::{DbResult, SqliteError};
use crate::sqlite::numbers::{first_number, first_value};

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
    pub(crate) fn roll_back_first_open(&self) -> DbResult<()> {
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
    pub(crate) fn connect_to_write(&self, max_bytes: Option<u64>) -> DbResult<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        // A new database gets the permissions of the lock file, which exists by now, and the log gets those of the database.
        let uri = format!("{}?modeof={}", uri(&self.database()), escaped(&self.lock()));
        let db = Connection::open_with_flags(uri, flags)?;
        db.busy_timeout(BUSY)?;
        sync_fully(&db)?;
        mark_new_database(&db)?;
        // Savepoint rollback data stays in memory; on disk it would be written twice.
        db.pragma_update(None, "temp_store", "MEMORY")?;
        // The [log](crate::sqlite::write::wal) is normally checkpointed earlier; this handles unusually large commits.
        db.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES * 16)?;
        db.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
        db.set_prepared_statement_cache_capacity(64);
        plan_once(&db)?;
        if let Some(bytes) = max_bytes {
            // A database of an earlier version has smaller pages.
            let page = db.pragma_query_value(None, "page_size", first_number)?;
            let pages = (bytes / page.max(1)).max(1);
            db.pragma_update(None, "max_page_count", pages.cast_signed())?;
        }
        Ok(db)
    }

    /// Opens a connection that rewrites the whole database. It sorts in files, because the data may not fit into memory.
    pub(crate) fn connect_to_compact(&self) -> DbResult<Connection> {
        let db = self.connect_to_write_back()?;
        db.busy_timeout(BUSY)?;
        return_pages(&db)?;
        Ok(db)
    }

    /// Opens a connection for checkpoints. It does not create a missing database.
    pub(crate) fn connect_to_write_back(&self) -> DbResult<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(self.database(), flags)?;
        sync_fully(&db)?;
        Ok(db)
    }

    /// Determines which kind of file is at the database's path, before anything changes it.
    ///
    /// SQLite reads it, opened as immutable. A process that opens and closes the file directly releases the locks of all its connections, and another
    /// program may then remove the log under them.
    pub(crate) fn look(&self) -> DbResult<DatabaseFile> {
        let path = self.database();
        match fs::metadata(&path) {
            Ok(file) if file.is_file() && file.len() == 0 => return Ok(DatabaseFile::Nothing),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(DatabaseFile::Nothing),
            Err(error) => return Err(SqliteError::io("read", &path)(error).into()),
        }
        let db = open_unchanged(&path)?;
        // This setting lets SQLite read a file that is shorter than its header claims.
        db.pragma_update(None, "writable_schema", true)?;
        let id = db.pragma_query_value(None, "application_id", first_value::<i32>);
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
    pub(crate) fn connect_to_read(&self) -> DbResult<Connection> {
        Ok(self.connect_to_look()?.0)
    }

    /// Opens a connection that cannot write, and returns whether it sees later commits of other connections.
    ///
    /// If no file can be created next to a database in WAL mode, it can only be read as immutable. That is correct if the directory is read-only, no
    /// log is left, and no other process writes.
    pub(crate) fn connect_to_look(&self) -> DbResult<(Connection, Freshness)> {
        let path = self.database();
        let mut sees = Freshness::Changes;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(&path, flags)?;
        db.busy_timeout(BUSY)?;
        let db = match probe(&db) {
            Ok(()) => db,
            Err(error) if is_out_of_reach(&error) && self.rollback_journal().exists() => {
                return Err(self.first_open_interrupted().into());
            }
            Err(error) if is_out_of_reach(&error) && !self.log().exists() => {
                sees = Freshness::NoChanges;
                open_unchanged(&path)?
            }
            // A file that is shorter than its header claims can be read only in this mode; it can then be checked and exported.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
                db.pragma_update(None, "writable_schema", true)?;
                probe(&db)?;
                db
            }
            Err(error) => return Err(error.into()),
        };
        db.set_prepared_statement_cache_capacity(32);
        plan_once(&db)?;
        Ok((db, sees))
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
fn mark_new_database(db: &Connection) -> rusqlite::Result<()> {
    let pages = db.pragma_query_value(None, "page_count", first_value::<i64>)?;
    if pages > 0 {
        return Ok(());
    }
    let transaction = db.unchecked_transaction()?;
    return_pages(&transaction)?;
    transaction.pragma_update(None, "application_id", schema::APPLICATION_ID)?;
    transaction.commit()
}

/// Enables the gradual return of free pages to the file system. SQLite applies it to a database without tables, or when it rewrites the whole
/// database.
fn return_pages(db: &Connection) -> rusqlite::Result<()> {
    db.pragma_update(None, "auto_vacuum", "INCREMENTAL")
}

/// Makes a commit survive a power failure, even on systems where fsync does not flush the disk's cache (macOS).
fn sync_fully(db: &Connection) -> rusqlite::Result<()> {
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "fullfsync", true)?;
    db.pragma_update(None, "checkpoint_fullfsync", true)
}

/// Opens a file as immutable.
fn open_unchanged(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(format!("{}?immutable=1", uri(path)), flags)
}

fn probe(db: &Connection) -> rusqlite::Result<()> {
    db.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
}

/// Plans a statement once. Otherwise SQLite also considers its values, and plans a cached statement again for other values.
fn plan_once(db: &Connection) -> rusqlite::Result<()> {
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
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
        let db = location.connect_to_write(None).unwrap();
        let mode = db.pragma_query_value(None, "auto_vacuum", |row| row.get::<_, i64>(0));
        assert_eq!(mode.unwrap(), 2);
        drop(db);
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
        for db in [&writer, &reader] {
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
                let mut statement = db.prepare(&query).unwrap();
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
