//! Changes files atomically and one at a time.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use cap_fs_ext::{DirExt, MetadataExt};
use cap_std::fs::{Dir, Metadata, Permissions};

use super::atomic_file::FileContents;
use super::path::{or_dot, temporary_name};
use super::read::{OpenFile, is_binary};
use super::{FileError, ResolvedWorkspace, locks};

/// Maximum size of a file that is written or edited.
pub(crate) const MAX_CHANGED_BYTES: u64 = 16 * 1024 * 1024;

/// The result of a change.
pub(crate) struct FileChange {
    /// The file's real path, relative to the root.
    pub(crate) path: PathBuf,
    /// The previous text; `None` if there was no text file.
    pub(crate) before: Option<String>,
    pub(crate) after: String,
    pub(crate) is_new: bool,
}

/// A name in an open directory.
struct ChangeTarget {
    path: PathBuf,
    parent: Dir,
    name: String,
    exists: bool,
}

impl ResolvedWorkspace {
    /// Writes a text to a file, which need not exist.
    pub(crate) fn write_text(&self, path: &Path, text: String) -> Result<FileChange, FileError> {
        self.refuse_large(path, text.len() as u64)?;
        let target = self.target(path)?;
        let _changing = self.lock(&target)?;
        let before = match self.current(&target) {
            Ok(current) => Some(current),
            Err(FileError::Missing { .. }) => None,
            Err(error) => return Err(error),
        };
        let (is_new, permissions) = match &before {
            Some((metadata, _)) => (false, Some(metadata.permissions())),
            None => (true, None),
        };
        self.replace(&target, text.as_bytes(), permissions, None)?;
        Ok(FileChange {
            path: target.path,
            before: before.and_then(|(_, bytes)| String::from_utf8(bytes).ok()),
            after: text,
            is_new,
        })
    }

    /// Replaces a file's text with one computed from it. A concurrent change is detected and not overwritten.
    pub(crate) fn edit_text(
        &self,
        path: &Path,
        edit: impl FnOnce(&str) -> Result<String, FileError>,
    ) -> Result<FileChange, FileError> {
        self.refuse_change(path)?;
        let target = self.existing_target(path)?;
        let _changing = self.lock(&target)?;
        let (seen, bytes) = self.current(&target)?;
        let before = text_of(bytes, &self.shown(path))?;
        let after = edit(&before)?;
        self.refuse_large(path, after.len() as u64)?;
        self.replace(
            &target,
            after.as_bytes(),
            Some(seen.permissions()),
            Some(&seen),
        )?;
        Ok(FileChange {
            path: target.path,
            before: Some(before),
            after,
            is_new: false,
        })
    }

    fn refuse_change(&self, path: &Path) -> Result<(), FileError> {
        if self.policy.write {
            return Ok(());
        }
        Err(FileError::ReadOnlyEnvironment {
            id: self.id.clone(),
            path: self.shown(path),
        })
    }

    fn refuse_large(&self, path: &Path, bytes: u64) -> Result<(), FileError> {
        if bytes <= MAX_CHANGED_BYTES {
            return Ok(());
        }
        Err(FileError::TooLarge {
            path: self.shown(path),
            bytes,
            limit: MAX_CHANGED_BYTES,
        })
    }

    /// Finds the file to write and creates its directory. A link is followed, so its target is written.
    fn target(&self, path: &Path) -> Result<ChangeTarget, FileError> {
        self.refuse_change(path)?;
        match self.existing_target(path) {
            Err(FileError::Missing { .. }) => {}
            found => return found,
        }
        if self.root.symlink_metadata(or_dot(path)).is_ok() {
            let path = self.shown(path);
            return Err(FileError::DanglingLink { path });
        }
        let (above, missing) = self.existing_above(path)?;
        self.refuse_protected(&above.join(missing))?;
        let mut parent = self.open_directory(&above)?;
        let directories = missing.parent().unwrap_or(Path::new(""));
        for name in directories {
            parent = self.create_directory(&parent, name, path)?;
        }
        let at = above.join(directories);
        self.target_in(parent, &at, path.file_name(), path, false)
    }

