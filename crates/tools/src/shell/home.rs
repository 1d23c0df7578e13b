//! The user's home directory, of which programs see only opened paths.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_process::{Confinement, SandboxBounds};

use super::home_programs::{paths_of_path_variable, paths_of_program};

/// Name of a repository's `.git` directory, or of a worktree's `.git` file.
const GIT: &str = ".git";
/// Maximum size of a worktree's `.git` file.
const MAX_WORKTREE_FILE: u64 = 8 * 1024;

/// Why a path of the home cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum HomePathError {
    /// The path is outside the home, or is the home itself.
    #[error("{} is not inside the home directory {}", path.display(), home.display())]
    Outside {
        /// The path as given.
        path: PathBuf,
        /// The home, with links resolved.
        home: PathBuf,
    },
}

/// Access of programs to an opened path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HomeAccess {
    /// Read files and execute programs.
    Read,
    /// Like `Read`, and write.
    Write,
}

/// The user's home directory. Programs get an empty private home in its place, with the paths that are opened here.
#[derive(Debug, Clone)]
pub struct UserHome {
    /// With links resolved.
    path: PathBuf,
    /// Further homes of the user, hidden as well.
    others: Vec<PathBuf>,
    /// Paths inside the home, with links resolved when they were opened.
    opened: Vec<(PathBuf, HomeAccess)>,
}

impl UserHome {
    /// Returns `None` if there is no such directory, or if it is `/`.
    #[must_use]
    pub fn new(path: &Path) -> Option<Self> {
        let path = canonical_directory(path)?;
        Some(Self {
            path,
            others: Vec::new(),
            opened: Vec::new(),
        })
    }

    /// Hides a further home of the user, such as that of the account if `HOME` is another directory.
    pub fn hide_too(&mut self, path: &Path) {
        let real = canonical_directory(path).filter(|real| *real != self.path);
        self.others.extend(real);
    }

    /// Opens a path, which begins with `~/` or is inside the home. A path that does not exist is ignored: a link that a command creates there later
    /// must not be followed.
    pub fn open(&mut self, path: &Path, access: HomeAccess) -> Result<(), HomePathError> {
        let absolute = match path.strip_prefix("~") {
            Ok(inside) => self.path.join(inside),
            Err(_) => self.path.join(path),
        };
        let outside = || HomePathError::Outside {
            path: path.to_owned(),
            home: self.path.clone(),
        };
        let Ok(real) = absolute.canonicalize() else {
            return if absolute.starts_with(&self.path) {
                Ok(())
            } else {
                Err(outside())
            };
        };
        if !real.starts_with(&self.path) || real == self.path {
            return Err(outside());
        }
        self.opened.push((real, access));
        Ok(())
    }

    /// Opens the directories of a `PATH` that are in the home, with the libraries and toolchains that their programs need.
    pub fn open_programs(&mut self, path: &str) {
        let found = paths_of_path_variable(&self.path, path).into_iter();
        self.opened
            .extend(found.map(|path| (path, HomeAccess::Read)));
    }

    /// Returns its path, with links resolved.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the opened paths with their access.
    pub fn opened(&self) -> impl Iterator<Item = (&Path, HomeAccess)> {
        let opened = self.opened.iter();
        opened.map(|(path, access)| (path.as_path(), *access))
    }

    /// Hides the home from a program, except for opened paths and the repository that contains the root.
    pub(super) fn hide(&self, bounds: &mut SandboxBounds) {
        let homes = [&self.path].into_iter().chain(&self.others);
        // A root that contains a home makes it visible; only the usual locations of keys are hidden there.
        let hidden: Vec<_> = homes
            .filter(|home| !home.starts_with(&bounds.root))
            .map(PathBuf::as_path)
            .collect();
        for (path, access) in self.still_opened(&bounds.root) {
            match access {
                // A writable directory above the root would make the root writable too.
                HomeAccess::Write if !bounds.root.starts_with(&path) => {
                    bounds.also_writable.push(path);
                }
                HomeAccess::Read | HomeAccess::Write => bounds.also_readable.push(path),
            }
        }
        let is_hidden = |path: &Path| {
            hidden
                .iter()
                .any(|home| path.starts_with(home) && path != *home)
        };
        let repository =
            repository_around(&bounds.root).or_else(|| repository_of_worktree(&bounds.root));
        bounds
            .also_readable
            .extend(repository.filter(|path| is_hidden(path)));
        bounds.hidden = Arc::new(bounds.hidden.with(hidden));
    }

