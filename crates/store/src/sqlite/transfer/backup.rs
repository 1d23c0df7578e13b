//! Online backup of the database.
//!
//! SQLite copies one state, which it holds in a read transaction until the copy is done. Writers continue, and the copy is exactly that state,
//! without free pages. It is created in a directory next to the target, and gets its name when it is complete, durable and checked. So an existing
//! backup is a complete one. A backup is a data directory: a store can open it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use chrono::{SecondsFormat, Utc};
use rusqlite::{Connection, ErrorCode};

use super::manifest::{DATABASE, FORMAT, Manifest};
use super::staging::{
    MARK, Staging, above, beside, copy, measure, private, put_counter, sync_directory,
};
use crate::sqlite::SqliteStore;
use crate::sqlite::error::{DbError, SqliteError};
use crate::sqlite::numbers::first_number;
use crate::sqlite::open::commit_counter::CommitCount;
use crate::sqlite::open::connect::Location;
use crate::sqlite::open::inspect::{damage, read_identity};
use crate::sqlite::open::schema;

/// How often progress is measured.
const LOOK: Duration = Duration::from_millis(100);

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The destination exists and is not an empty directory.
    #[error("{} exists already; name a directory that does not exist", .0.display())]
    Exists(PathBuf),
    /// The copy is damaged.
    #[error(
        "the database is damaged ({}), so no backup was made; save what can be read with an export (`windlass store export`)",
        .0.join("; ")
    )]
    Damaged(Vec<String>),
    /// The store cannot be read, or another backup to the same path is running.
    #[error(transparent)]
    Store(#[from] SqliteError),
}

/// How far a backup or a compaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupProgress {
    /// How many pages were written.
    pub done: u64,
    /// How many there are.
    pub total: u64,
}

/// The contents of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupReport {
    /// How many commits the database had seen.
    pub commits: u64,
    /// How many bytes the database has.
    pub bytes: u64,
    /// The names of all files in it.
    pub files: Vec<String>,
}

impl SqliteStore {
    /// Creates a backup in a directory that must not exist yet, with files of the host that belong to it. Writers continue.
    pub async fn back_up(
        &self,
        destination: impl Into<PathBuf>,
        files: Vec<PathBuf>,
        progress: impl FnMut(BackupProgress) + Send + 'static,
    ) -> Result<BackupReport, BackupError> {
        let destination = destination.into();
        // The pool has its own error type, so this result is nested.
        let done = self.read(move |reader| Ok(back_up(reader, &destination, &files, progress)));
        done.await?
    }
}

fn back_up(
    reader: &Connection,
    destination: &Path,
    files: &[PathBuf],
    progress: impl FnMut(BackupProgress) + Send,
) -> Result<BackupReport, BackupError> {
    if !is_free(destination) {
        return Err(BackupError::Exists(destination.to_owned()));
    }
    let staging = Staging::create(beside(destination, "backup-in-progress"))?;
    let (count, schema) = copy_database(reader, staging.path(), progress)?;
    let database = measure(&staging.path().join(DATABASE))?;
    let bytes = database.bytes;
    let mut members = BTreeMap::from([(DATABASE.to_owned(), database)]);
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let copied = copy(file, &staging.path().join(&*name))?;
        members.insert(name.into_owned(), copied);
    }
    put_counter(staging.path(), count)?;
    let report = BackupReport {
        commits: count.commits,
        bytes,
        files: members.keys().cloned().collect(),
    };
    let manifest = Manifest {
        windlass_backup: FORMAT,
        made_by: format!("windlass {}", env!("CARGO_PKG_VERSION")),
        made_at: Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true),
        schema,
        commits: count.commits,
        files: members,
    };
    manifest.write(staging.path())?;
    put_in_place(staging, destination)?;
    Ok(report)
}

/// Returns whether a backup can get this name: the path does not exist or is an empty directory.
fn is_free(destination: &Path) -> bool {
    match fs::symlink_metadata(destination) {
        Err(error) => error.kind() == ErrorKind::NotFound,
        Ok(_) => fs::read_dir(destination)
            .is_ok_and(|mut entries| entries.next().is_none() && !destination.is_symlink()),
    }
}

/// Copies the current snapshot of a reader, without free pages; returns the identity of the database and its schema version.
fn copy_database(
    reader: &Connection,
    directory: &Path,
    progress: impl FnMut(BackupProgress) + Send,
) -> Result<(CommitCount, u32), BackupError> {
    let db_error = |error: rusqlite::Error| SqliteError::from(DbError::from(error));
    let path = directory.join(DATABASE);
    let io_error = |error| SqliteError::io("make", &path)(error);
    let name = path.to_str();
    let name = name.ok_or_else(|| io_error(io::Error::other("the path is not UTF-8")))?;
    private().open(&path).map_err(io_error)?;
    let page_size = pages(reader, "page_size").map_err(db_error)?.max(1);
    let total = pages(reader, "page_count").map_err(db_error)?;
    let total = total.saturating_sub(pages(reader, "freelist_count").map_err(db_error)?);
    let measure = || fs::metadata(&path).map_or(0, |file| file.len() / page_size);
    let copied = with_progress(measure, total, progress, || {
        reader.execute("VACUUM INTO ?1", [name])
    });
    match copied {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
            let mut findings = damage(reader);
            if findings.is_empty() {
                findings.push(error.to_string());
            }
            return Err(BackupError::Damaged(findings));
        }
        copied => copied.map_err(db_error)?,
    };
    let target = Connection::open(&path).map_err(db_error)?;
    // One file without a log, which can be read from a read-only directory.
    target
        .pragma_update(None, "journal_mode", "DELETE")
        .map_err(db_error)?;
    let identity = read_identity(&target).map_err(SqliteError::from)?;
    let identity = identity.ok_or_else(|| Location::new(directory).first_open_interrupted())?;
    let schema = schema::version(&target).map_err(SqliteError::from)?;
    let findings = damage(&target);
    target.close().map_err(|(_, error)| db_error(error))?;
    if findings.is_empty() {
        Ok((
            CommitCount {
                database: identity.database,
                commits: identity.commits,
            },
            schema,
        ))
    } else {
        Err(BackupError::Damaged(findings))
    }
}

fn pages(db: &Connection, pragma: &str) -> rusqlite::Result<u64> {
    db.pragma_query_value(None, pragma, first_number)
}

/// Runs a long statement of SQLite and reports its progress meanwhile.
pub(crate) fn with_progress<T>(
    measure: impl Fn() -> u64 + Send,
    total: u64,
    mut progress: impl FnMut(BackupProgress) + Send,
    work: impl FnOnce() -> T,
) -> T {
    let (end, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let done = measure().min(total);
                progress(BackupProgress { done, total });
            }
        });
        let done = work();
        drop(end);
        done
    })
}

fn put_in_place(staging: Staging, destination: &Path) -> Result<(), BackupError> {
    staging.sync()?;
    // A directory that is not empty by now is not replaced.
    fs::rename(staging.path(), destination).map_err(SqliteError::io("make", destination))?;
    let _owner = staging.keep();
    for name in [MARK, "windlass.lock"] {
        let path = destination.join(name);
        fs::remove_file(&path).map_err(SqliteError::io("remove", &path))?;
    }
    sync_directory(destination)?;
    Ok(sync_directory(above(destination))?)
}
