//! The stored data of one workspace.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::blobs::{Blobs, Fsync, digest_of, write_json};
use super::index::Index;
use super::manifest::{CheckpointId, Manifest};
use super::restore::RestoreContext;
use super::scan::Scan;
use super::{CheckpointError, CheckpointLimits, path_text};
use crate::workspace::ResolvedWorkspace;

const VERSION: u32 = 1;

#[derive(Debug)]
pub(super) struct WorkspaceStore {
    directory: PathBuf,
    root: PathBuf,
    pub(super) blobs: Blobs,
    pub(super) manifests: Blobs,
    /// Loaded from disk on first use.
    index: Option<Index>,
}

/// Identifies the workspace of a directory in the store, for retention and for operators who inspect the store.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredRoot {
    version: u32,
    #[serde(with = "path_text")]
    pub(super) root: PathBuf,
}

impl WorkspaceStore {
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

    /// Takes a checkpoint. Adds the bytes written to `written`, even on failure.
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
        let scan = Scan::new(at, limits, &self.blobs, &older).run(written);
        let (manifest, index) = match scan {
            Ok(result) => result,
            Err(error) => {
                self.index = Some(older);
                return Err(error);
            }
        };
        let failed = CheckpointError::io("store", &self.directory);
        let bytes = manifest.to_bytes().map_err(|error| failed(error.into()))?;
        let id = digest_of(&bytes);
        let stored = self.manifests.put(&id, &bytes)?;
        *written += stored;
        if stored > 0 {
            self.record_root()?;
        }
        if index != older {
            // Without the index, the next scan reads every file, which is harmless.
            if let Err(error) = index.save(&self.index_path()) {
                tracing::debug!(%error, "the index of a workspace was not stored");
            }
        }
        self.index = Some(index);
        Ok(CheckpointId(id))
    }

    fn record_root(&self) -> Result<(), CheckpointError> {
        let path = self.directory.join("root.json");
        if path.exists() {
            return Ok(());
        }
        let root = StoredRoot {
            version: VERSION,
            root: self.root.clone(),
        };
        write_json(&path, &root, Fsync::No)
    }

    pub(super) fn manifest(&self, id: &CheckpointId) -> Result<Manifest, CheckpointError> {
        let bytes = self.manifests.get(&id.0)?;
        Manifest::from_bytes(&bytes).ok_or_else(|| CheckpointError::Damaged {
            path: self.directory.join(&id.0),
        })
    }

    pub(super) fn restore_context<'a>(
        &'a self,
        at: &'a ResolvedWorkspace,
        limits: &'a CheckpointLimits,
    ) -> RestoreContext<'a> {
        RestoreContext {
            at,
            limits,
            blobs: &self.blobs,
        }
    }

    /// Removes index entries of files whose content is removed.
    pub(super) fn prune_index(&mut self, is_needed: impl Fn(&str) -> bool) -> io::Result<()> {
        let path = self.index_path();
        let index = self.index.get_or_insert_with(|| Index::load(&path));
        index.retain(is_needed);
        index.save(&path)
    }
}
