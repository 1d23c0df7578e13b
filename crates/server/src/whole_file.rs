//! Small files of the data directory that are changed beside a daemon that runs: under a lock, and replaced as a whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use uuid::Uuid;

/// The bits of a mode by which others than the owner may write.
const OF_OTHERS: u32 = 0o022;

/// Tells one content of a file from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileVersion {
    inode: u64,
    modified: (i64, i64),
    length: u64,
}

impl FileVersion {
    /// Looks at a file; `None` where there is none to be looked at.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let of = fs::metadata(path).ok()?;
        Some(Self {
            inode: of.ino(),
            modified: (of.mtime(), of.mtime_nsec()),
            length: of.len(),
        })
    }
}

/// Reads a file that nobody else can have written; `None` where there is none. What stands in it decides who may do what.
pub(crate) fn read_own(path: &Path) -> io::Result<Option<String>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let found = file.metadata()?;
    let (owner, user) = (found.uid(), rustix::process::geteuid().as_raw());
    if (owner != user && owner != 0) || found.mode() & OF_OTHERS != 0 {
        return Err(io::Error::other(format!(
            "others can write it (it belongs to uid {owner}, with the mode {:o}), so that it counts for nothing",
            found.mode() & 0o777
        )));
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Opens a file that only its owner can read, and makes it where it is missing.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    options.open(path)
}

/// Puts a whole file in the place of another, durably.
pub(crate) fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension(format!("new-{}", Uuid::new_v4().simple()));
    let written = open_private(&fresh).and_then(|mut file| {
        file.write_all(contents)?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    written?;
    let directory = path.parent().unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}
