//! Where the daemon keeps what it must not forget.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::Access;

use crate::cli::{note, printable};

/// Returns the directory that was named, else the user's own.
pub(crate) fn directory(named: Option<PathBuf>) -> PathBuf {
    named.unwrap_or_else(|| {
        let state = set("XDG_STATE_HOME").map(PathBuf::from);
        let home = || set("HOME").map(|home| PathBuf::from(home).join(".local/state"));
        let state = state.or_else(home).unwrap_or_else(std::env::temp_dir);
        state.join("windlass")
    })
}

/// Returns the directory of somebody who names none on the command line.
pub(crate) fn usual() -> PathBuf {
    directory(set("WINDLASS_DATA").map(PathBuf::from))
}

fn set(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Makes the directory if it is not there; nobody else may look into one that is made. One that cannot be used is named,
/// and nothing is changed.
pub(crate) fn make(directory: &Path) -> Result<()> {
    let shown = printable(directory);
    if let Ok(target) = fs::read_link(directory) {
        if !directory.exists() {
            bail!(
                "the data directory {shown} is a link to {}, which is not there; make it, or name another with --data",
                printable(&target)
            );
        }
        note(&format!(
            "the data directory {shown} is a link; {} is used",
            printable(&directory.canonicalize().unwrap_or(target))
        ));
    }
    let is_new = !directory.exists();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .with_context(|| {
            format!("cannot make the data directory {shown}; name another with --data")
        })?;
    is_own(directory)?;
    rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK).with_context(|| {
        format!("the data directory {shown} cannot be written by this user; nothing was changed. Name another with --data")
    })?;
    keep_out_of_git(directory, is_new);
    Ok(())
}

/// Who owns a directory can put anything into it, tokens too.
fn is_own(directory: &Path) -> Result<()> {
    let found = fs::metadata(directory);
    let owner = found
        .with_context(|| format!("cannot look at {}", printable(directory)))?
        .uid();
    let user = rustix::process::geteuid().as_raw();
    if user != 0 && owner != user && owner != 0 {
        bail!(
            "the data directory {} belongs to another user (uid {owner}); name one of your own with --data",
            printable(directory)
        );
    }
    Ok(())
}

/// Sees to it that nobody commits tokens and conversations by accident.
fn keep_out_of_git(directory: &Path, is_new: bool) {
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
    let holds_others = || {
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        let mut names = entries.map(|entry| entry.file_name());
        names.next().is_some() && !directory.join("windlass.db").exists()
    };
    if repository == directory || (!is_new && holds_others()) {
        note(&format!(
            "the data directory {shown} is in the git repository {repository_shown}: take care that it is not committed, or name \
             another with --data"
        ));
        return;
    }
    match fs::write(&ignore, "*\n") {
        Ok(()) => note(&format!(
            "the data directory {shown} is in the git repository {repository_shown}: its .gitignore keeps it out"
        )),
        Err(error) => note(&format!("cannot write {}: {error}", printable(&ignore))),
    }
}
