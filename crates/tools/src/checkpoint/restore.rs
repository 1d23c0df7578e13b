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
use super::manifest::{Entry, Manifest};
use super::path_text;
use super::scan::{Now, look};
use super::{CheckpointError, CheckpointLimits};
use crate::workspace::{ResolvedWorkspace, TEMPORARY_PREFIX, lock_name, write_new};

/// The result of a restore; paths are relative to the root.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restored {
    /// Paths that were restored.
    pub changed: Vec<PathBuf>,
    /// Paths that differ and were not restored: too large to store, ignored, not a file, or a directory that contains other files.
    pub left: Vec<PathBuf>,
}

/// A step that restores one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Step {
    #[serde(with = "path_text")]
    pub(super) path: PathBuf,
    /// The entry after the turn.
    pub(super) from: Option<Entry>,
    /// The entry to restore.
    pub(super) to: Option<Entry>,
}

impl Step {
    /// Returns whether the stored content suffices for the step.
    fn is_possible(&self) -> bool {
        match (&self.from, &self.to) {
            (Some(Entry::Unseen), None) => false,
            (_, to) => to.as_ref().is_none_or(Entry::is_kept),
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
    fn goes_first(&self) -> bool {
        let is_directory = |entry: &Option<Entry>| entry.as_ref().is_some_and(Entry::is_directory);
        self.from
            .as_ref()
            .is_some_and(|from| *from != Entry::Unseen)
            && (self.to.is_none() || is_directory(&self.from) != is_directory(&self.to))
    }

    /// Returns whether this is a possible state before, during or after this step.
    fn may_find(&self, now: &Now) -> bool {
        now.is(self.from.as_ref())
            || now.is(self.to.as_ref())
            || (self.goes_first() && *now == Now::Nothing)
    }
}

/// Returns the steps from one state to another.
pub(super) fn steps(from: &Manifest, to: &Manifest) -> Vec<Step> {
    let differing = from.differing(to).into_iter();
    let step = |path: &PathBuf| Step {
        path: path.clone(),
        from: from.get(path),
        to: to.get(path),
    };
    differing.map(step).collect()
}

/// Executable steps, ordered by path, and the paths that cannot be restored.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    pub(super) left: Vec<PathBuf>,
}

impl Plan {
    pub(super) fn of(mut steps: Vec<Step>) -> Self {
        steps.sort_by(|a, b| a.path.cmp(&b.path));
        let (steps, left): (Vec<_>, Vec<_>) = steps.into_iter().partition(Step::is_possible);
        Self {
            steps,
            left: left.into_iter().map(|step| step.path).collect(),
        }
    }
}

/// Executes the steps in one root.
pub(super) struct Hand<'a> {
    pub(super) at: &'a ResolvedWorkspace,
    pub(super) limits: &'a CheckpointLimits,
    pub(super) blobs: &'a Blobs,
}

