//! Replaces a data directory by a backup: completely, or not at all.
//!
//! The backup is copied to a directory next to the target, compared with its manifest and verified. Then the file system exchanges the two
//! directories in one step, so a killed process leaves one or the other. The previous content stays under a separate name. A directory that is the
//! root of a file system cannot be exchanged. It is filled in place if it contains no database, and the database is written last.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use chrono::Utc;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::manifest::{DATABASE, FORMAT, Manifest, Unreadable};
use super::staging::{
    MARK, Staging, above, beside, copy, is_unfinished, put_counter, sync_directory,
};
use crate::durable::chain::ChainKey;
use crate::sqlite::error::{DbError, SqliteError};
use crate::sqlite::open::commit_counter::CommitCount;
use crate::sqlite::open::connect::Location;
use crate::sqlite::open::inspect::{check_version, has_database, read_identity};
use crate::sqlite::open::owner::DirectoryLock;
use crate::sqlite::open::schema;
use crate::sqlite::options::SqliteOptions;
use crate::sqlite::verify::verify_report::Finding;
use crate::sqlite::{SqliteStore, run_blocking};

/// Reasons for a failed restore.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The directory contains no manifest.
    #[error(
        "{} is no backup: it contains no backup.json, which `windlass store backup` writes. Use a copy of a data directory \
         directly, with --data; put a database alone into an empty directory as windlass.db",
        .0.display()
    )]
    NotABackup(PathBuf),
    /// Another version of Windlass created the backup.
    #[error(
        "{} was made by another version ({what}); nothing was changed. Use the Windlass that has made it, or a newer one",
        path.display()
    )]
    OtherVersion {
        path: PathBuf,
        /// Which versions there are.
        what: String,
    },
    /// A file of the backup was changed.
    #[error("the backup {} is damaged: {what}; nothing was changed. Take another backup", path.display())]
    Changed {
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The database of the backup is inconsistent.
    #[error(
        "the backup {} does not verify ({}); nothing was changed. Take another backup",
        path.display(),
        findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    )]
    Unsound {
        path: PathBuf,
        /// The first findings.
        findings: Vec<Finding>,
    },
    /// The directory cannot be exchanged in one step.
    #[error(
        "{} cannot be replaced in one step ({source}); nothing was changed. Move its contents to another directory and restore \
         again, or restore into a directory that does not exist", path.display()
    )]
    CannotExchange {
        /// The data directory.
        path: PathBuf,
        source: io::Error,
    },
    /// The data directory is in use, or the copy cannot be opened.
    #[error(transparent)]
    Store(#[from] SqliteError),
}

/// A file of the host that belongs to its data.
#[derive(Debug, Clone)]
pub struct HostFile {
    /// Its name in the data directory and in the backup.
    pub name: String,
    /// The preferred one if both have it.
    pub prefer: Prefer,
}

/// The preferred file if both have one. If only one has it, that one is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefer {
    /// The file of the backup.
    Backup,
    /// The file that exists in the data directory.
    Present,
}

/// Source, target and keys of a restore.
#[derive(Debug, Clone)]
pub struct RestoreOptions {
    /// Directory of the backup.
    pub from: PathBuf,
    /// The data directory; it need not be there.
    pub into: PathBuf,
    /// The files that the host expects. A backup with others is from another version.
    pub host_files: Vec<HostFile>,
    /// The chain key, if the database was created with one.
    pub chain_key: Option<ChainKey>,
}

/// The steps of a restore. The process may be killed after each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreStep {
    /// The data directory is locked against other writers.
    Locked,
    /// A directory for the copy was created.
    Started,
    /// The backup was copied.
    Copied,
    /// The host files and the commit counter were added.
    Completed,
    /// The copy was verified.
    Verified,
    /// The copy is durable.
    Synced,
    /// The copy has its final path.
    InPlace,
    /// The previous content has a separate name.
    FormerMoved,
}

impl RestoreStep {
    /// All steps in order.
    pub const ALL: [Self; 8] = [
        Self::Locked,
        Self::Started,
        Self::Copied,
        Self::Completed,
        Self::Verified,
        Self::Synced,
        Self::InPlace,
        Self::FormerMoved,
    ];
}