    /// Returns the nearest existing directory above a path, with its links followed, and the missing rest of the path.
    fn existing_above<'a>(&self, path: &'a Path) -> Result<(PathBuf, &'a Path), FileError> {
        for above in path.ancestors().skip(1) {
            match self.canonical(above) {
                Err(FileError::Missing { .. }) => {}
                found => {
                    let rest = path.strip_prefix(above).unwrap_or(path);
                    return found.map(|found| (found, rest));
                }
            }
        }
        Ok((PathBuf::new(), path))
    }

    /// Creates a directory in an open one and opens it without following links.
    fn create_directory(&self, parent: &Dir, name: &OsStr, path: &Path) -> Result<Dir, FileError> {
        let failure = |source| self.failure("create the directory of", path, source);
        match parent.create_dir(name) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failure(error));
            }
            _ => {}
        }
        let created = parent.open_dir_nofollow(name).map_err(failure)?;
        if self
            .hidden
            .is_hidden(&created.dir_metadata().map_err(failure)?)
        {
            Err(self.hidden_error(path))
        } else {
            Ok(created)
        }
    }

    fn existing_target(&self, path: &Path) -> Result<ChangeTarget, FileError> {
        let real = self.canonical(path)?;
        let at = real.parent().unwrap_or(Path::new(""));
        let parent = self.open_directory(at)?;
        self.target_in(parent, at, real.file_name(), path, true)
    }

    fn target_in(
        &self,
        parent: Dir,
        at: &Path,
        name: Option<&OsStr>,
        shown: &Path,
        exists: bool,
    ) -> Result<ChangeTarget, FileError> {
        let name = name.and_then(OsStr::to_str).filter(|name| *name != ".");
        let Some(name) = name else {
            let path = self.shown(shown);
            return Err(FileError::IsDirectory { path });
        };
        let path = at.join(name);
        self.refuse_protected(&path)?;
        Ok(ChangeTarget {
            parent,
            name: name.to_owned(),
            path,
            exists,
        })
    }

    /// Refuses changes in `.git`, whose contents determine which programs run with the user's rights: hooks, filters, editors.
    fn refuse_protected(&self, path: &Path) -> Result<(), FileError> {
        if path.iter().any(|name| name.eq_ignore_ascii_case(".git")) {
            let path = self.shown(path);
            return Err(FileError::Protected { path });
        }
        Ok(())
    }

    fn lock(&self, target: &ChangeTarget) -> Result<std::sync::MutexGuard<'static, ()>, FileError> {
        locks::lock(&target.parent, OsStr::new(&target.name))
            .map_err(|source| self.failure("lock", &target.path, source))
    }

    /// Reads the current contents of a target.
    fn current(&self, target: &ChangeTarget) -> Result<(Metadata, Vec<u8>), FileError> {
        let path = || self.shown(&target.path);
        let file: OpenFile = self.open_in(&target.parent, Path::new(&target.name), &target.path)?;
        let metadata = file.metadata.clone();
        if metadata.permissions().readonly() {
            return Err(FileError::ReadOnlyFile { path: path() });
        }
        let bytes = file.bytes(MAX_CHANGED_BYTES);
        let bytes = bytes.map_err(|source| self.failure("read", &target.path, source))?;
        let bytes = bytes.ok_or_else(|| FileError::TooLarge {
            path: path(),
            bytes: metadata.len(),
            limit: MAX_CHANGED_BYTES,
        })?;
        Ok((metadata, bytes))
    }

    /// Replaces a file atomically: readers see either the old or the new contents.
    ///
    /// There is no fsync: a workspace is the tools' working copy, and the journal records their actions.
    fn replace(
        &self,
        target: &ChangeTarget,
        bytes: &[u8],
        permissions: Option<Permissions>,
        seen: Option<&Metadata>,
    ) -> Result<(), FileError> {
        let temporary = temporary_name();
        let contents = FileContents { bytes, permissions };
        let written = contents.write_unnamed(&target.parent).and_then(|file| {
            if let Some(seen) = seen {
                let current_metadata = target.parent.symlink_metadata(&target.name)?;
                if !is_same(seen, &current_metadata) {
                    return Ok(false);
                }
            }
            contents.link_as(file, &target.parent, &temporary)?;
            target
                .parent
                .rename(&temporary, &target.parent, &target.name)?;
            Ok(true)
        });
        if matches!(written, Ok(true)) {
            return Ok(());
        }
        // If this fails too, only the first error is useful.
        let _ = target.parent.remove_file(&temporary);
        Err(match written {
            Err(source) if target.exists || source.kind() != io::ErrorKind::NotFound => {
                self.failure("write", &target.path, source)
            }
            _ => FileError::Changed {
                path: self.shown(&target.path),
            },
        })
    }
}

