//! Deleting.

use std::ffi::OsString;
use std::io::ErrorKind;

use cap_fs_ext::DirExt;
use cap_std::fs::Dir;
use windlass_core::error::Result;

use super::disk::{DiskEntry, DiskRoot, EntryHandle, OPEN_LEVELS, entries};
use super::error::{self, DiskError, DiskResult};
use crate::files::path::{MAX_DEPTH, join};
use crate::files::rules;
use windlass_core::lock::lock;

impl DiskRoot {
    pub(super) fn delete(&self, path: &str, recursive: bool) -> Result<bool> {
        let _changing = lock(&self.changing);
        let deleted = match self.find(path)? {
            DiskEntry::Root => return Err(rules::root_delete()),
            DiskEntry::Missing | DiskEntry::BelowFile { .. } => false,
            DiskEntry::File(entry) | DiskEntry::Directory(entry)
                if self.is_read_only(path, &entry.metadata) =>
            {
                return Err(rules::read_only(path));
            }
            DiskEntry::File(entry) => gone(path, entry.parent.remove_file(&entry.name))?,
            DiskEntry::Directory(entry) if recursive => self.delete_tree(&entry, path)?,
            DiskEntry::Directory(entry) => gone(path, entry.parent.remove_dir(&entry.name))?,
        };
        if deleted {
            self.forget_marks(path);
        }
        Ok(deleted)
    }

    fn delete_tree(&self, entry: &EntryHandle, path: &str) -> Result<bool> {
        let Some(directory) = entry.open_directory(path)? else {
            return Ok(false);
        };
        let top = directory.try_clone().map_err(error::io("open", path))?;
        let mut descent = Descent {
            top,
            names: Vec::new(),
        };
        let again = directory.try_clone().map_err(error::io("open", path))?;
        if let Some(inside) = self.first_read_only(&mut descent, again, path)? {
            return Err(rules::read_only_inside(path, &inside));
        }
        empty(&mut descent, directory, path)?;
        gone(path, entry.parent.remove_dir(&entry.name))
    }

    fn first_read_only(
        &self,
        descent: &mut Descent,
        directory: Dir,
        path: &str,
    ) -> Result<Option<String>> {
        if descent.names.len() > MAX_DEPTH {
            return Err(DiskError::TooDeep(path.to_owned()).into());
        }
        let entries = entries(&directory, path)?;
        let mut open = Some(directory);
        for (name, metadata) in entries {
            let inside = join(path, &name.to_string_lossy());
            if metadata.is_symlink() {
                continue;
            }
            if self.is_read_only(&inside, &metadata) {
                return Ok(Some(inside));
            }
            if metadata.is_dir() {
                let child = descent.enter(&mut open, name, &inside)?;
                let found = self.first_read_only(descent, child, &inside)?;
                descent.names.pop();
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    fn forget_marks(&self, path: &str) {
        let below = format!("{path}/");
        self.marks
            .write()
            .retain(|mark| mark != path && !mark.starts_with(&below));
    }
}

/// The names that lead from a directory that stays open to the current one. They need not be text.
struct Descent {
    top: Dir,
    names: Vec<OsString>,
}

impl Descent {
    /// Returns the current directory, opened again where it was closed.
    fn current<'d>(&self, open: &'d mut Option<Dir>, path: &str) -> DiskResult<&'d Dir> {
        let directory = match open.take() {
            Some(directory) => directory,
            None => {
                let top = self.top.try_clone();
                let mut names = self.names.iter();
                top.and_then(|top| names.try_fold(top, |above, name| above.open_dir_nofollow(name)))
                    .map_err(error::io("open", path))?
            }
        };
        Ok(open.insert(directory))
    }

    /// Opens a directory inside the current one and makes it the current one. A deep parent is closed.
    fn enter(&mut self, open: &mut Option<Dir>, name: OsString, path: &str) -> DiskResult<Dir> {
        let child = self.current(open, path)?.open_dir_nofollow(&name);
        let child = child.map_err(error::io("open", path))?;
        if self.names.len() >= OPEN_LEVELS {
            *open = None;
        }
        self.names.push(name);
        Ok(child)
    }
}

/// Deletes the contents of a directory. Links are deleted as links; their targets are not touched.
fn empty(descent: &mut Descent, directory: Dir, path: &str) -> Result<()> {
    let entries = entries(&directory, path)?;
    let mut open = Some(directory);
    for (name, metadata) in entries {
        let inside = join(path, &name.to_string_lossy());
        let removed = if metadata.is_dir() {
            let child = descent.enter(&mut open, name.clone(), &inside)?;
            empty(descent, child, &inside)?;
            descent.names.pop();
            descent.current(&mut open, path)?.remove_dir(&name)
        } else {
            descent.current(&mut open, path)?.remove_file(&name)
        };
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error::io("delete", &inside)(error).into());
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns whether the entry was deleted; a missing entry or a non-empty directory is no error.
fn gone(path: &str, removed: std::io::Result<()>) -> Result<bool> {
    match removed {
        Ok(()) => Ok(true),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(error::io("delete", path)(error).into()),
    }
}
