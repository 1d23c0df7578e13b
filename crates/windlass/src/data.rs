//! Where the daemon keeps what it must not forget.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::Access;

use crate::cli::{note, printable};

/// What everybody may write to has this bit.
const OF_OTHERS: u32 = 0o002;

/// Returns the directory that was named, else the user's own.
pub(crate) fn directory(named: Option<PathBuf>) -> Result<PathBuf> {
    named.or_else(of_user).context(
        "there is no place for data: name a directory with --data or WINDLASS_DATA, or set HOME",
    )
}

/// Returns the user's own directory, if the user has one.
pub(crate) fn of_user() -> Option<PathBuf> {
    // One that depends on where somebody stands may be anybody's.
    let path = |name: &str| set(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let home = || path("HOME").map(|home| home.join(".local/state"));
    let state = path("XDG_STATE_HOME").or_else(home);
    state.map(|state| state.join("windlass"))
}

/// Returns the directory of somebody who names none on the command line.
pub(crate) fn usual() -> Option<PathBuf> {
    set("WINDLASS_DATA").map(PathBuf::from).or_else(of_user)
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

/// Who owns a directory, or may write to it, can put anything into it, tokens and sockets too.
pub(crate) fn is_own(directory: &Path) -> Result<()> {
    let shown = printable(directory);
    let found = fs::metadata(directory).with_context(|| format!("cannot look at {shown}"))?;
    let (owner, user) = (found.uid(), rustix::process::geteuid().as_raw());
    if user != 0 && owner != user && owner != 0 {
        bail!(
            "the data directory {shown} belongs to another user (uid {owner}); name one of your own with --data"
        );
    }
    if found.mode() & OF_OTHERS != 0 {
        bail!(
            "everybody may write to the data directory {shown}; name one of your own with --data, or run `chmod 700 {shown}`"
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
