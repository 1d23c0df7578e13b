//! Restores files. All paths are compared before any is touched. Then the steps in all roots are recorded and executed, and the record is removed.
//! Each step checks the current state again, so that a completed step does nothing when repeated: after a kill, all steps run once more. After a
//! failure, the completed steps are reversed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use cap_fs_ext::DirExt;
use cap_std::fs::{Dir, Permissions, PermissionsExt};
use rustix::fs::symlinkat;
use serde::{Deserialize, Serialize};

use super::blobs::Blobs;
use super::manifest::ManifestEntry;
use super::path_text;
use super::scan::{CurrentEntry, current_entry};
use super::{CheckpointError, CheckpointLimits};
use crate::workspace::{ResolvedWorkspace, TEMPORARY_PREFIX, lock_name, write_new};

/// The result of a restore; paths are relative to the root.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestoreReport {
    /// Paths that were restored.
    pub changed: Vec<PathBuf>,
    /// Paths that differ and were not restored: too large to store, ignored, not a file, or a directory that contains other files.
    pub left: Vec<PathBuf>,
}

/// A step that restores one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RestoreStep {
    #[serde(with = "path_text")]
    pub(super) path: PathBuf,
    /// The entry after the turn.
    pub(super) from: Option<ManifestEntry>,
    /// The entry to restore.
    pub(super) to: Option<ManifestEntry>,
}

impl RestoreStep {
    /// Returns whether the stored content suffices for the step.
    fn is_possible(&self) -> bool {
        match (&self.from, &self.to) {
            (Some(ManifestEntry::Unseen), None) => false,
            (_, to) => to.as_ref().is_none_or(ManifestEntry::is_restorable),
        }
    }

    fn reversed(&self) -> Self {
        Self {
            path: self.path.clone(),
            from: self.to.clone(),
            to: self.from.clone(),
        }
    }

    /// Returns whether the current entry must be removed before the new one can be created.
    fn is_removed_first(&self) -> bool {
        let is_directory =
            |entry: &Option<ManifestEntry>| entry.as_ref().is_some_and(ManifestEntry::is_directory);
        self.from
            .as_ref()
            .is_some_and(|from| *from != ManifestEntry::Unseen)
            && (self.to.is_none() || is_directory(&self.from) != is_directory(&self.to))
    }

    /// Returns whether this is a possible state before, during or after this step.
    fn accepts(&self, current: &CurrentEntry) -> bool {
        current.is(self.from.as_ref())
            || current.is(self.to.as_ref())
            || (self.is_removed_first() && *current == CurrentEntry::Absent)
    }
}

/// Executable steps, ordered by path, and the paths that cannot be restored.
#[derive(Debug, Default)]
pub(super) struct RestorePlan {
    pub(super) steps: Vec<RestoreStep>,
    pub(super) left: Vec<PathBuf>,
}

impl RestorePlan {
    pub(super) fn new(mut steps: Vec<RestoreStep>) -> Self {
        steps.sort_by(|a, b| a.path.cmp(&b.path));
        let (steps, left): (Vec<_>, Vec<_>) = steps.into_iter().partition(RestoreStep::is_possible);
        Self {
            steps,
            left: left.into_iter().map(|step| step.path).collect(),
        }
    }
}

/// Executes the steps in one root.
pub(super) struct RestoreContext<'a> {
    pub(super) at: &'a ResolvedWorkspace,
    pub(super) limits: &'a CheckpointLimits,
    pub(super) blobs: &'a Blobs,
}

