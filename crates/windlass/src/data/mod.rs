//! The data directory.

pub(crate) mod modes;
pub(crate) mod own_file;
pub(crate) mod private_file;

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::Access;
use windlass_core::bounds::one_line;

use crate::cli::{note, printable};
use crate::config::FILE;

/// Permission bit: other users can write.
const WRITABLE_BY_OTHERS: u32 = 0o002;

/// Files that identify a data directory without a store. The files of a store are recognized by their prefix.
const OWN_FILES: [&str; 11] = [
    "approvals.json",
    "approvals.lock",
    "approvals.new",
    "daemon.sock",
    "secrets.key",
    "token",
    "tokens.json",
    "tokens.lock",
    "tokens.new",
    "trusted.json",
    "trusted.lock",
];
/// Subdirectories of a data directory. They do not identify one, because other directories have such names too.
const OWN_DIRECTORIES: [&str; 3] = ["checkpoints", "outputs", "processes"];
/// The homes of agents, which an operator may prepare before the first start.
const AGENT_HOMES: &str = "backends";
/// Files that occur in any directory.
const NEUTRAL_FILES: [&str; 3] = [".gitignore", ".gitkeep", "lost+found"];

/// Returns `named`, or the user's default directory.
pub(crate) fn directory(named: Option<PathBuf>) -> Result<PathBuf> {
    named
        .or_else(user_default)
        .context("there is no data directory: name one with --data or WINDLASS_DATA, or set HOME")
}

/// Returns the user's default directory, if the user has one.
pub(crate) fn user_default() -> Option<PathBuf> {
    // Relative paths are ignored: they depend on the current directory, which another user may own.
    let path = |name: &str| {
        set_path(name)
            .map(PathBuf::from)
            .filter(|it| it.is_absolute())
    };
    let home = || path("HOME").map(|home| home.join(".local/state"));
    let state = path("XDG_STATE_HOME").or_else(home);
    state.map(|state| state.join("windlass"))
}

/// Returns the directory that is used if the command line names none.
pub(crate) fn default_directory() -> Option<PathBuf> {
    set_path("WINDLASS_DATA")
        .map(PathBuf::from)
        .or_else(user_default)
}

fn set_path(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns whether a directory contains a store. An unreadable directory is an error, because it may contain one.
pub(crate) fn has_store(directory: &Path) -> Result<bool> {
    // Only SQLite opens the file; this checks whether the name exists.
    match fs::metadata(directory.join("windlass.db")) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| {
            format!(
                "the data directory {} cannot be read; make it readable for this user, or name another with --data",
                printable(directory)
            )
        }),
    }
}

/// Creates the directory if it does not exist, with access only for its owner. An unusable directory is an error, and nothing is changed.
pub(crate) fn create(directory: &Path) -> Result<()> {
    let shown = printable(directory);
    check(directory)?;
    if let Ok(target) = fs::read_link(directory) {
        note(format!(
            "the data directory {shown} is a symlink; {} is used",
            printable(&directory.canonicalize().unwrap_or(target))
        ));
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .with_context(|| {
            format!("cannot create the data directory {shown}; name another with --data")
        })?;
    modes::make_private(directory);
    check_owner(directory)?;
    rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK).with_context(|| {
        format!("this user cannot write to the data directory {shown}; nothing was changed. Name another with --data")
    })?;
    keep_out_of_git(directory);
    Ok(())
}

/// Rejects a directory that belongs to another user or contains other files; nothing is changed. A missing directory is accepted.
pub(crate) fn check(directory: &Path) -> Result<()> {
    let shown = printable(directory);
    if let Ok(target) = fs::read_link(directory)
        && !directory.exists()
    {
        bail!(
            "the data directory {shown} is a symlink to {}, which does not exist; create it, or name another with --data",
            printable(&target)
        );
    }
    if fs::metadata(directory).is_ok_and(|metadata| !metadata.is_dir()) {
        bail!(
            "cannot create the data directory {shown}: a file has that name; name another with --data"
        );
    }
    match inspect(directory) {
        DirectoryContents::OtherFile(name) => bail!(
            "{shown} is not a data directory of Windlass: it contains `{name}`; name an empty or new directory with --data"
        ),
        DirectoryContents::Empty | DirectoryContents::Data | DirectoryContents::Unreadable => {
            Ok(())
        }
    }
}

