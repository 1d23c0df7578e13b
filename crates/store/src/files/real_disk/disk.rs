//! The directory on the host, and the look-up of paths in it through handles.
//!
//! Each name on the way is opened relative to the handle of its directory and without following links. A name that is
//! swapped between two steps can make a step fail; it can never make it land elsewhere.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Mutex;

use cap_fs_ext::DirExt;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata};
use windlass_core::error::{AgentLoopError, Result};

use super::error::{self, DiskError, DiskResult};
use crate::files::path::{segments, split_last};
use windlass_core::lock::Shared;

/// Directories above this depth stay open while their contents are processed. Deeper ones are closed and reopened, so that few file descriptors
/// suffice for any depth.
pub(super) const OPEN_LEVELS: usize = 16;

/// One directory of the host, with the state of the store for it.
pub(super) struct DiskRoot {
    pub(super) path: PathBuf,
    pub(super) root: Dir,
    /// The files that the host made read-only through this store.
    pub(super) marks: Shared<BTreeSet<String>>,
    /// Locked during every change, so that its checks remain valid until it is complete.
    pub(super) changing: Mutex<()>,
}

/// The entry at a path.
pub(super) enum DiskEntry {
    Missing,
    /// The path cannot exist, because its ancestor `file` is a file.
    BelowFile {
        file: String,
    },
    Root,
    File(EntryHandle),
    Directory(EntryHandle),
}

/// A name in a directory that is open.
pub(super) struct EntryHandle {
    pub(super) parent: Dir,
    pub(super) name: String,
    pub(super) metadata: Metadata,
}

/// The result of entering a directory.
pub(super) enum DirectoryStep {
    Into(Dir),
    Missing,
    File,
}

impl DiskRoot {
    pub(super) fn open(path: PathBuf) -> Result<Self> {
        let root = Dir::open_ambient_dir(&path, ambient_authority()).map_err(|error| {
            AgentLoopError::config(format!(
                "the root of the files must be an existing directory: {}: {error}",
                path.display()
            ))
        })?;
        Ok(Self {
            path,
            root,
            marks: Shared::default(),
            changing: Mutex::new(()),
        })
    }

    /// Returns whether writes and deletes are rejected: by a mark of this store or by the host's permissions.
    pub(super) fn is_read_only(&self, path: &str, metadata: &Metadata) -> bool {
        metadata.permissions().readonly() || self.marks.read().contains(path)
    }

    /// Finds the entry at a normalised path.
    pub(super) fn find(&self, path: &str) -> DiskResult<DiskEntry> {
        let Some((parent, name)) = split_last(path) else {
            return Ok(DiskEntry::Root);
        };
        let mut directory = self.root_handle(path)?;
        let mut end = 0;
        for segment in segments(parent) {
            end += 1 + segment.len();
            match step(&directory, segment, &path[..end])? {
                DirectoryStep::Into(child) => directory = child,
                DirectoryStep::Missing => return Ok(DiskEntry::Missing),
                DirectoryStep::File => {
                    let file = path[..end].to_owned();
                    return Ok(DiskEntry::BelowFile { file });
                }
            }
        }
        let metadata = match directory.symlink_metadata(name) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(DiskEntry::Missing),
            Err(error) => return Err(error::io("look at", path)(error)),
        };
        let entry = EntryHandle {
            parent: directory,
            name: name.to_owned(),
            metadata,
        };
        if entry.metadata.is_symlink() {
            Err(DiskError::Symlink(path.to_owned()))
        } else if entry.metadata.is_dir() {
            Ok(DiskEntry::Directory(entry))
        } else if entry.metadata.is_file() {
            Ok(DiskEntry::File(entry))
        } else {
            Err(DiskError::NotRegular(path.to_owned()))
        }
    }

    /// Opens the directory at a normalised path; `None` where there is none.
    pub(super) fn open_directory(&self, path: &str) -> DiskResult<Option<Dir>> {
        match self.find(path)? {
            DiskEntry::Missing | DiskEntry::BelowFile { .. } | DiskEntry::File(_) => Ok(None),
            DiskEntry::Root => self.root_handle(path).map(Some),
            DiskEntry::Directory(entry) => entry.open_directory(path),
        }
    }

    /// Returns the directory at a path and creates missing ones.
    pub(super) fn make_directories(&self, path: &str) -> Result<Dir> {
        let mut directory = self.root_handle(path)?;
        let mut end = 0;
        for name in segments(path) {
            end += 1 + name.len();
            let path_here = &path[..end];
            let mut found = step(&directory, name, path_here)?;
            if matches!(found, DirectoryStep::Missing) {
                match directory.create_dir(name) {
                    Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                        return Err(error::io("make the directory", path_here)(error).into());
                    }
                    _ => found = step(&directory, name, path_here)?,
                }
            }
            directory = match found {
                DirectoryStep::Into(child) => child,
                DirectoryStep::File => {
                    return Err(crate::files::rules::below_file(path_here, path));
                }
                DirectoryStep::Missing => {
                    let gone = std::io::Error::from(ErrorKind::NotFound);
                    return Err(error::io("make the directory", path_here)(gone).into());
                }
            };
        }
        Ok(directory)
    }

    pub(super) fn root_handle(&self, path: &str) -> DiskResult<Dir> {
        self.root
            .try_clone()
            .map_err(error::io("open the root for", path))
    }
}

impl EntryHandle {
    /// Opens a directory that was found earlier; `None` if it no longer exists.
    pub(super) fn open_directory(&self, path: &str) -> DiskResult<Option<Dir>> {
        match step(&self.parent, &self.name, path)? {
            DirectoryStep::Into(directory) => Ok(Some(directory)),
            DirectoryStep::Missing | DirectoryStep::File => Ok(None),
        }
    }
}

/// Opens a name as a directory. Only after a failure does it read the kind of the entry, for the error message.
pub(super) fn step(directory: &Dir, name: &str, path: &str) -> DiskResult<DirectoryStep> {
    let failure = match directory.open_dir_nofollow(name) {
        Ok(child) => return Ok(DirectoryStep::Into(child)),
        Err(failure) => failure,
    };
    match directory.symlink_metadata(name) {
        Ok(metadata) if metadata.is_symlink() => Err(DiskError::Symlink(path.to_owned())),
        Ok(metadata) if metadata.is_dir() => Err(error::io("open", path)(failure)),
        Ok(_) => Ok(DirectoryStep::File),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(DirectoryStep::Missing),
        Err(error) => Err(error::io("look at", path)(error)),
    }
}

/// Returns the entries of a directory, by name in byte order. Entries that vanish meanwhile are omitted.
pub(super) fn entries(directory: &Dir, path: &str) -> DiskResult<Vec<(OsString, Metadata)>> {
    let mut entries = Vec::new();
    for entry in directory.entries().map_err(error::io("list", path))? {
        let entry = entry.map_err(error::io("list", path))?;
        match entry.metadata() {
            Ok(metadata) => entries.push((entry.file_name(), metadata)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error::io("list", path)(error)),
        }
    }
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(entries)
}