    /// Returns the opened paths that still have the same target. Inside a writable directory, a command could replace one with a link to anything.
    fn still_opened(&self, root: &Path) -> Vec<(PathBuf, HomeAccess)> {
        let writable = self
            .opened
            .iter()
            .filter(|(_, access)| *access == HomeAccess::Write);
        let writable: Vec<_> = writable.map(|(path, _)| path).collect();
        let is_fixed = |path: &Path| {
            let is_below_writable = writable
                .iter()
                .any(|it| path.starts_with(it) && path != *it);
            !path.starts_with(root)
                && !is_below_writable
                && path.canonicalize().is_ok_and(|real| real == path)
        };
        let opened = self.opened.iter().filter(|(path, _)| is_fixed(path));
        opened.cloned().collect()
    }

    /// Opens the parts of the home that one program needs, given by path or by its name in a `PATH`.
    pub fn open_program(&self, bounds: &mut SandboxBounds, path: &str, program: &Path) {
        if self.path.starts_with(&bounds.root) {
            return;
        }
        let hidden = bounds.hidden.places().iter();
        let keys: Vec<_> = hidden
            .filter(|hidden| !self.path.starts_with(hidden))
            .cloned()
            .collect();
        let needed = paths_of_program(&self.path, &keys, path, program).into_iter();
        bounds.also_readable.extend(needed);
    }

    /// Returns the private home of a program: in bubblewrap an empty directory at the same path, otherwise one in the directory for temporary files,
    /// with links to the opened paths.
    pub(super) fn private(
        &self,
        confinement: Confinement,
        bounds: &SandboxBounds,
        scratch: Option<&Path>,
    ) -> io::Result<Option<PathBuf>> {
        if confinement == Confinement::Bubblewrap {
            let is_hidden = bounds.hidden.places().contains(&self.path);
            return Ok(is_hidden.then(|| self.path.clone()));
        }
        let Some(scratch) = scratch else {
            return Ok(None);
        };
        let private = scratch.join("home");
        fs::create_dir(&private)?;
        let opened = bounds.also_readable.iter().chain(&bounds.also_writable);
        let mut opened: Vec<_> = opened.filter(|path| path.starts_with(&self.path)).collect();
        opened.sort();
        for path in opened {
            let link = private.join(path.strip_prefix(&self.path).unwrap_or(path));
            // Paths inside an opened directory are visible already.
            if link.ancestors().skip(1).all(|above| !above.is_symlink()) && !link.is_symlink() {
                fs::create_dir_all(link.parent().unwrap_or(&private))?;
                symlink(path, &link)?;
            }
        }
        Ok(Some(private))
    }
}

fn canonical_directory(path: &Path) -> Option<PathBuf> {
    let real = path.is_absolute().then(|| path.canonicalize().ok())??;
    (real.is_dir() && real != Path::new("/")).then_some(real)
}

/// Returns the nearest repository above a directory.
fn repository_around(root: &Path) -> Option<PathBuf> {
    let mut above = root.ancestors().skip(1);
    let found = above.find(|above| above.join(GIT).symlink_metadata().is_ok());
    found.map(Path::to_owned)
}

/// Returns the `.git` directory of the repository that a worktree belongs to. The worktree's file is not trusted, so the repository must refer to the
/// worktree too.
fn repository_of_worktree(root: &Path) -> Option<PathBuf> {
    let file = root.join(GIT);
    let own = read_small(&file)?;
    let git_directory = root
        .join(own.trim_end().strip_prefix("gitdir: ")?)
        .canonicalize()
        .ok()?;
    let worktrees = git_directory
        .parent()
        .filter(|it| it.ends_with("worktrees"))?;
    let back = read_small(&git_directory.join("gitdir"))?;
    (Path::new(back.trim_end()) == file).then(|| worktrees.parent().map(Path::to_owned))?
}

fn read_small(path: &Path) -> Option<String> {
    let metadata = path.symlink_metadata().ok()?;
    let is_small = metadata.is_file() && metadata.len() <= MAX_WORKTREE_FILE;
    is_small.then(|| fs::read_to_string(path).ok())?
}
