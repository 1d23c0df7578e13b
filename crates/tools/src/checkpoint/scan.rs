//! Scans a whole workspace: stats every file and reads only those that changed.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cap_fs_ext::DirExt;
use cap_std::fs::{Dir, Metadata, MetadataExt, ReadDir};
use rustix::fs::readlinkat;

use super::blobs::{Blobs, digest_of};
use super::index::{Index, Stat, now};
use super::manifest::{Manifest, ManifestEntry};
use super::{CheckpointError, CheckpointLimits};
use crate::workspace::{FileError, IgnoreRules, MAX_DEPTH, ResolvedWorkspace, TEMPORARY_PREFIX};

/// A directory that is never edited by hand, whatever a `.gitignore` specifies.
const GENERATED_DIRECTORY: &str = "node_modules";
/// Marks a directory whose contents can be regenerated.
const CACHE_TAG: &str = "CACHEDIR.TAG";
const CACHE_SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";
/// The bits of a mode that are recorded.
const MODE_BITS: u32 = 0o777;

/// The fraction of the size limit that is read before the total size is measured. If few files are new, one pass suffices.
const READ_UNMEASURED: u64 = 32;

pub(super) struct Scan<'a> {
    at: &'a ResolvedWorkspace,
    limits: &'a CheckpointLimits,
    blobs: &'a Blobs,
    older: &'a Index,
    manifest: Manifest,
    index: Index,
    ignored: IgnoreRules,
    entries: u64,
    bytes: u64,
    /// Bytes read, and bytes of new content.
    read: u64,
    written: u64,
    mode: ScanMode,
}

/// The mode of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScanMode {
    Store,
    /// Like `Store`, for a workspace whose size was already checked.
    StoreMeasured,
    /// Only measures the size; no file is read.
    Measure,
}

impl<'a> Scan<'a> {
    pub(super) fn new(
        at: &'a ResolvedWorkspace,
        limits: &'a CheckpointLimits,
        blobs: &'a Blobs,
        older: &'a Index,
    ) -> Self {
        Self {
            at,
            limits,
            blobs,
            older,
            manifest: Manifest::default(),
            index: Index::default(),
            ignored: IgnoreRules::default(),
            entries: 0,
            bytes: 0,
            read: 0,
            written: 0,
            mode: ScanMode::Store,
        }
    }

    /// Takes a checkpoint. Adds the bytes written to `written`, even on failure.
    pub(super) fn run(mut self, written: &mut u64) -> Result<(Manifest, Index), CheckpointError> {
        let scanned = self.scan_root();
        *written += self.written;
        scanned.map(|()| (self.manifest, self.index))
    }

    /// Rejects a workspace that is too large before much of it is read.
    fn measure(&self) -> Result<(), CheckpointError> {
        let mut scan = Self::new(self.at, self.limits, self.blobs, self.older);
        scan.mode = ScanMode::Measure;
        scan.scan_root()
    }

    fn scan_root(&mut self) -> Result<(), CheckpointError> {
        let failed = CheckpointError::io("scan", self.at.root_path());
        let root = self.at.root().try_clone().map_err(&failed)?;
        let entries = root.entries().map_err(&failed)?;
        self.directory(&root, entries, &mut PathBuf::new(), 0)
    }