impl RestoreContext<'_> {
    /// Returns the paths that are in neither the state after the turn nor the state before it.
    pub(super) fn external_edits(&self, steps: &[RestoreStep]) -> Vec<PathBuf> {
        let by_path: BTreeMap<&Path, &RestoreStep> =
            steps.iter().map(|it| (it.path.as_path(), it)).collect();
        let mut edits = Vec::new();
        for step in steps {
            match self.current(&step.path) {
                Some(current) if step.accepts(&current) => {
                    self.find_obstacles(step, &current, &by_path, &mut edits);
                }
                _ => edits.push(step.path.clone()),
            }
        }
        edits.sort();
        edits.dedup();
        edits
    }

    /// Collects paths of other programs that block a step.
    fn find_obstacles(
        &self,
        step: &RestoreStep,
        current: &CurrentEntry,
        steps: &BTreeMap<&Path, &RestoreStep>,
        edits: &mut Vec<PathBuf>,
    ) {
        if step.to.is_none() || current.is(step.to.as_ref()) {
            return;
        }
        for above in step.path.ancestors().skip(1) {
            if above.as_os_str().is_empty() {
                break;
            }
            let is_passable = match self.current(above) {
                Some(CurrentEntry::Absent) => true,
                Some(CurrentEntry::Present(entry)) => entry.is_directory(),
                None => false,
            };
            let planned = steps.get(above).and_then(|step| step.to.as_ref());
            if !is_passable && !planned.is_some_and(ManifestEntry::is_directory) {
                edits.push(above.to_owned());
            }
        }
        if matches!(current, CurrentEntry::Present(entry) if entry.is_directory())
            && step.is_removed_first()
        {
            self.find_external_entries(&step.path, steps, edits);
        }
    }

    /// Collects entries that no step removes from a directory that becomes a file.
    fn find_external_entries(
        &self,
        path: &Path,
        steps: &BTreeMap<&Path, &RestoreStep>,
        edits: &mut Vec<PathBuf>,
    ) {
        let entries = self.directory(path).and_then(|directory| {
            let directory = directory.ok_or(io::ErrorKind::NotFound)?;
            directory.entries()?.collect::<io::Result<Vec<_>>>()
        });
        let Ok(entries) = entries else {
            edits.push(path.to_owned());
            return;
        };
        for entry in entries {
            let below = path.join(entry.file_name());
            let step = steps.get(below.as_path());
            if step.is_none_or(|step| step.to.is_some()) {
                edits.push(below);
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.find_external_entries(&below, steps, edits);
            }
        }
    }

    /// Verifies that all content is available before any path is touched.
    pub(super) fn check_content(&self, steps: &[RestoreStep]) -> Result<(), CheckpointError> {
        for step in steps {
            if let Some(ManifestEntry::File { digest, .. }) = &step.to {
                self.blobs.get(digest)?;
            }
        }
        Ok(())
    }

    /// Executes the steps. Paths that another program changed meanwhile are not touched.
    pub(super) fn apply(&self, plan: RestorePlan) -> Result<RestoreReport, CheckpointError> {
        let RestorePlan { steps, left } = plan;
        let mut restored = RestoreReport {
            left,
            ..RestoreReport::default()
        };
        // Deeper paths come later in the order and are removed first.
        for step in steps.iter().rev().filter(|step| step.is_removed_first()) {
            let removed = self.remove(step);
            if !removed.map_err(incomplete("remove", step))? {
                restored.left.push(step.path.clone());
            }
        }
        for (number, step) in steps.iter().enumerate() {
            let Some(to) = &step.to else { continue };
            if !self.create(step, to, &format!("{TEMPORARY_PREFIX}restore-{number}"))? {
                restored.left.push(step.path.clone());
            }
        }
        // A directory without write permission gets its mode after its contents are complete.
        for step in steps.iter().rev() {
            if let Some(ManifestEntry::Directory { mode }) = step.to {
                self.set_mode(&step.path, mode)
                    .map_err(incomplete("set the mode of", step))?;
            }
        }
        restored.left.sort();
        restored.left.dedup();
        let paths = steps.into_iter().map(|step| step.path);
        restored.changed = paths
            .filter(|path| restored.left.binary_search(path).is_err())
            .collect();
        Ok(restored)
    }

    /// Reverses steps. Returns whether each path is again in the state after the turn.
    fn roll_back(&self, steps: &[RestoreStep]) -> Result<bool, CheckpointError> {
        self.apply(RestorePlan::new(
            steps.iter().map(RestoreStep::reversed).collect(),
        ))?;
        Ok(steps.iter().all(|step| {
            let current = self.current(&step.path);
            current.is_some_and(|current| current.is(step.from.as_ref()))
        }))
    }

    /// Removes the current entry of a step. Returns whether it is gone.
    fn remove(&self, step: &RestoreStep) -> io::Result<bool> {
        let Some(name) = step.path.file_name() else {
            return Ok(false);
        };
        let Some(parent) = self.parent(&step.path)? else {
            return Ok(true);
        };
        let _changing = lock_name(&parent, name)?;
        match self.entry_in(&parent, name, &step.path) {
            Some(CurrentEntry::Absent) => return Ok(true),
            Some(current) if current.is(step.from.as_ref()) => {}
            // It may already have the state to restore.
            Some(current) => return Ok(current.is(step.to.as_ref())),
            None => return Ok(false),
        }
        before_change()?;
        if !step.from.as_ref().is_some_and(ManifestEntry::is_directory) {
            parent.remove_file(name)?;
            return Ok(true);
        }
        match parent.remove_dir(name) {
            Ok(()) => Ok(true),
            // It contains files that no step removes.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Creates the entry to restore. Returns whether it now exists.
    fn create(
        &self,
        step: &RestoreStep,
        to: &ManifestEntry,
        temporary: &str,
    ) -> Result<bool, CheckpointError> {
        let failed = incomplete("write", step);
        let Some(name) = step.path.file_name() else {
            return Ok(false);
        };
        let Some(parent) = self.create_parent(&step.path).map_err(&failed)? else {
            return Ok(false);
        };
        let _changing = lock_name(&parent, name).map_err(&failed)?;
        // A killed process may have left it.
        let _ = parent.remove_file(temporary);
        match self.entry_in(&parent, name, &step.path) {
            Some(current) if current.is(Some(to)) => return Ok(true),
            Some(CurrentEntry::Absent) if step.is_removed_first() => {}
            Some(current) if !step.is_removed_first() && step.accepts(&current) => {}
            _ => return Ok(false),
        }
        before_change().map_err(&failed)?;
        match to {
            ManifestEntry::Directory { .. } => parent.create_dir(name).map_err(&failed)?,
            ManifestEntry::Link { target } => {
                symlinkat(target, &parent, temporary)
                    .map_err(io::Error::from)
                    .map_err(&failed)?;
                rename(&parent, temporary, name).map_err(&failed)?;
            }
            ManifestEntry::File { mode, digest, .. } => {
                let bytes = self.blobs.get(digest)?;
                let permissions = Some(Permissions::from_mode(*mode));
                write_new(&parent, temporary, &bytes, permissions)
                    .and_then(|()| rename(&parent, temporary, name))
                    .inspect_err(|_| drop(parent.remove_file(temporary)))
                    .map_err(&failed)?;
            }
            ManifestEntry::NotStored { .. } | ManifestEntry::Unseen => return Ok(false),
        }
        Ok(true)
    }

    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        match self.directory(path)? {
            Some(directory) => {
                before_change()?;
                directory.set_permissions(".", Permissions::from_mode(mode))
            }
            None => Ok(()),
        }
    }

    /// Returns the current state of a path; `None` if it cannot be determined or is outside the scanned files.
    fn current(&self, path: &Path) -> Option<CurrentEntry> {
        let name = path.file_name()?;
        match self.parent(path) {
            Ok(Some(parent)) => self.entry_in(&parent, name, path),
            Ok(None) => Some(CurrentEntry::Absent),
            Err(_) => None,
        }
    }

    fn entry_in(&self, parent: &Dir, name: &OsStr, path: &Path) -> Option<CurrentEntry> {
        current_entry(self.at, parent, name, path, self.limits.file_bytes)
    }

    fn parent(&self, path: &Path) -> io::Result<Option<Dir>> {
        self.directory(path.parent().unwrap_or(Path::new("")))
    }

    /// Opens a directory component by component without following links; `None` if it does not exist.
    fn directory(&self, path: &Path) -> io::Result<Option<Dir>> {
        let mut here = self.at.root().try_clone()?;
        for name in path {
            match here.symlink_metadata(name) {
                Ok(there) if there.is_dir() => {}
                Ok(_) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            }
            here = self.open(&here, name)?;
        }
        Ok(Some(here))
    }

    /// Opens the directory of a path and creates missing parts; `None` if another entry is in the way.
    fn create_parent(&self, path: &Path) -> io::Result<Option<Dir>> {
        let mut here = self.at.root().try_clone()?;
        for name in path.parent().unwrap_or(Path::new("")) {
            match here.create_dir(name) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            if !here.symlink_metadata(name)?.is_dir() {
                return Ok(None);
            }
            here = self.open(&here, name)?;
        }
        Ok(Some(here))
    }

    fn open(&self, here: &Dir, name: &OsStr) -> io::Result<Dir> {
        let child = here.open_dir_nofollow(name)?;
        if self.at.hidden().is_hidden(&child.dir_metadata()?) {
            Err(io::ErrorKind::PermissionDenied.into())
        } else {
            Ok(child)
        }
    }
}

