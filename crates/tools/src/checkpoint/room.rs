//! What is kept of one workspace.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::blobs::{Blobs, Put, Sync, digest_of, write_whole};
use super::index::Index;
use super::manifest::{CheckpointId, Manifest};
use super::restore::{Hand, Plan, Restored, Step};
use super::scan::{Found, Scan};
use super::{CheckpointError, CheckpointLimits, path_text};
use crate::workspace::ResolvedWorkspace;

const VERSION: u32 = 1;

#[derive(Debug)]
pub(super) struct Room {
    directory: PathBuf,
    root: PathBuf,
    pub(super) blobs: Blobs,
    pub(super) manifests: Blobs,
    /// Read from the disk when it is needed first.
    index: Option<Index>,
}

/// A restore that has begun.
#[derive(Serialize, Deserialize)]
struct Restoring {
    version: u32,
    steps: Vec<Step>,
}

/// Which workspace a room is for; people and sweeps read it.
#[derive(Serialize, Deserialize)]
struct Named {
    version: u32,
    #[serde(with = "path_text")]
    root: PathBuf,
}

impl Room {
    pub(super) fn open(directory: PathBuf, root: &Path) -> Self {
        Self {
            blobs: Blobs::at(directory.join("content")),
            manifests: Blobs::at(directory.join("checkpoints")),
            directory,
            root: root.to_owned(),
            index: None,
        }
    }

    fn index_path(&self) -> PathBuf {
        self.directory.join("index.json")
    }

    fn restoring_path(&self) -> PathBuf {
        self.directory.join("restoring.json")
    }

    /// Keeps what is there now. Adds how many bytes that took, also where it fails.
    pub(super) fn take(
        &mut self,
        at: &ResolvedWorkspace,
        limits: &CheckpointLimits,
        written: &mut u64,
    ) -> Result<CheckpointId, CheckpointError> {
        let older = match self.index.take() {
            Some(index) => index,
            None => Index::load(&self.index_path()),
        };
        let found = Scan::new(at, limits, &self.blobs, &older).run(written);
        let Found { manifest, index } = match found {
            Ok(found) => found,
            Err(error) => {
                self.index = Some(older);
                return Err(error);
            }
        };
        let bytes = manifest.to_bytes().map_err(io::Error::from);
        let bytes = bytes.map_err(CheckpointError::io("keep", &self.directory))?;
        let id = digest_of(&bytes);
        if self.manifests.put(&id, &bytes)? == Put::Written {
            *written += bytes.len() as u64;
            self.name()?;
        }
        if index != older {
            // Without it all is read again, which is no harm.
            if let Err(error) = index.save(&self.index_path()) {
                tracing::debug!(%error, "what is known of files is not kept");
            }
        }
        self.index = Some(index);
        Ok(CheckpointId(id))
    }

    fn name(&self) -> Result<(), CheckpointError> {
        let path = self.directory.join("root.json");
        if path.exists() {
            return Ok(());
        }
        let named = Named {
            version: VERSION,
            root: self.root.clone(),
        };
        let written = serde_json::to_vec(&named).map_err(io::Error::from);
        let written = written.and_then(|bytes| write_whole(&path, &bytes, Sync::No));
        written.map_err(CheckpointError::io("write", &path))
    }

    pub(super) fn manifest(&self, id: &CheckpointId) -> Result<Manifest, CheckpointError> {
        let bytes = self.manifests.get(&id.0)?;
        Manifest::from_bytes(&bytes).ok_or_else(|| CheckpointError::Damaged {
            path: self.directory.join(&id.0),
        })
    }

    pub(super) fn is_restoring(&self) -> bool {
        self.restoring_path().exists()
    }

    pub(super) fn hand<'a>(
        &'a self,
        at: &'a ResolvedWorkspace,
        limits: &'a CheckpointLimits,
    ) -> Hand<'a> {
        Hand {
            at,
            limits,
            blobs: &self.blobs,
        }
    }

    /// Restores, once nothing speaks against it.
    pub(super) fn restore(
        &self,
        at: &ResolvedWorkspace,
        limits: &CheckpointLimits,
        plan: Plan,
    ) -> Result<Restored, CheckpointError> {
        let hand = self.hand(at, limits);
        let foreign = hand.foreign(&plan.steps);
        if !foreign.is_empty() {
            return Err(CheckpointError::ForeignEdits { paths: foreign });
        }
        hand.check_content(&plan.steps)?;
        let path = self.restoring_path();
        let restoring = Restoring {
            version: VERSION,
            steps: plan.steps.clone(),
        };
        let written = serde_json::to_vec(&restoring).map_err(io::Error::from);
        let written = written.and_then(|bytes| write_whole(&path, &bytes, Sync::Yes));
        written.map_err(CheckpointError::io("write", &path))?;
        let restored = hand.apply(plan);
        // Also after a failure: each path is as it was before or after, so the same can be asked for again.
        fs::remove_file(&path).map_err(CheckpointError::io("remove", &path))?;
        restored
    }

    /// Finishes a restore in which a process was killed. What was changed since stays as it is.
    pub(super) fn finish(
        &self,
        at: &ResolvedWorkspace,
        limits: &CheckpointLimits,
    ) -> Result<(), CheckpointError> {
        let path = self.restoring_path();
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(CheckpointError::io("read", &path)(error)),
        };
        let restoring: Restoring = serde_json::from_slice(&bytes)
            .ok()
            .filter(|restoring: &Restoring| restoring.version == VERSION)
            .ok_or_else(|| CheckpointError::Damaged { path: path.clone() })?;
        let steps = Plan::of(restoring.steps);
        let restored = self.hand(at, limits).apply(steps);
        fs::remove_file(&path).map_err(CheckpointError::io("remove", &path))?;
        match restored {
            Ok(restored) => {
                let (root, left) = (at.root_path().display(), restored.left.len());
                tracing::info!(%root, left, "a restore of files was finished");
            }
            Err(error) => {
                let root = at.root_path().display();
                tracing::warn!(%root, %error, "a restore of files could not be finished");
            }
        }
        Ok(())
    }

    /// Forgets what is known of files whose content goes.
    pub(super) fn forget(&mut self, is_kept: impl Fn(&str) -> bool) -> io::Result<()> {
        let path = self.index_path();
        let index = self.index.get_or_insert_with(|| Index::load(&path));
        index.retain(is_kept);
        index.save(&path)
    }
}