    fn directory(
        &mut self,
        directory: &Dir,
        entries: ReadDir,
        path: &mut PathBuf,
        depth: usize,
    ) -> Result<(), CheckpointError> {
        let guard = self.ignored.enter(directory, path);
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                // The directory was removed during the scan.
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                // Entries that are not listed would count as removed.
                Err(error) => {
                    let directory = self.at.root_path().join(&*path);
                    return Err(CheckpointError::io("scan", &directory)(error));
                }
            };
            let name = entry.file_name();
            if name.as_bytes().starts_with(TEMPORARY_PREFIX.as_bytes()) {
                continue;
            }
            self.entries += 1;
            self.check("files", self.entries, self.limits.files)?;
            path.push(&name);
            let scanned = match entry.metadata() {
                Ok(metadata) => self.entry(directory, &name, path, &metadata, depth),
                Err(error) => {
                    self.unreadable(path, &error);
                    Ok(())
                }
            };
            path.pop();
            scanned?;
        }
        if guard {
            self.ignored.leave();
        }
        Ok(())
    }

    fn check(&self, what: &'static str, count: u64, limit: u64) -> Result<(), CheckpointError> {
        if count <= limit {
            return Ok(());
        }
        Err(CheckpointError::TooLarge {
            root: self.at.root_path().to_owned(),
            what,
            limit,
        })
    }

    fn entry(
        &mut self,
        parent: &Dir,
        name: &OsStr,
        path: &mut PathBuf,
        metadata: &Metadata,
        depth: usize,
    ) -> Result<(), CheckpointError> {
        let is_directory = metadata.is_dir();
        if name.eq_ignore_ascii_case(".git")
            || (is_directory && name == GENERATED_DIRECTORY)
            || self.at.hidden().is_hidden(metadata)
            || self.ignored.covers(path, is_directory)
        {
            self.put(path, ManifestEntry::Unseen);
        } else if is_directory {
            return self.child(parent, name, path, depth);
        } else if metadata.is_symlink() {
            match link_target(parent, name) {
                Ok(target) => self.put(path, ManifestEntry::Link { target }),
                Err(error) => self.unreadable(path, &error),
            }
        } else if metadata.is_file() {
            return self.file(parent, name, path, metadata);
        } else {
            self.put(path, not_stored(metadata));
        }
        Ok(())
    }

    fn child(
        &mut self,
        parent: &Dir,
        name: &OsStr,
        path: &mut PathBuf,
        depth: usize,
    ) -> Result<(), CheckpointError> {
        let opened = parent.open_dir_nofollow(name).and_then(|child| {
            // Checked on the open directory, because the name may refer to something else by now.
            let metadata = child.dir_metadata()?;
            let entries = child.entries()?;
            Ok((child, metadata, entries))
        });
        let (child, metadata, entries) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.unreadable(path, &error);
                return Ok(());
            }
        };
        if depth == MAX_DEPTH || self.at.hidden().is_hidden(&metadata) || is_cache(&child) {
            self.put(path, ManifestEntry::Unseen);
            return Ok(());
        }
        let mode = metadata.mode() & MODE_BITS;
        self.put(path, ManifestEntry::Directory { mode });
        self.directory(&child, entries, path, depth + 1)
    }

    fn file(
        &mut self,
        parent: &Dir,
        name: &OsStr,
        path: &Path,
        metadata: &Metadata,
    ) -> Result<(), CheckpointError> {
        let stat = Stat::new(metadata);
        if stat.size > self.limits.file_bytes {
            self.put(path, not_stored(metadata));
            return Ok(());
        }
        self.bytes += stat.size;
        self.check("bytes", self.bytes, self.limits.total_bytes)?;
        if self.mode == ScanMode::Measure {
            return Ok(());
        }
        let (mode, size) = (metadata.mode() & MODE_BITS, stat.size);
        if let Some(digest) = self.older.digest(path, &stat) {
            let digest = digest.to_owned();
            self.index.copy(path, self.older);
            self.put(path, ManifestEntry::File { mode, size, digest });
            return Ok(());
        }
        self.read += stat.size;
        if self.mode == ScanMode::Store && self.read > self.limits.total_bytes / READ_UNMEASURED {
            self.measure()?;
            self.mode = ScanMode::StoreMeasured;
        }
        let read_at = now();
        let (metadata, bytes) = match read(self.at, parent, name, path, self.limits.file_bytes) {
            Ok(read) => read,
            Err(FileError::Missing { .. }) => return Ok(()),
            Err(_) => {
                self.put(path, ManifestEntry::Unseen);
                return Ok(());
            }
        };
        let Some(bytes) = bytes else {
            self.put(path, not_stored(&metadata));
            return Ok(());
        };
        let digest = digest_of(&bytes);
        self.written += self.blobs.put(&digest, &bytes)?;
        let (mode, size) = (metadata.mode() & MODE_BITS, bytes.len() as u64);
        // A file that changed while it was read is read again by the next scan.
        if parent
            .symlink_metadata(name)
            .is_ok_and(|now| Stat::new(&now) == Stat::new(&metadata))
        {
            self.index
                .insert(path, Stat::new(&metadata), digest.clone(), read_at);
        }
        self.put(path, ManifestEntry::File { mode, size, digest });
        Ok(())
    }

    fn put(&mut self, path: &Path, entry: ManifestEntry) {
        if self.mode != ScanMode::Measure {
            self.manifest.entries.insert(path.to_owned(), entry);
        }
    }

    /// Records an unreadable entry as unknown, unless it was removed meanwhile.
    fn unreadable(&mut self, path: &Path, error: &io::Error) {
        if error.kind() != io::ErrorKind::NotFound {
            self.put(path, ManifestEntry::Unseen);
        }
    }
}

