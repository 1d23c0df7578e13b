//! Deleting.

use std::io::ErrorKind;

use cap_fs_ext::DirExt;
use cap_std::fs::Dir;
use windlass_core::error::Result;

use super::disk::{Disk, Place, Spot, entries};
use super::error::{self, DiskError};
use crate::files::path::{MAX_DEPTH, join};
use crate::files::rules;

impl Disk {
    pub(super) fn delete(&self, path: &str, recursive: bool) -> Result<bool> {
        let _changing = self.lock_changes();
        let deleted = match self.find(path)? {
            Spot::Root => return Err(rules::root_delete()),
            Spot::Missing | Spot::BelowFile { .. } => false,
            Spot::File(place) | Spot::Directory(place)
                if self.is_read_only(path, &place.metadata) =>
            {
                return Err(rules::read_only(path));
            }
            Spot::File(place) => gone(path, place.parent.remove_file(&place.name))?,
            Spot::Directory(place) if recursive => self.delete_tree(&place, path)?,
            Spot::Directory(place) => gone(path, place.parent.remove_dir(&place.name))?,
        };
        if deleted {
            self.forget_marks(path);
        }
        Ok(deleted)
    }

    fn delete_tree(&self, place: &Place, path: &str) -> Result<bool> {
        let Some(directory) = place.open_directory(path)? else {
            return Ok(false);
        };
        if let Some(inside) = self.first_read_only(&directory, path, 0)? {
            return Err(rules::read_only_inside(path, &inside));
        }
        empty(&directory, path)?;
        gone(path, place.parent.remove_dir(&place.name))
    }

    fn first_read_only(&self, directory: &Dir, path: &str, depth: usize) -> Result<Option<String>> {
        if depth > MAX_DEPTH {
            let path = path.to_owned();
            return Err(DiskError::TooDeep { path }.into());
        }
        for (name, metadata) in entries(directory, path)? {
            let inside = join(path, &name.to_string_lossy());
            if metadata.is_symlink() {
                continue;
            }
            if self.is_read_only(&inside, &metadata) {
                return Ok(Some(inside));
            }
            if metadata.is_dir() {
                let child = directory.open_dir_nofollow(&name);
                let child = child.map_err(error::io("open", &inside))?;
                let found = self.first_read_only(&child, &inside, depth + 1)?;
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

/// Deletes what is in a directory. Links are deleted as links; where they lead is not touched.
fn empty(directory: &Dir, path: &str) -> Result<()> {
    for (name, metadata) in entries(directory, path)? {
        let inside = join(path, &name.to_string_lossy());
        let removed = if metadata.is_dir() {
            let child = directory.open_dir_nofollow(&name);
            empty(&child.map_err(error::io("open", &inside))?, &inside)?;
            directory.remove_dir(&name)
        } else {
            directory.remove_file(&name)
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

/// Tells whether something was deleted; what is not there or not empty stays as it is.
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