/// The result of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreReport {
    /// When the backup was made.
    pub made_at: String,
    /// How many commits the database has seen.
    pub commits: u64,
    /// How many records were verified.
    pub records: u64,
    /// The chosen origin of each host file, by name.
    pub taken: Vec<(String, Prefer)>,
    /// The directory with the previous content.
    pub former: Option<PathBuf>,
}

/// Replaces an unused data directory by a backup; calls `step` after each step.
pub async fn restore(
    options: RestoreOptions,
    mut step: impl FnMut(RestoreStep) + Send + 'static,
) -> Result<RestoreReport, RestoreError> {
    let chain_key = options.chain_key.clone();
    let (prepared, mut step) = run_blocking(move || {
        let prepared = Prepared::make(options, &mut step)?;
        Ok::<_, RestoreError>((prepared, step))
    })
    .await?;
    let mut opening = SqliteOptions::new(prepared.staging.path());
    opening.chain_key = chain_key;
    let store = SqliteStore::open_read_only(opening).await?;
    let verified = store.verify().await?;
    store.close().await;
    if !verified.findings.is_empty() {
        let findings = verified.findings.into_iter().take(5).collect();
        let path = prepared.from;
        return Err(RestoreError::Unsound { path, findings });
    }
    step(RestoreStep::Verified);
    let records = verified.records;
    run_blocking(move || prepared.put_in_place(records, &mut step)).await
}

/// How the copy gets to the target path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The target does not exist.
    Rename,
    /// The target is exchanged with the copy.
    Exchange,
    /// The target is the root of a file system and contains no database.
    Fill,
}

/// A copy next to the target, complete and not yet verified.
struct Prepared {
    from: PathBuf,
    into: PathBuf,
    way: Way,
    staging: Staging,
    /// The lock of the existing directory.
    owner: Option<DirectoryLock>,
    manifest: Manifest,
    taken: Vec<(String, Prefer)>,
}

impl Prepared {
    fn make(
        options: RestoreOptions,
        step: &mut impl FnMut(RestoreStep),
    ) -> Result<Self, RestoreError> {
        let manifest = look_at(&options.from, &options.host_files)?;
        // If the path is a symbolic link, its target is exchanged, not the link.
        let into = options.into.canonicalize().unwrap_or(options.into);
        let make = |path: &Path| {
            fs::create_dir_all(path).map_err(SqliteError::io("make the directory", path))
        };
        make(above(&into))?;
        let (way, owner) = match fs::symlink_metadata(&into) {
            Err(error) if error.kind() == ErrorKind::NotFound => (Way::Rename, None),
            Err(source) => return Err(SqliteError::io("look at", &into)(source).into()),
            Ok(found) if !found.is_dir() => {
                let what = io::Error::from(ErrorKind::NotADirectory);
                return Err(SqliteError::io("restore into", &into)(what).into());
            }
            Ok(found) => {
                let owner = DirectoryLock::take(&Location::new(&into))?;
                (way_into(&into, found.dev())?, Some(owner))
            }
        };
        step(RestoreStep::Locked);
        let staging = match way {
            Way::Fill => into.join("windlass.restore-in-progress"),
            Way::Rename | Way::Exchange => beside(&into, "restore-in-progress"),
        };
        recover_former(&staging, &into)?;
        let staging = Staging::create(staging)?;
        step(RestoreStep::Started);
        let mut prepared = Self {
            from: options.from,
            into,
            way,
            staging,
            owner,
            manifest,
            taken: Vec::new(),
        };
        prepared.copy_member(DATABASE)?;
        step(RestoreStep::Copied);
        for host_file in &options.host_files {
            prepared.take(host_file)?;
        }
        prepared.count()?;
        step(RestoreStep::Completed);
        Ok(prepared)
    }

    /// Copies a file of the backup and compares it with the manifest.
    fn copy_member(&self, name: &str) -> Result<(), RestoreError> {
        let copied = copy(&self.from.join(name), &self.staging.path().join(name))?;
        let expected = self.manifest.files.get(name);
        if expected == Some(&copied) {
            Ok(())
        } else {
            Err(RestoreError::Changed {
                path: self.from.clone(),
                what: format!("{name} was changed since"),
            })
        }
    }

