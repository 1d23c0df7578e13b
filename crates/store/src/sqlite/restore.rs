//! Putting a backup in the place of a data directory: whole, or not at all.
//!
//! It is copied beside its place, compared with what it says of itself and verified, and then the two directories are
//! exchanged in one step of the file system; a process that is killed at any moment leaves the one or the other. What was there
//! before is kept under a name of its own. A directory that is the root of a file system cannot be exchanged: it is filled in
//! place, if there is no database in it, and the database is the last to come.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use chrono::Utc;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::counter::Count;
use super::error::{Fault, SqliteError};
use super::findings::Finding;
use super::inspect::{check_version, has_database, read_identity};
use super::manifest::{DATABASE, FORMAT, Manifest, Member, Unreadable};
use super::options::SqliteOptions;
use super::owner::Owner;
use super::staging::{
    FileTrouble, MARK, Staging, above, beside, copy, is_unfinished, location, put_counter,
    sync_directory,
};
use super::{SqliteStore, schema};
use crate::durable::chain::ChainKey;

/// Why nothing was restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// It is something else.
    #[error(
        "{} is no backup: there is no backup.json in it, as `windlass store backup` writes it. A copy of a data directory is \
         used as it is, with --data; a database alone is put into an empty directory as windlass.db",
        .0.display()
    )]
    NotABackup(PathBuf),
    /// Another version has made it.
    #[error(
        "{} was made by another version ({what}); nothing was changed. Use the Windlass that has made it, or a newer one",
        path.display()
    )]
    OtherVersion {
        /// The backup.
        path: PathBuf,
        /// Which versions there are.
        what: String,
    },
    /// A file of it is not as it was when the backup was made.
    #[error("the backup {} is damaged: {what}; nothing was changed. Take another backup", path.display())]
    Changed {
        /// The backup.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// What is in it does not fit together.
    #[error(
        "the backup {} does not verify ({}); nothing was changed. Take another backup",
        path.display(),
        findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    )]
    Unsound {
        /// The backup.
        path: PathBuf,
        /// What is wrong, the first of it.
        findings: Vec<Finding>,
    },
    /// The directory cannot be exchanged in one step.
    #[error(
        "{} cannot be replaced in one step ({source}); nothing was changed. Move what is in it to another place and restore \
         again, or restore into a directory that is not there yet", path.display()
    )]
    CannotExchange {
        /// The data directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileTrouble),
    /// The data directory is in use, or the copy cannot be opened.
    #[error(transparent)]
    Store(#[from] SqliteError),
}

/// A file of the host that belongs to its data.
#[derive(Debug, Clone)]
pub struct HostFile {
    /// Its name in the data directory and in the backup.
    pub name: String,
    /// Which one is taken where both have it.
    pub prefer: Prefer,
}

/// Whose file is taken where both have one; the other's where only that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefer {
    /// The one of the backup.
    Backup,
    /// The one that is there.
    Present,
}

/// What is restored.
#[derive(Debug, Clone)]
pub struct RestoreOptions {
    /// The backup.
    pub from: PathBuf,
    /// The data directory; it need not be there.
    pub into: PathBuf,
    /// The files that the host knows. A backup with others in it is of another version.
    pub host_files: Vec<HostFile>,
    /// The key of the chain of digests, where the database was made with one.
    pub chain_key: Option<ChainKey>,
}

/// How far a restore is. After each of these the process may be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreStep {
    /// Nobody else writes to the data directory.
    Locked,
    /// A directory for the copy was made.
    Begun,
    /// The backup was copied.
    Copied,
    /// What belongs to it was added.
    Completed,
    /// It was verified.
    Verified,
    /// It is durable.
    Synced,
    /// It is in its place.
    InPlace,
    /// What was there before has a name of its own.
    KeptAside,
}

impl RestoreStep {
    /// All of them, in order.
    pub const ALL: [Self; 8] = [
        Self::Locked,
        Self::Begun,
        Self::Copied,
        Self::Completed,
        Self::Verified,
        Self::Synced,
        Self::InPlace,
        Self::KeptAside,
    ];
}

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreReport {
    /// When the backup was made.
    pub made_at: String,
    /// How many commits the database has seen.
    pub commits: u64,
    /// How many records were verified.
    pub records: u64,
    /// Whose files were taken, by name.
    pub taken: Vec<(String, Prefer)>,
    /// Where that is what was there before.
    pub former: Option<PathBuf>,
}

