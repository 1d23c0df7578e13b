//! Copying the database while it is used.
//!
//! SQLite copies, from one state that it keeps in view until the copy is done, so writers go on and the copy is that state
//! exactly. It is made beside its place and gets its name when it is whole, durable and looked at: a backup that is there is a
//! whole one. It is a data directory of its own: a store opens on it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use chrono::{SecondsFormat, Utc};
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::SqliteStore;
use super::counter::Count;
use super::error::{Fault, SqliteError};
use super::inspect::{damage, read_identity};
use super::manifest::{DATABASE, FORMAT, Manifest};
use super::schema;
use super::staging::{
    FileTrouble, MARK, Staging, above, beside, copy, location, measure, private, put_counter,
    sync_directory,
};

/// How many pages are copied between two words about it.
const PAGES: i32 = 1024;

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// Something is there already.
    #[error("{} is there already; name a directory that is not", .0.display())]
    Exists(PathBuf),
    /// What was copied is damaged.
    #[error(
        "the database is damaged ({}), so no backup was made; save what can be read with an export (`windlass store export`)",
        .0.join("; ")
    )]
    Damaged(Vec<String>),
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileTrouble),
    /// The store cannot be read, or another backup is being made there.
    #[error(transparent)]
    Store(#[from] SqliteError),
}

/// How far a backup is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupProgress {
    /// How many pages were copied.
    pub done: u64,
    /// How many there are.
    pub total: u64,
}

/// What a backup holds.
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
    /// Makes a backup in a directory that is not there yet, with files of the host that belong to it. Others go on writing.
    pub async fn back_up(
        &self,
        destination: impl Into<PathBuf>,
        files: Vec<PathBuf>,
        progress: impl FnMut(BackupProgress) + Send + 'static,
    ) -> Result<BackupReport, BackupError> {
        let destination = destination.into();
        let done = self.inner.readers.read(move |reader| {
            // The pool knows no errors but its own.
            Ok(back_up(reader, &destination, &files, progress))
        });
        done.await.map_err(SqliteError::from)?
    }
}

fn back_up(
    reader: &Connection,
    destination: &Path,
    files: &[PathBuf],
    progress: impl FnMut(BackupProgress),
) -> Result<BackupReport, BackupError> {
    if !is_free(destination) {
        return Err(BackupError::Exists(destination.to_owned()));
    }
    let staging = Staging::make(beside(destination, "backup-in-progress"))?;
    let (count, schema) = copy_database(reader, staging.path(), progress)?;
    let database = measure(&staging.path().join(DATABASE))?;
    let bytes = database.bytes;
    let mut members = [(DATABASE.to_owned(), database.into())]
        .into_iter()
        .collect::<std::collections::BTreeMap<_, _>>();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let copied = copy(file, &staging.path().join(&*name))?;
        members.insert(name.into_owned(), copied.into());
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

/// Tells whether a backup can get this name: nothing is there, or an empty directory.
fn is_free(destination: &Path) -> bool {
    match fs::symlink_metadata(destination) {
        Err(error) => error.kind() == ErrorKind::NotFound,
        Ok(_) => fs::read_dir(destination)
            .is_ok_and(|mut entries| entries.next().is_none() && !destination.is_symlink()),
    }
}

/// Copies what a reader sees at this moment; returns who the database is, and the version of its tables.
fn copy_database(
    reader: &Connection,
    directory: &Path,
    mut progress: impl FnMut(BackupProgress),
) -> Result<(Count, u32), BackupError> {
    let fault = |error: rusqlite::Error| SqliteError::from(Fault::from(error));
    let path = directory.join(DATABASE);
    private()
        .open(&path)
        .map_err(FileTrouble::of("make", &path))?;
    let seen = reader.unchecked_transaction().map_err(fault)?;
    let identity = read_identity(&seen).map_err(SqliteError::from)?;
    let identity = identity.ok_or_else(|| location(directory).cut_off())?;
    let schema = schema::version(&seen).map_err(SqliteError::from)?;

    let mut target = Connection::open(&path).map_err(fault)?;
    // A copy that is cut off is thrown away whole, and its end is synced by the one who measures it.
    for (pragma, value) in [("journal_mode", "MEMORY"), ("synchronous", "OFF")] {
        target.pragma_update(None, pragma, value).map_err(fault)?;
    }
    {
        let backup = Backup::new(&seen, &mut target).map_err(fault)?;
        loop {
            match backup.step(PAGES).map_err(fault)? {
                StepResult::Done => break,
                StepResult::More => {}
                _ => {
                    let why = "another program holds the database; stop it, then try again";
                    return Err(SqliteError::Unavailable(why.to_owned()).into());
                }
            }
            let pages = backup.progress();
            let count = |pages: i32| u64::try_from(pages).unwrap_or(0);
            progress(BackupProgress {
                done: count(pages.pagecount - pages.remaining),
                total: count(pages.pagecount),
            });
        }
    }
    drop(seen);
    // One file without a log, which can be read where nothing can be written.
    target
        .pragma_update(None, "journal_mode", "DELETE")
        .map_err(fault)?;
    let findings = damage(&target);
    target.close().map_err(|(_, error)| fault(error))?;
    match findings.is_empty() {
        true => Ok((
            Count {
                database: identity.database,
                commits: identity.commits,
            },
            schema,
        )),
        false => Err(BackupError::Damaged(findings)),
    }
}

fn put_in_place(staging: Staging, destination: &Path) -> Result<(), BackupError> {
    staging.sync()?;
    // A directory that is not empty by now is not replaced.
    fs::rename(staging.path(), destination).map_err(FileTrouble::of("make", destination))?;
    let _owner = staging.keep();
    for name in [MARK, "windlass.lock"] {
        let path = destination.join(name);
        fs::remove_file(&path).map_err(FileTrouble::of("remove", &path))?;
    }
    sync_directory(destination)?;
    Ok(sync_directory(above(destination))?)
}