    fn take(&mut self, host_file: &HostFile) -> Result<(), RestoreError> {
        let name = &host_file.name;
        let present = self.into.join(name);
        let is_present = self.way != Way::Rename && fs::symlink_metadata(&present).is_ok();
        let is_in_backup = self.manifest.files.contains_key(name);
        let origin = match (is_present, is_in_backup) {
            (false, false) => return Ok(()),
            (true, true) => host_file.prefer,
            (true, false) => Prefer::Present,
            (false, true) => Prefer::Backup,
        };
        match (origin, self.way) {
            (Prefer::Backup, _) => self.copy_member(name)?,
            // The file stays in the target directory.
            (Prefer::Present, Way::Fill) => {}
            (Prefer::Present, _) => {
                copy(&present, &self.staging.path().join(name))?;
            }
        }
        self.taken.push((name.clone(), origin));
        Ok(())
    }

    /// Writes a commit counter into the copy, so that a later loss of commits is detected.
    fn count(&self) -> Result<(), RestoreError> {
        let at = Location::new(self.staging.path());
        let reader = at.connect_to_read().map_err(SqliteError::from)?;
        let found = match check_version(&at, &reader) {
            Err(DbError::Store(SqliteError::NewerSchema { found, .. })) => {
                return Err(self.newer(found));
            }
            found => found.map_err(SqliteError::from)?,
        };
        let identity = read_identity(&reader).map_err(SqliteError::from)?;
        let changed = |what: &str| RestoreError::Changed {
            path: self.from.clone(),
            what: what.to_owned(),
        };
        let identity = identity.ok_or_else(|| changed("its database is empty"))?;
        if identity.commits != self.manifest.commits || found != self.manifest.schema {
            return Err(changed("backup.json belongs to another database"));
        }
        let count = CommitCount {
            database: identity.database,
            commits: identity.commits,
        };
        Ok(put_counter(self.staging.path(), count)?)
    }

    fn newer(&self, found: u32) -> RestoreError {
        RestoreError::OtherVersion {
            path: self.from.clone(),
            what: schema_words(found),
        }
    }

    fn put_in_place(
        self,
        records: u64,
        step: &mut impl FnMut(RestoreStep),
    ) -> Result<RestoreReport, RestoreError> {
        self.staging.sync()?;
        step(RestoreStep::Synced);
        let Self {
            into,
            way,
            staging,
            owner,
            manifest,
            mut taken,
            ..
        } = self;
        let path = staging.path().to_owned();
        match way {
            Way::Rename => fs::rename(&path, &into).map_err(SqliteError::io("make", &into))?,
            Way::Exchange => exchange(&path, &into)?,
            Way::Fill => fill(&path, &into)?,
        }
        // From now on the previous content may be under the name of the copy.
        let _new_owner = staging.keep();
        sync_directory(&into)?;
        sync_directory(above(&into))?;
        step(RestoreStep::InPlace);
        let former = match way {
            Way::Exchange => move_former(&path, &into, &taken)?,
            Way::Rename => None,
            Way::Fill => {
                fs::remove_dir_all(&path).map_err(SqliteError::io("remove", &path))?;
                None
            }
        };
        drop(owner);
        remove_mark(&into)?;
        step(RestoreStep::FormerMoved);
        taken.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(RestoreReport {
            made_at: manifest.made_at,
            commits: manifest.commits,
            records,
            taken,
            former,
        })
    }
}

/// Reads the manifest of a backup, and rejects unknown contents.
fn look_at(from: &Path, host_files: &[HostFile]) -> Result<Manifest, RestoreError> {
    let other_version = |what: String| RestoreError::OtherVersion {
        path: from.to_owned(),
        what,
    };
    let manifest = Manifest::read(from).map_err(|unreadable| match unreadable {
        Unreadable::Missing => RestoreError::NotABackup(from.to_owned()),
        Unreadable::Form(form) => other_version(format!(
            "its form is {form}, and this program knows {FORMAT}"
        )),
        Unreadable::Other(why) => RestoreError::Changed {
            path: from.to_owned(),
            what: format!("backup.json cannot be read: {why}"),
        },
    })?;
    if manifest.schema > schema::VERSION {
        return Err(other_version(schema_words(manifest.schema)));
    }
    let is_known = |name: &String| {
        name == DATABASE || host_files.iter().any(|host_file| host_file.name == *name)
    };
    match manifest.files.keys().find(|name| !is_known(name)) {
        Some(name) => Err(other_version(format!(
            "it holds {name:?}, which this program does not know"
        ))),
        None => Ok(manifest),
    }
}