/// Puts a backup in the place of a data directory that nobody uses; `step` hears of each step.
pub async fn restore(
    options: RestoreOptions,
    mut step: impl FnMut(RestoreStep) + Send + 'static,
) -> Result<RestoreReport, RestoreError> {
    let chain_key = options.chain_key.clone();
    let (prepared, mut step) = blocking(move || {
        let prepared = Prepared::make(options, &mut step)?;
        Ok((prepared, step))
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
    blocking(move || prepared.put_in_place(records, &mut step)).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RestoreError> + Send + 'static,
) -> Result<T, RestoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| SqliteError::Unavailable(error.to_string()))?
}

/// How the copy gets to its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Nothing is there.
    Rename,
    /// A directory is there, and is exchanged.
    Exchange,
    /// A root of a file system is there, without a database.
    Fill,
}

/// A copy beside its place, complete and not yet verified.
struct Prepared {
    from: PathBuf,
    into: PathBuf,
    way: Way,
    staging: Staging,
    /// The lock of the directory that is there.
    owner: Option<Owner>,
    manifest: Manifest,
    taken: Vec<(String, Prefer)>,
}

impl Prepared {
    fn make(
        options: RestoreOptions,
        step: &mut impl FnMut(RestoreStep),
    ) -> Result<Self, RestoreError> {
        let manifest = look_at(&options.from, &options.host_files)?;
        // Behind a link stands the directory that is exchanged, not the link.
        let into = options.into.canonicalize().unwrap_or(options.into);
        let make = |path: &Path| {
            fs::create_dir_all(path).map_err(FileTrouble::of("make the directory", path))
        };
        make(above(&into))?;
        let (way, owner) = match fs::symlink_metadata(&into) {
            Err(error) if error.kind() == ErrorKind::NotFound => (Way::Rename, None),
            Err(source) => return Err(FileTrouble::of("look at", &into)(source).into()),
            Ok(found) if !found.is_dir() => {
                let what = io::Error::from(ErrorKind::NotADirectory);
                return Err(FileTrouble::of("restore into", &into)(what).into());
            }
            Ok(found) => {
                let owner = Owner::take(&location(&into))?;
                (way_into(&into, found.dev())?, Some(owner))
            }
        };
        step(RestoreStep::Locked);
        let staging = match way {
            Way::Fill => into.join("windlass.restore-in-progress"),
            Way::Rename | Way::Exchange => beside(&into, "restore-in-progress"),
        };
        set_former_aside(&staging, &into)?;
        let staging = Staging::make(staging)?;
        step(RestoreStep::Begun);
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

    /// Copies a file of the backup and compares it with what was written there.
    fn copy_member(&self, name: &str) -> Result<(), RestoreError> {
        let copied = copy(&self.from.join(name), &self.staging.path().join(name))?;
        let expected = self.manifest.files.get(name);
        match expected == Some(&Member::from(copied)) {
            true => Ok(()),
            false => Err(RestoreError::Changed {
                path: self.from.clone(),
                what: format!("{name} was changed since"),
            }),
        }
    }

    fn take(&mut self, host_file: &HostFile) -> Result<(), RestoreError> {
        let name = &host_file.name;
        let present = self.into.join(name);
        let is_present = self.way != Way::Rename && fs::symlink_metadata(&present).is_ok();
        let is_in_backup = self.manifest.files.contains_key(name);
        let whose = match (is_present, is_in_backup) {
            (false, false) => return Ok(()),
            (true, true) => host_file.prefer,
            (true, false) => Prefer::Present,
            (false, true) => Prefer::Backup,
        };
        match (whose, self.way) {
            (Prefer::Backup, _) => self.copy_member(name)?,
            // It stays where it is.
            (Prefer::Present, Way::Fill) => {}
            (Prefer::Present, _) => {
                copy(&present, &self.staging.path().join(name))?;
            }
        }
        self.taken.push((name.clone(), whose));
        Ok(())
    }

    /// Says in the copy how many commits it holds, so that later ones are missed when they are lost.
    fn count(&self) -> Result<(), RestoreError> {
        let at = location(self.staging.path());
        let reader = at.connect_to_read().map_err(SqliteError::from)?;
        let found = match check_version(&at, &reader) {
            Err(Fault::Store(SqliteError::NewerSchema { found, .. })) => {
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
        let count = Count {
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
            Way::Rename => fs::rename(&path, &into).map_err(FileTrouble::of("make", &into))?,
            Way::Exchange => exchange(&path, &into)?,
            Way::Fill => fill(&path, &into)?,
        }
        // From now on the name of the copy may be that of what was there before.
        let _new_owner = staging.keep();
        sync_directory(&into)?;
        sync_directory(above(&into))?;
        step(RestoreStep::InPlace);
        let former = match way {
            Way::Exchange => keep_aside(&path, &into, &taken)?,
            Way::Rename => None,
            Way::Fill => {
                fs::remove_dir_all(&path).map_err(FileTrouble::of("remove", &path))?;
                None
            }
        };
        drop(owner);
        remove_mark(&into)?;
        step(RestoreStep::KeptAside);
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

/// Reads what a backup says of itself, and refuses what this program does not know.
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
    let parent = fs::metadata(&parent).map_err(FileTrouble::of("look at", &parent))?;
    if parent.dev() == device {
        // Were it taken for an unfinished copy later, what is in it would be lost.
        remove_mark(into)?;
        return Ok(Way::Exchange);
    }
    match has_database(&location(into))? {
        false => Ok(Way::Fill),
        true => Err(RestoreError::CannotExchange {
            path: into.to_owned(),
            source: io::Error::other("it is the root of a file system"),
        }),
    }
}

fn remove_mark(directory: &Path) -> Result<(), FileTrouble> {
    let mark = directory.join(MARK);
    match fs::remove_file(&mark) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(FileTrouble::of("remove", &mark)(error)),
        Ok(()) => sync_directory(directory),
    }
}

/// A restore that was killed right after the exchange left what was there before under the name of the copy.
fn set_former_aside(staging: &Path, into: &Path) -> Result<(), RestoreError> {
    if fs::symlink_metadata(staging).is_ok() && !is_unfinished(staging) {
        keep_aside(staging, into, &[])?;
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

/// Moves the files of the copy into a directory without a database. The database is the last one but its counter, which may
/// be missing: until it is there, nothing was restored.
fn fill(staging: &Path, into: &Path) -> Result<(), RestoreError> {
    let entries = fs::read_dir(staging).map_err(FileTrouble::of("read", staging))?;
    let names: Result<Vec<_>, _> = entries
        .map(|entry| Ok(entry?.file_name()))
        .collect::<io::Result<_>>();
    let mut names = names.map_err(FileTrouble::of("read", staging))?;
    names.retain(|name| *name != MARK && *name != "windlass.lock");
    let late = ["windlass.db", "windlass.commits"];
    names.sort_by_key(|name| {
        late.iter()
            .position(|late| name == late)
            .map_or(0, |at| at + 1)
    });
    for name in names {
        let target = into.join(&name);
        fs::rename(staging.join(&name), &target).map_err(FileTrouble::of("make", &target))?;
    }
    Ok(())
}

/// Gives what was there before a name that says so; where it held nothing, it goes.
fn keep_aside(
    former: &Path,
    into: &Path,
    taken: &[(String, Prefer)],
) -> Result<Option<PathBuf>, RestoreError> {
    let entries = fs::read_dir(former).map_err(FileTrouble::of("read", former))?;
    let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
    let is_taken = |name: &OsString| {
        let mut present = taken.iter().filter(|(_, whose)| *whose == Prefer::Present);
        name == "windlass.lock" || present.any(|(taken, _)| name == taken.as_str())
    };
    // What cannot be read is something.
    let holds_something = { names }.any(|name| !name.is_ok_and(|name| is_taken(&name)));
    if !holds_something {
        fs::remove_dir_all(former).map_err(FileTrouble::of("remove", former))?;
        return Ok(None);
    }
    let name = into.file_name().unwrap_or_default().to_string_lossy();
    let time = Utc::now().format("%Y%m%dT%H%M%S%3fZ");
    let aside = above(into).join(format!("{name}.before-restore-{time}"));
    fs::rename(former, &aside).map_err(FileTrouble::of("keep", former))?;
    sync_directory(above(into))?;
    Ok(Some(aside))
}
