//! Files and directories identified by device and inode.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use cap_fs_ext::MetadataExt;
use rustix::fs::{CWD, Mode, OFlags, fstat, openat};

/// Maximum number of parent directories; more are treated as a cycle.
const MAX_ABOVE: usize = 4096;
/// Flags to open a file only for identification. On Linux the file is not opened for reading, which its locks would notice.
#[cfg(target_os = "linux")]
pub(crate) const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
pub(crate) const PATH_ONLY: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC);

/// A file or directory, independent of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub(crate) dev: u64,
    pub(crate) ino: u64,
}

impl Identity {
    pub(crate) fn from_metadata(metadata: &impl MetadataExt) -> Self {
        let (dev, ino) = (metadata.dev(), metadata.ino());
        Self { dev, ino }
    }

    /// Returns the target of a path, if it exists.
    pub(super) fn at(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self::from_metadata(&metadata))
    }

    pub(crate) fn from_open(file: impl AsFd) -> io::Result<Self> {
        let stat = fstat(file)?;
        // The type differs on other systems.
        let dev = stat.st_dev as u64;
        Ok(Self {
            dev,
            ino: stat.st_ino,
        })
    }
}

/// An open file or directory, so that its inode cannot be reused.
#[derive(Debug)]
pub(super) struct Pinned {
    identity: Identity,
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "only Linux reports its name")
    )]
    handle: OwnedFd,
}

impl Pinned {
    pub(super) fn open(path: &Path) -> Option<Self> {
        let handle = openat(CWD, path, PATH_ONLY, Mode::empty()).ok()?;
        let identity = Identity::from_open(&handle).ok()?;
        Some(Self { identity, handle })
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    /// Returns its current path, if it still has a name.
    pub(super) fn path(&self) -> Option<PathBuf> {
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd;
            let link = format!("/proc/self/fd/{}", self.handle.as_raw_fd());
            let path = std::fs::read_link(link).ok()?;
            (Identity::at(&path) == Some(self.identity)).then_some(path)
        }
        #[cfg(not(target_os = "linux"))]
        None
    }
}

/// Returns whether an open directory, or any directory above it, satisfies the predicate.
pub(super) fn any_above(
    directory: BorrowedFd<'_>,
    is_meant: impl Fn(Identity) -> bool,
) -> io::Result<bool> {
    let top = Identity::at(Path::new("/"));
    let mut here = Identity::from_open(directory)?;
    let mut above: Option<OwnedFd> = None;
    for _ in 0..MAX_ABOVE {
        if is_meant(here) {
            return Ok(true);
        }
        let from = above.as_ref().map_or(directory, AsFd::as_fd);
        let next = openat(from, "..", PATH_ONLY | OFlags::DIRECTORY, Mode::empty())?;
        let identity = Identity::from_open(&next)?;
        // A directory can be mounted inside itself, so only the topmost directory is its own parent.
        if identity == here && Some(here) == top {
            return Ok(false);
        }
        (here, above) = (identity, Some(next));
    }
    Err(io::Error::other("the path has too many parent directories"))
}
