//! Files and directories as the system knows them: by device and inode.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use cap_fs_ext::MetadataExt;
use cap_std::fs::Metadata;
use rustix::fs::{CWD, Mode, OFlags, fstat, openat};

/// How many directories may lie above one; more is taken for a circle.
const MAX_ABOVE: usize = 4096;
/// How something is opened that is only looked at: on Linux without being read, which a file's locks would notice.
#[cfg(target_os = "linux")]
pub(crate) const LOOK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
pub(crate) const LOOK: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC);

/// A file or directory, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub(crate) dev: u64,
    pub(crate) ino: u64,
}

impl Identity {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        let (dev, ino) = (metadata.dev(), metadata.ino());
        Self { dev, ino }
    }

    /// Returns what a path leads to, if it leads anywhere.
    pub(super) fn at(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        let (dev, ino) = (metadata.dev(), metadata.ino());
        Some(Self { dev, ino })
    }

    pub(crate) fn of_open(file: impl AsFd) -> io::Result<Self> {
        let stat = fstat(file)?;
        // Other systems have another type here.
        let dev = stat.st_dev as u64;
        Ok(Self {
            dev,
            ino: stat.st_ino,
        })
    }
}

/// Something that is held open, so that its inode is given to nobody else.
#[derive(Debug)]
pub(super) struct Pinned {
    identity: Identity,
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "only Linux tells its name")
    )]
    handle: OwnedFd,
}

impl Pinned {
    pub(super) fn open(path: &Path) -> Option<Self> {
        let handle = openat(CWD, path, LOOK, Mode::empty()).ok()?;
        let identity = Identity::of_open(&handle).ok()?;
        Some(Self { identity, handle })
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    /// Returns where it is now, if it still has a name.
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

/// Tells whether an open directory, or any above it, is meant.
pub(super) fn any_above(
    directory: BorrowedFd<'_>,
    is_meant: impl Fn(Identity) -> bool,
) -> io::Result<bool> {
    let top = Identity::at(Path::new("/"));
    let mut here = Identity::of_open(directory)?;
    let mut above: Option<OwnedFd> = None;
    for _ in 0..MAX_ABOVE {
        if is_meant(here) {
            return Ok(true);
        }
        let from = above.as_ref().map_or(directory, AsFd::as_fd);
        let next = openat(from, "..", LOOK | OFlags::DIRECTORY, Mode::empty())?;
        let identity = Identity::of_open(&next)?;
        // A directory can be mounted inside of itself: only the top of everything is its own parent.
        if identity == here && Some(here) == top {
            return Ok(false);
        }
        (here, above) = (identity, Some(next));
    }
    Err(io::Error::other("it lies too deep"))
}
