//! The user's home directory, of which programs see only what is opened.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_process::{Bounds, Confinement};

use super::home_programs::{of_path, of_program};

/// The file of a repository, or of a worktree of one.
const GIT: &str = ".git";
/// How long the file of a worktree may be.
const MAX_WORKTREE_FILE: u64 = 8 * 1024;

/// Why a path of the home cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum HomePathError {
    /// It lies elsewhere, or is the home itself.
    #[error("{} does not lie inside of the home directory {}", path.display(), home.display())]
    Outside {
        /// The path.
        path: PathBuf,
        /// The home.
        home: PathBuf,
    },
}

/// What programs may do with an opened path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HomeAccess {
    /// Read it and run what is in it.
    Read,
    /// Change it too.
    Write,
}

/// The user's home directory. Programs get an empty home of their own in its place, with the paths that are opened here.
#[derive(Debug, Clone)]
pub struct UserHome {
    /// Links resolved.
    path: PathBuf,
    /// Further homes of the user that are hidden as well.
    others: Vec<PathBuf>,
    /// Inside of the home, links resolved when they were opened.
    opened: Vec<(PathBuf, HomeAccess)>,
}

impl UserHome {
    /// `None` if there is no such directory, or if it is `/`.
    #[must_use]
    pub fn new(path: &Path) -> Option<Self> {
        let path = real_directory(path)?;
        Some(Self {
            path,
            others: Vec::new(),
            opened: Vec::new(),
        })
    }

    /// Hides a further home of the user, such as that of the account where `HOME` names another.
    pub fn also(&mut self, path: &Path) {
        let real = real_directory(path).filter(|real| *real != self.path);
        self.others.extend(real);
    }

    /// Opens a path, which begins with `~/` or lies inside of the home. One that does not exist is left out: a link that a
    /// command makes there later must not be followed.
    pub fn open(&mut self, path: &Path, access: HomeAccess) -> Result<(), HomePathError> {
        let named = match path.strip_prefix("~") {
            Ok(inside) => self.path.join(inside),
            Err(_) => self.path.join(path),
        };
        let outside = || HomePathError::Outside {
            path: path.to_owned(),
            home: self.path.clone(),
        };
        let Ok(real) = named.canonicalize() else {
            return match named.starts_with(&self.path) {
                true => Ok(()),
                false => Err(outside()),
            };
        };
        if !real.starts_with(&self.path) || real == self.path {
            return Err(outside());
        }
        self.opened.push((real, access));
        Ok(())
    }

    /// Opens the directories of a `PATH` that lie in the home, with the libraries and toolchains that their programs need.
    pub fn open_programs(&mut self, path: &str) {
        let found = of_path(&self.path, path).into_iter();
        self.opened
            .extend(found.map(|path| (path, HomeAccess::Read)));
    }

    /// Returns where it is, links resolved.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the opened paths, each with its access.
    pub fn opened(&self) -> impl Iterator<Item = (&Path, HomeAccess)> {
        let opened = self.opened.iter();
        opened.map(|(path, access)| (path.as_path(), *access))
    }

    /// Hides the home from a program, but for what is opened and the repository that the root lies in.
    pub(super) fn hide(&self, bounds: &mut Bounds) {
        let homes = [&self.path].into_iter().chain(&self.others);
        // A root that holds a home shows it: there, only the usual places of keys are hidden.
        let hidden: Vec<_> = homes
            .filter(|home| !home.starts_with(&bounds.root))
            .map(PathBuf::as_path)
            .collect();
        for (path, access) in self.still_opened(&bounds.root) {
            match access {
                // Above the root, it would decide whether the root can be changed.
                HomeAccess::Write if !bounds.root.starts_with(&path) => {
                    bounds.also_writable.push(path);
                }
                HomeAccess::Read | HomeAccess::Write => bounds.also_seen.push(path),
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
            .also_seen
            .extend(repository.filter(|path| is_hidden(path)));
        bounds.hidden = Arc::new(bounds.hidden.with(hidden));
    }

    /// Returns the opened paths that lead where they led when they were opened. Inside of what commands may change, one could be replaced by
    /// a link to anything.
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

    /// Opens what one program needs that lies in the home, by its path or by its name in a `PATH`.
    pub fn open_program(&self, bounds: &mut Bounds, path: &str, program: &Path) {
        if self.path.starts_with(&bounds.root) {
            return;
        }
        let hidden = bounds.hidden.places().iter();
        let keys: Vec<_> = hidden
            .filter(|hidden| !self.path.starts_with(hidden))
            .cloned()
            .collect();
        let needed = of_program(&self.path, &keys, path, program).into_iter();
        bounds.also_seen.extend(needed);
    }

    /// Returns the home that a program has in place of the user's: in bubblewrap an empty directory at the same path, elsewhere one in the
    /// directory for its temporary files, with links to what is opened.
    pub(super) fn private(
        &self,
        confinement: Confinement,
        bounds: &Bounds,
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
        let opened = bounds.also_seen.iter().chain(&bounds.also_writable);
        let mut opened: Vec<_> = opened.filter(|path| path.starts_with(&self.path)).collect();
        opened.sort();
        for path in opened {
            let link = private.join(path.strip_prefix(&self.path).unwrap_or(path));
            // What lies inside of an opened directory is there already.
            if link.ancestors().skip(1).all(|above| !above.is_symlink()) && !link.is_symlink() {
                fs::create_dir_all(link.parent().unwrap_or(&private))?;
                symlink(path, &link)?;
            }
        }
        Ok(Some(private))
    }
}

fn real_directory(path: &Path) -> Option<PathBuf> {
    let real = path.is_absolute().then(|| path.canonicalize().ok())??;
    (real.is_dir() && real != Path::new("/")).then_some(real)
}

/// Returns the repository that a directory lies in, below its top.
fn repository_around(root: &Path) -> Option<PathBuf> {
    let mut above = root.ancestors().skip(1);
    let found = above.find(|above| above.join(GIT).symlink_metadata().is_ok());
    found.map(Path::to_owned)
}

/// Returns the `.git` directory of the repository that a worktree belongs to. The worktree's file may say anything, so the repository has to
/// name the worktree too.
fn repository_of_worktree(root: &Path) -> Option<PathBuf> {
    let file = root.join(GIT);
    let own = read_small(&file)?;
    let named = root
        .join(own.trim_end().strip_prefix("gitdir: ")?)
        .canonicalize()
        .ok()?;
    let worktrees = named.parent().filter(|it| it.ends_with("worktrees"))?;
    let back = read_small(&named.join("gitdir"))?;
    (Path::new(back.trim_end()) == file).then(|| worktrees.parent().map(Path::to_owned))?
}

fn read_small(path: &Path) -> Option<String> {
    let metadata = path.symlink_metadata().ok()?;
    let is_small = metadata.is_file() && metadata.len() <= MAX_WORKTREE_FILE;
    is_small.then(|| fs::read_to_string(path).ok())?
}
