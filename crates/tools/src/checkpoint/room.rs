//! The stored data of one workspace.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::blobs::{Blobs, Put, Sync, digest_of, write_whole};
use super::index::Index;
use super::manifest::{CheckpointId, Manifest};
use super::restore::Hand;
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
    /// Loaded from disk on first use.
    index: Option<Index>,
}

/// Identifies the workspace of a room, for retention and for people who inspect the store.
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
            // Without the index, the next scan reads every file, which is harmless.
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

    /// Removes index entries of files whose content is removed.
    pub(super) fn forget(&mut self, is_kept: impl Fn(&str) -> bool) -> io::Result<()> {
        let path = self.index_path();
        let index = self.index.get_or_insert_with(|| Index::load(&path));
        index.retain(is_kept);
        index.save(&path)
    }
}
