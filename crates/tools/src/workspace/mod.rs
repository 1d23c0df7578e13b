//! The directory of a call, accessed through a handle.
//!
//! Every path is resolved by the system below the handle of the environment's root, and links are followed only while they stay there. A name that is
//! replaced by a link during the call can make a step fail, but cannot make it leave the root.

mod atomic_file;
mod change;
mod error;
mod ignored;
mod links;
mod locks;
mod path;
mod read;
mod root;
mod walk;

use std::io;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{Dir, DirEntry};

pub(crate) use change::{FileChange, MAX_CHANGED_BYTES, write_new};
pub use error::FileError;
pub(crate) use ignored::IgnoreRules;
pub(crate) use locks::lock as lock_name;
pub(crate) use path::{MAX_DEPTH, TEMPORARY_PREFIX, is_temporary};
pub(crate) use read::{OpenFile, is_binary};
pub(crate) use walk::{FileWalk, WalkEnd, WalkedFile};

use links::LinkError;

use crate::environments::{Environment, EnvironmentError, Policy};
use windlass_process::Hidden;

/// An environment for one call: its open root, its working directory and its policy.
#[derive(Debug)]
pub struct ResolvedWorkspace {
    id: String,
    root: Dir,
    root_path: PathBuf,
    /// Base of relative paths, relative to the root.
    cwd: PathBuf,
    policy: Policy,
    hidden: Arc<Hidden>,
}

impl ResolvedWorkspace {
    pub(crate) fn open(
        environment: &Environment,
        cwd: &Path,
        policy: Policy,
        hidden: Hidden,
    ) -> Result<Self, EnvironmentError> {
        let id = environment.id().to_owned();
        let root_path = environment.root().to_owned();
        let root = root::open(&root_path);
        let root = root.map_err(|source| EnvironmentError::RootNotFound {
            root: root_path.clone(),
            source,
        })?;
        let requested = root_path.join(cwd);
        let missing = |source| EnvironmentError::CwdNotFound {
            id: id.clone(),
            cwd: requested.clone(),
            source,
        };
        let resolved = requested.canonicalize().map_err(missing)?;
        let Ok(inside) = resolved.strip_prefix(&root_path) else {
            return Err(EnvironmentError::CwdOutsideRoot { id, cwd: requested });
        };
        // Opened again below the root's handle, where a link that appeared meanwhile cannot lead out.
        let directory = root.open_dir(path::or_dot(inside)).map_err(missing)?;
        // Directories above the root are also above this directory, so this check covers the root too.
        if hidden.covers(&directory).map_err(missing)? {
            return Err(EnvironmentError::Hidden {
                id,
                path: requested,
            });
        }
        Ok(Self {
            cwd: inside.to_owned(),
            id,
            root,
            root_path,
            policy,
            hidden: Arc::new(hidden),
        })
    }

    /// Returns the ID of the environment.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    #[must_use]
    pub fn root(&self) -> &Dir {
        &self.root
    }

    /// Returns the root's path on the host.
    #[must_use]
    pub fn root_path(&self) -> &Path {
        &self.root_path
    }

    /// Returns the working directory as a path on the host.
    #[must_use]
    pub fn cwd(&self) -> PathBuf {
        self.root_path.join(&self.cwd)
    }

    /// Returns the permissions of the call.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Returns the paths that the host hides.
    pub(crate) fn hidden(&self) -> &Arc<Hidden> {
        &self.hidden
    }

    /// Resolves a model's path: relative to the working directory, or absolute and inside the root. The result is relative to the root.
    pub(crate) fn inside(&self, path: &str) -> Result<PathBuf, FileError> {
        path::inside(&self.root_path, &self.cwd, path)
    }

    /// Returns the real path, with all links followed.
    pub(crate) fn canonical(&self, path: &Path) -> Result<PathBuf, FileError> {
        links::resolve_links(&self.root, path, &self.hidden).map_err(|error| match error {
            LinkError::Hidden => self.hidden_error(path),
            LinkError::Io(source) => self.failure("find", path, source),
        })
    }

    /// Opens a directory. Whether it is hidden is checked on the handle, whatever happens to names meanwhile.
    pub(crate) fn open_directory(&self, path: &Path) -> Result<Dir, FileError> {
        let failure = |source| self.failure("open", path, source);
        let opened = self.root.open_dir(path::or_dot(path)).map_err(failure)?;
        if self.hidden.covers(&opened).map_err(failure)? {
            Err(self.hidden_error(path))
        } else {
            Ok(opened)
        }
    }

    /// Returns whether an entry of a directory is hidden. Metadata is read only for entries that may be.
    pub(crate) fn hides(&self, entry: &DirEntry) -> bool {
        self.hidden.may_be(entry.ino())
            && entry
                .metadata()
                .is_ok_and(|metadata| self.hidden.is_hidden(&metadata))
    }

    pub(crate) fn hidden_error(&self, path: &Path) -> FileError {
        let path = self.shown(path);
        FileError::Hidden { path }
    }

    /// Formats a path below the root so that the model can use it again.
    pub(crate) fn shown(&self, path: &Path) -> String {
        path::shown(&self.root_path, &self.cwd, path)
    }

    pub(crate) fn failure(&self, doing: &'static str, path: &Path, source: io::Error) -> FileError {
        FileError::io(doing, self.shown(path), source)
    }
}