/// The contents of a directory.
pub(crate) enum DirectoryContents {
    /// It is empty or does not exist.
    Empty,
    Data,
    /// The name of a file that is not part of Windlass.
    OtherFile(String),
    /// It cannot be read.
    Unreadable,
}

/// Inspects a directory.
pub(crate) fn inspect(directory: &Path) -> DirectoryContents {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return DirectoryContents::Empty,
        Err(_) => return DirectoryContents::Unreadable,
    };
    let names = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names: Vec<_> = names
        .filter(|name| !NEUTRAL_FILES.contains(&name.as_str()))
        .collect();
    // A project's `windlass.toml` has the same prefix, but is not part of the data.
    let is_of_store = |name: &String| name.starts_with("windlass.") && name != FILE;
    if names.iter().any(is_of_store) {
        return DirectoryContents::Data;
    }
    let is_own = |name: &str| OWN_FILES.contains(&final_name(name)) || name == AGENT_HOMES;
    let has_own = names.iter().any(|name| is_own(name));
    let is_own_directory = |name: &str| has_own && OWN_DIRECTORIES.contains(&name);
    let mut foreign = names
        .iter()
        .filter(|name| !is_own(name) && !is_own_directory(name));
    match foreign.next() {
        Some(other) => DirectoryContents::OtherFile(one_line(other).into_owned()),
        None if names.is_empty() => DirectoryContents::Empty,
        None => DirectoryContents::Data,
    }
}

/// Returns the final name of a temporary file that an interrupted write may have left.
fn final_name(name: &str) -> &str {
    let bare = name.strip_prefix('.').unwrap_or(name);
    bare.rsplit_once('-').map_or(name, |(name, _)| name)
}

/// Checks the owner and mode of the directory: another user with write access could place any file in it, including tokens and sockets.
pub(crate) fn check_owner(directory: &Path) -> Result<()> {
    let shown = printable(directory);
    let metadata = fs::metadata(directory).with_context(|| format!("cannot inspect {shown}"))?;
    let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
    // This applies to root too: the owner of the directory could create tokens that root's daemon would accept.
    if owner != user && owner != 0 {
        bail!(
            "the data directory {shown} belongs to another user (uid {owner}); name your own with --data, or run this as that user"
        );
    }
    if metadata.mode() & WRITABLE_BY_OTHERS != 0 {
        bail!(
            "all users can write to the data directory {shown}; name your own with --data, or run `chmod 700 {shown}`"
        );
    }
    Ok(())
}

/// Adds a `.gitignore`, so that tokens and conversations are not committed by accident. If the directory is the root of a repository, it only warns.
fn keep_out_of_git(directory: &Path) {
    let Ok(directory) = directory.canonicalize() else {
        return;
    };
    let is_repository = |directory: &&Path| directory.join(".git").symlink_metadata().is_ok();
    let Some(repository) = directory.ancestors().find(is_repository) else {
        return;
    };
    let ignore = directory.join(".gitignore");
    if repository != directory && ignore.symlink_metadata().is_ok() {
        return;
    }
    let (shown, repository_shown) = (printable(&directory), printable(repository));
    if repository == directory {
        note(format!(
            "the data directory {shown} is in the git repository {repository_shown}: do not commit it, or name another with \
             --data"
        ));
        return;
    }
    match fs::write(&ignore, "*\n") {
        Ok(()) => note(format!(
            "the data directory {shown} is in the git repository {repository_shown}: its .gitignore excludes it"
        )),
        Err(error) => note(format!("cannot write {}: {error}", printable(&ignore))),
    }
}