fn not_stored(metadata: &Metadata) -> ManifestEntry {
    let Stat { size, modified, .. } = Stat::new(metadata);
    ManifestEntry::NotStored { size, modified }
}

/// Reads a regular file; no bytes if it exceeds the limit.
fn read(
    at: &ResolvedWorkspace,
    parent: &Dir,
    name: &OsStr,
    path: &Path,
    limit: u64,
) -> Result<(Metadata, Option<Vec<u8>>), FileError> {
    let opened = at.open_in(parent, Path::new(name), path)?;
    let metadata = opened.metadata.clone();
    let bytes = opened
        .bytes(limit)
        .map_err(|source| at.failure("read", path, source))?;
    Ok((metadata, bytes))
}

pub(super) fn link_target(parent: &Dir, name: &OsStr) -> io::Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt;

    let target = readlinkat(parent, name, Vec::new())?;
    Ok(std::ffi::OsString::from_vec(target.into_bytes()).into())
}

/// Returns whether a directory contains a valid cache tag.
fn is_cache(directory: &Dir) -> bool {
    use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
    use std::io::Read;

    let mut options = cap_std::fs::OpenOptions::new();
    options.read(true).follow(FollowSymlinks::No).nonblock(true);
    let Ok(file) = directory.open_with(CACHE_TAG, &options) else {
        return false;
    };
    let mut first = Vec::new();
    let limit = CACHE_SIGNATURE.len() as u64;
    let read = file.take(limit).read_to_end(&mut first);
    read.is_ok() && first == CACHE_SIGNATURE
}

/// Returns the current state of a path, if it can be determined.
pub(super) fn current_entry(
    at: &ResolvedWorkspace,
    parent: &Dir,
    name: &OsStr,
    path: &Path,
    limit: u64,
) -> Option<CurrentEntry> {
    let metadata = match parent.symlink_metadata(name) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(CurrentEntry::Absent),
        Err(_) => return None,
    };
    if at.hidden().is_hidden(&metadata) || name.eq_ignore_ascii_case(".git") {
        return None;
    }
    let entry = if metadata.is_dir() {
        let mode = metadata.mode() & MODE_BITS;
        ManifestEntry::Directory { mode }
    } else if metadata.is_symlink() {
        let target = link_target(parent, name).ok()?;
        ManifestEntry::Link { target }
    } else if metadata.is_file() && metadata.len() <= limit {
        let (metadata, bytes) = read(at, parent, name, path, limit).ok()?;
        let bytes = bytes?;
        ManifestEntry::File {
            mode: metadata.mode() & MODE_BITS,
            size: bytes.len() as u64,
            digest: digest_of(&bytes),
        }
    } else {
        not_stored(&metadata)
    };
    Some(CurrentEntry::Present(entry))
}

/// The current state of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CurrentEntry {
    Absent,
    Present(ManifestEntry),
}

impl CurrentEntry {
    /// Returns whether this matches the recorded entry. The modes of directories are not compared.
    pub(super) fn is(&self, recorded: Option<&ManifestEntry>) -> bool {
        match (self, recorded) {
            (Self::Absent, None) => true,
            (Self::Present(entry), Some(ManifestEntry::Directory { .. })) => entry.is_directory(),
            (Self::Present(entry), Some(recorded)) => entry == recorded,
            _ => false,
        }
    }
}
