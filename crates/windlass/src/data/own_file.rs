//! Reads small files in directories that other users may write to. Symlinks, pipes, large files and files of other users are rejected, and nothing
//! blocks.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Maximum size of a file, in bytes.
pub(crate) const MAX_BYTES: u64 = 1024 * 1024;

/// Why a file was rejected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileRejected {
    #[error("it is a symlink to {}", .0.display())]
    Link(PathBuf),
    #[error("it is not a regular file")]
    NotRegular,
    #[error("it belongs to another user (uid {0})")]
    OtherOwner(u32),
    #[error("it is larger than {MAX_BYTES} bytes")]
    TooLarge,
    #[error("it is outside of the directory")]
    Outside,
    #[error("it is not UTF-8 text")]
    NotText,
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

#[derive(Debug)]
pub(crate) struct OwnFile {
    pub(crate) text: String,
    /// The permission bits.
    pub(crate) mode: u32,
}

/// Reads a regular file of the current user; `None` if it does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<OwnFile>, FileRejected> {
    let Some((file, metadata)) = open(path)? else {
        return Ok(None);
    };
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(FileRejected::OtherOwner(metadata.uid()));
    }
    Ok(Some(OwnFile {
        text: text(file)?,
        mode: metadata.mode() & 0o777,
    }))
}

/// Reads a regular file of any owner; `None` if it does not exist.
pub(crate) fn read_regular(path: &Path) -> Result<Option<String>, FileRejected> {
    match open(path)? {
        Some((file, _)) => text(file).map(Some),
        None => Ok(None),
    }
}

fn open(path: &Path) -> Result<Option<(File, Metadata)>, FileRejected> {
    // Opening a pipe would block until another process writes to it.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        // `ENOTDIR`: a parent is a file, so the path does not exist either.
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(Errno::LOOP | Errno::MLINK) => {
            return Err(FileRejected::Link(fs::read_link(path).unwrap_or_default()));
        }
        Err(Errno::NXIO) => return Err(FileRejected::NotRegular),
        Err(error) => return Err(io::Error::from(error).into()),
    };
    let metadata = file.metadata()?;
    if metadata.is_file() {
        Ok(Some((file, metadata)))
    } else {
        Err(FileRejected::NotRegular)
    }
}

/// Reads a file that the user named explicitly, without these checks except the size.
pub(crate) fn read_named(path: &Path) -> Result<String, FileRejected> {
    text(File::open(path)?)
}

fn text(file: File) -> Result<String, FileRejected> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(FileRejected::TooLarge);
    }
    String::from_utf8(bytes).map_err(|_| FileRejected::NotText)
}