impl Hand<'_> {
    /// Returns the paths that are in neither the state after the turn nor the state before it.
    pub(super) fn foreign(&self, steps: &[Step]) -> Vec<PathBuf> {
        let by_path: BTreeMap<&Path, &Step> =
            steps.iter().map(|it| (it.path.as_path(), it)).collect();
        let mut foreign = Vec::new();
        for step in steps {
            match self.now(&step.path) {
                Some(now) if step.may_find(&now) => {
                    self.find_blocking(step, &now, &by_path, &mut foreign);
                }
                _ => foreign.push(step.path.clone()),
            }
        }
        foreign.sort();
        foreign.dedup();
        foreign
    }

    /// Collects paths of other programs that block a step.
    fn find_blocking(
        &self,
        step: &Step,
        now: &Now,
        steps: &BTreeMap<&Path, &Step>,
        foreign: &mut Vec<PathBuf>,
    ) {
        if step.to.is_none() || now.is(step.to.as_ref()) {
            return;
        }
        for above in step.path.ancestors().skip(1) {
            if above.as_os_str().is_empty() {
                break;
            }
            let there = self.now(above);
            let is_fine = match &there {
                Some(Now::Nothing) => true,
                Some(Now::There(entry)) => entry.is_directory(),
                None => false,
            };
            let becomes = steps.get(above).and_then(|step| step.to.as_ref());
            if !is_fine && !becomes.is_some_and(Entry::is_directory) {
                foreign.push(above.to_owned());
            }
        }
        let Now::There(Entry::Directory { .. }) = now else {
            return;
        };
        if step.goes_first() {
            self.find_others_in(&step.path, steps, foreign);
        }
    }

    /// Collects entries that no step removes from a directory that becomes a file.
    fn find_others_in(
        &self,
        path: &Path,
        steps: &BTreeMap<&Path, &Step>,
        foreign: &mut Vec<PathBuf>,
    ) {
        let entries = self.directory(path).and_then(|directory| {
            let directory = directory.ok_or(io::ErrorKind::NotFound)?;
            directory.entries()?.collect::<io::Result<Vec<_>>>()
        });
        let Ok(entries) = entries else {
            foreign.push(path.to_owned());
            return;
        };
        for entry in entries {
            let below = path.join(entry.file_name());
            let goes = steps.get(below.as_path()).is_some_and(|it| it.to.is_none());
            if !goes {
                foreign.push(below);
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.find_others_in(&below, steps, foreign);
            }
        }
    }

    /// Verifies that all content is available before any path is touched.
    pub(super) fn check_content(&self, steps: &[Step]) -> Result<(), CheckpointError> {
        for step in steps {
            if let Some(Entry::File { digest, .. }) = &step.to {
                self.blobs.get(digest)?;
            }
        }
        Ok(())
    }

    /// Executes the steps. Paths that something else changed meanwhile are not touched.
    pub(super) fn apply(&self, plan: Plan) -> Result<Restored, CheckpointError> {
        let Plan { steps, left } = plan;
        let mut restored = Restored {
            left,
            ..Restored::default()
        };
        // Deeper paths come later in the order and are removed first.
        for step in steps.iter().rev().filter(|step| step.goes_first()) {
            let removed = self.remove(step);
            if !removed.map_err(partly("remove", step))? {
                restored.left.push(step.path.clone());
            }
        }
        for (number, step) in steps.iter().enumerate() {
            let Some(to) = &step.to else { continue };
            let made = self.make(step, to, &format!("{TEMPORARY_PREFIX}restore-{number}"))?;
            if !made {
                restored.left.push(step.path.clone());
            }
        }
        // A directory without write permission gets its mode after its contents are complete.
        for step in steps.iter().rev() {
            if let Some(Entry::Directory { mode }) = step.to {
                self.set_mode(&step.path, mode)
                    .map_err(partly("set the mode of", step))?;
            }
        }
        restored.left.sort();
        restored.left.dedup();
        let done = steps.into_iter().map(|step| step.path);
        let done = done.filter(|path| restored.left.binary_search(path).is_err());
        restored.changed = done.collect();
        Ok(restored)
    }

    /// Reverses steps. Returns whether each path is again in the state after the turn.
    fn roll_back(&self, steps: &[Step]) -> Result<bool, CheckpointError> {
        self.apply(Plan::of(steps.iter().map(Step::reversed).collect()))?;
        let is_back = |step: &Step| {
            let now = self.now(&step.path);
            now.is_some_and(|now| now.is(step.from.as_ref()))
        };
        Ok(steps.iter().all(is_back))
    }

    /// Removes the current entry of a step. Returns whether it is gone.
    fn remove(&self, step: &Step) -> io::Result<bool> {
        let Some(name) = step.path.file_name() else {
            return Ok(false);
        };
        let Some(parent) = self.parent(&step.path)? else {
            return Ok(true);
        };
        let _changing = lock_name(&parent, name)?;
        match self.look(&parent, name, &step.path) {
            Some(Now::Nothing) => return Ok(true),
            Some(now) if now.is(step.from.as_ref()) => {}
            // It may already have the state to restore.
            Some(now) => return Ok(now.is(step.to.as_ref())),
            None => return Ok(false),
        }
        act()?;
        if !step.from.as_ref().is_some_and(Entry::is_directory) {
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
    fn make(&self, step: &Step, to: &Entry, temporary: &str) -> Result<bool, CheckpointError> {
        let failed = partly("write", step);
        let Some(name) = step.path.file_name() else {
            return Ok(false);
        };
        let Some(parent) = self.made_parent(&step.path).map_err(&failed)? else {
            return Ok(false);
        };
        let _changing = lock_name(&parent, name).map_err(&failed)?;
        // A killed process may have left it.
        let _ = parent.remove_file(temporary);
        match self.look(&parent, name, &step.path) {
            Some(now) if now.is(Some(to)) => return Ok(true),
            Some(Now::Nothing) if step.goes_first() => {}
            Some(now) if !step.goes_first() && step.may_find(&now) => {}
            _ => return Ok(false),
        }
        act().map_err(&failed)?;
        match to {
            Entry::Directory { .. } => parent.create_dir(name).map_err(&failed)?,
            Entry::Link { target } => {
                symlinkat(target, &parent, temporary)
                    .map_err(io::Error::from)
                    .map_err(&failed)?;
                rename(&parent, temporary, name).map_err(&failed)?;
            }
            Entry::File { mode, digest, .. } => {
                let bytes = self.blobs.get(digest)?;
                let permissions = Some(Permissions::from_mode(*mode));
                write_new(&parent, temporary, &bytes, permissions)
                    .and_then(|()| rename(&parent, temporary, name))
                    .inspect_err(|_| drop(parent.remove_file(temporary)))
                    .map_err(&failed)?;
            }
            Entry::Unkept { .. } | Entry::Unseen => return Ok(false),
        }
        Ok(true)
    }

    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        match self.directory(path)? {
            Some(directory) => {
                act()?;
                directory.set_permissions(".", Permissions::from_mode(mode))
            }
            None => Ok(()),
        }
    }

    /// Returns the current state of a path; `None` if it cannot be determined or is outside the scanned files.
    fn now(&self, path: &Path) -> Option<Now> {
        let name = path.file_name()?;
        match self.parent(path) {
            Ok(Some(parent)) => self.look(&parent, name, path),
            Ok(None) => Some(Now::Nothing),
            Err(_) => None,
        }
    }

    fn look(&self, parent: &Dir, name: &OsStr, path: &Path) -> Option<Now> {
        look(self.at, parent, name, path, self.limits.file_bytes)
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

    /// Opens the directory of a path and creates missing parts; `None` if something else is in the way.
    fn made_parent(&self, path: &Path) -> io::Result<Option<Dir>> {
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
pub(super) fn apply_all(roots: &[(Hand<'_>, Vec<Step>)]) -> Result<Restored, CheckpointError> {
    let mut restored = Restored::default();
    for (hand, steps) in roots {
        match hand.apply(Plan::of(steps.clone())) {
            Ok(more) => {
                restored.changed.extend(more.changed);
                restored.left.extend(more.left);
            }
            Err(error) => return Err(roll_back_all(roots, error)),
        }
    }
    Ok(restored)
}

fn roll_back_all(roots: &[(Hand<'_>, Vec<Step>)], error: CheckpointError) -> CheckpointError {
    let mut is_back = true;
    for (hand, steps) in roots {
        is_back &= hand.roll_back(steps).unwrap_or_else(|error| {
            let root = hand.at.root_path().display();
            tracing::warn!(%root, %error, "a restore that failed could not be rolled back");
            false
        });
    }
    match error {
        CheckpointError::Partly {
            doing,
            path,
            source,
        } if is_back => CheckpointError::RolledBack {
            doing,
            path,
            source,
        },
        error => error,
    }
}

fn rename(parent: &Dir, temporary: &str, name: &OsStr) -> io::Result<()> {
    act()?;
    parent.rename(temporary, parent, name)
}

fn partly(doing: &'static str, step: &Step) -> impl Fn(io::Error) -> CheckpointError {
    let path = step.path.clone();
    move |source| CheckpointError::Partly {
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
fn act() -> io::Result<()> {
    #[cfg(test)]
    super::tests::act()?;
    Ok(())
}