fn schema_words(found: u32) -> String {
    format!(
        "its schema version is {found}, and this program knows up to {}",
        schema::VERSION
    )
}

fn way_into(into: &Path, device: u64) -> Result<Way, RestoreError> {
    let parent = into.join("..");
    let parent = fs::metadata(&parent).map_err(SqliteError::io("look at", &parent))?;
    if parent.dev() == device {
        // Otherwise a later restore would take it for an unfinished copy and delete its content.
        remove_mark(into)?;
        return Ok(Way::Exchange);
    }
    if !has_database(&Location::new(into))? {
        Ok(Way::Fill)
    } else {
        Err(RestoreError::CannotExchange {
            path: into.to_owned(),
            source: io::Error::other("it is the root of a file system"),
        })
    }
}

fn remove_mark(directory: &Path) -> Result<(), SqliteError> {
    let mark = directory.join(MARK);
    match fs::remove_file(&mark) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(SqliteError::io("remove", &mark)(error)),
        Ok(()) => sync_directory(directory),
    }
}

/// Renames the previous content if a restore was killed right after the exchange and left it under the name of the copy.
fn recover_former(staging: &Path, into: &Path) -> Result<(), RestoreError> {
    if fs::symlink_metadata(staging).is_ok() && !is_unfinished(staging) {
        move_former(staging, into, &[])?;
    }
    Ok(())
}

fn exchange(staging: &Path, into: &Path) -> Result<(), RestoreError> {
    let exchanged = renameat_with(CWD, staging, CWD, into, RenameFlags::EXCHANGE);
    exchanged.map_err(|error| RestoreError::CannotExchange {
        path: into.to_owned(),
        source: error.into(),
    })
}

/// Moves the files of the copy into a directory without a database. The database is moved last, except for its counter, which may be missing. Until
/// the database is moved, nothing was restored.
fn fill(staging: &Path, into: &Path) -> Result<(), RestoreError> {
    let entries = fs::read_dir(staging).map_err(SqliteError::io("read", staging))?;
    let names: Result<Vec<_>, _> = entries
        .map(|entry| Ok(entry?.file_name()))
        .collect::<io::Result<_>>();
    let mut names = names.map_err(SqliteError::io("read", staging))?;
    names.retain(|name| *name != MARK && *name != "windlass.lock");
    let late = ["windlass.db", "windlass.commits"];
    names.sort_by_key(|name| {
        late.iter()
            .position(|late| name == late)
            .map_or(0, |at| at + 1)
    });
    for name in names {
        let target = into.join(&name);
        fs::rename(staging.join(&name), &target).map_err(SqliteError::io("make", &target))?;
    }
    Ok(())
}

/// Renames the previous content to a descriptive name, or removes it if it was empty.
fn move_former(
    former: &Path,
    into: &Path,
    taken: &[(String, Prefer)],
) -> Result<Option<PathBuf>, RestoreError> {
    let entries = fs::read_dir(former).map_err(SqliteError::io("read", former))?;
    let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
    let is_taken = |name: &OsString| {
        let mut present = taken
            .iter()
            .filter(|(_, origin)| *origin == Prefer::Present);
        name == "windlass.lock" || present.any(|(taken, _)| name == taken.as_str())
    };
    // An unreadable entry is content.
    let holds_something = { names }.any(|name| !name.is_ok_and(|name| is_taken(&name)));
    if !holds_something {
        fs::remove_dir_all(former).map_err(SqliteError::io("remove", former))?;
        return Ok(None);
    }
    let name = into.file_name().unwrap_or_default().to_string_lossy();
    let time = Utc::now().format("%Y%m%dT%H%M%S%3fZ");
    let aside = above(into).join(format!("{name}.before-restore-{time}"));
    fs::rename(former, &aside).map_err(SqliteError::io("keep", former))?;
    sync_directory(above(into))?;
    Ok(Some(aside))
}