fn is_same(seen: &Metadata, current_metadata: &Metadata) -> bool {
    let times = |metadata: &Metadata| metadata.modified().ok().map(|time| time.into_std());
    (seen.dev(), seen.ino(), seen.len())
        == (
            current_metadata.dev(),
            current_metadata.ino(),
            current_metadata.len(),
        )
        && times(seen) == times(current_metadata)
}

/// Writes a file that does not exist yet.
pub(crate) fn write_new(
    directory: &Dir,
    name: &str,
    bytes: &[u8],
    permissions: Option<Permissions>,
) -> io::Result<()> {
    FileContents { bytes, permissions }.write_new(directory, name)
}

/// Converts bytes to text, or returns an error for binary data.
fn text_of(bytes: Vec<u8>, path: &str) -> Result<String, FileError> {
    let binary = |bytes: &[u8]| FileError::Binary {
        path: path.to_owned(),
        bytes: bytes.len() as u64,
    };
    if is_binary(&bytes) {
        return Err(binary(&bytes));
    }
    String::from_utf8(bytes).map_err(|error| binary(error.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environments::{Environment, Policy};
    use windlass_process::Hidden;

    fn opened(environment: &Environment) -> ResolvedWorkspace {
        let (policy, hidden) = (Policy::default(), Hidden::default());
        ResolvedWorkspace::open(environment, Path::new(""), policy, hidden).unwrap()
    }

    #[test]
    fn concurrent_edit_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("f");
        let environment = Environment::new("e", directory.path(), Policy::default()).unwrap();
        let at = opened(&environment);
        // Editors that write in place, that rename, and that delete.
        let others: [fn(&Path); 3] = [
            |file| std::fs::write(file, "theirs").unwrap(),
            |file| {
                std::fs::write(file.with_extension("new"), "theirs").unwrap();
                std::fs::rename(file.with_extension("new"), file).unwrap();
            },
            |file| std::fs::remove_file(file).unwrap(),
        ];
        for other in others {
            std::fs::write(&file, "before").unwrap();
            let edited = at.edit_text(Path::new("f"), |text| {
                other(&file);
                Ok(text.replace("before", "after!"))
            });
            let error = edited.map(drop).unwrap_err();
            assert!(
                matches!(error, FileError::Changed { .. } | FileError::Missing { .. }),
                "{error}"
            );
            let left = std::fs::read_to_string(&file).ok();
            assert!(left.as_deref().is_none_or(|left| left == "theirs"));
            assert!(std::fs::read_dir(directory.path()).unwrap().count() <= 1);
        }
    }

    #[test]
    fn failed_write_leaves_no_temporary_file() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("taken")).unwrap();
        let environment = Environment::new("e", directory.path(), Policy::default()).unwrap();
        let at = opened(&environment);
        let target = ChangeTarget {
            path: PathBuf::from("taken"),
            parent: at.open_directory(Path::new("")).unwrap(),
            name: "taken".to_owned(),
            exists: true,
        };
        let error = at.replace(&target, b"x", None, None).unwrap_err();
        assert!(error.to_string().contains("taken"), "{error}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