/// Executes the steps in all roots, or in none: after a failure the completed steps are reversed.
pub(super) fn apply_all(
    roots: &[(RestoreContext<'_>, Vec<RestoreStep>)],
) -> Result<RestoreReport, CheckpointError> {
    let mut restored = RestoreReport::default();
    for (context, steps) in roots {
        match context.apply(RestorePlan::new(steps.clone())) {
            Ok(more) => {
                restored.changed.extend(more.changed);
                restored.left.extend(more.left);
            }
            Err(error) => return Err(roll_back_all(roots, error)),
        }
    }
    Ok(restored)
}

fn roll_back_all(
    roots: &[(RestoreContext<'_>, Vec<RestoreStep>)],
    error: CheckpointError,
) -> CheckpointError {
    let mut is_rolled_back = true;
    for (context, steps) in roots {
        is_rolled_back &= context.roll_back(steps).unwrap_or_else(|error| {
            let root = context.at.root_path().display();
            tracing::warn!(%root, %error, "a restore that failed could not be rolled back");
            false
        });
    }
    match error {
        CheckpointError::Incomplete {
            doing,
            path,
            source,
        } if is_rolled_back => CheckpointError::RolledBack {
            doing,
            path,
            source,
        },
        error => error,
    }
}

fn rename(parent: &Dir, temporary: &str, name: &OsStr) -> io::Result<()> {
    before_change()?;
    parent.rename(temporary, parent, name)
}

fn incomplete(doing: &'static str, step: &RestoreStep) -> impl Fn(io::Error) -> CheckpointError {
    let path = step.path.clone();
    move |source| CheckpointError::Incomplete {
        doing,
        path: path.clone(),
        source,
    }
}

/// Called before each change. Tests fail or kill the restore here.
#[cfg_attr(
    not(test),
    expect(clippy::unnecessary_wraps, reason = "tests return errors")
)]
fn before_change() -> io::Result<()> {
    #[cfg(test)]
    super::tests::before_change()?;
    Ok(())
}
