//! Records of restores in progress. One record lists the steps in all roots, so that a restore that was killed is finished in all of them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use super::blobs::{Fsync, digest_of, entries, write_file};
use super::restore::RestoreStep;
use super::retention::workspaces_directory;
use super::workspace_store::StoredRoot;
use super::{CheckpointError, lock, path_text};

const VERSION: u32 = 1;

/// A restore in progress, across all of its roots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Intent {
    version: u32,
    /// Ordered by path.
    pub(super) roots: Vec<RootSteps>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RootSteps {
    #[serde(with = "path_text")]
    pub(super) root: PathBuf,
    pub(super) steps: Vec<RestoreStep>,
}

/// A restore of one root, as earlier versions recorded it in the directory of the root.
#[derive(Deserialize)]
struct SingleRootIntent {
    version: u32,
    steps: Vec<RestoreStep>,
}

/// The records of restores in progress.
#[derive(Debug)]
pub(super) struct IntentLog {
    directory: PathBuf,
    /// Held while a record is read and changed.
    changing: Mutex<()>,
}

impl IntentLog {
    /// Opens the records of a store.
    pub(super) fn open(store: &Path) -> io::Result<Self> {
        let intents = Self {
            directory: store.join("restores"),
            changing: Mutex::default(),
        };
        intents.adopt_single_root_intents(store)?;
        Ok(intents)
    }

    /// Records a restore durably; returns the path of the record.
    pub(super) fn begin(&self, mut roots: Vec<RootSteps>) -> Result<PathBuf, CheckpointError> {
        roots.sort_by(|a, b| a.root.cmp(&b.root));
        let intent = Intent {
            version: VERSION,
            roots,
        };
        let failed = CheckpointError::io("write", &self.directory);
        let bytes = serde_json::to_vec(&intent).map_err(|error| failed(error.into()))?;
        let path = self.directory.join(format!("{}.json", digest_of(&bytes)));
        write_file(&path, &bytes, Fsync::Yes).map_err(CheckpointError::io("write", &path))?;
        Ok(path)
    }

    pub(super) fn end(&self, path: &Path) -> Result<(), CheckpointError> {
        fs::remove_file(path).map_err(CheckpointError::io("remove", path))
    }

    /// Returns the restores that were begun and not finished.
    pub(super) fn unfinished(&self) -> Result<Vec<(PathBuf, Intent)>, CheckpointError> {
        let failed = CheckpointError::io("read", &self.directory);
        let mut unfinished = Vec::new();
        for entry in entries(&self.directory).map_err(&failed)? {
            let path = entry.path();
            // A record that is being written has a different extension.
            if path.extension().is_none_or(|it| it != "json") {
                continue;
            }
            match fs::read(&path) {
                Ok(bytes) => unfinished.push((path.clone(), read(&bytes, &path)?)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(CheckpointError::io("read", &path)(error)),
            }
        }
        Ok(unfinished)
    }

    /// Finishes the unfinished restores of one root; their other roots are not changed.
    pub(super) fn finish_root(
        &self,
        root: &Path,
        finish: impl Fn(Vec<RestoreStep>),
    ) -> Result<(), CheckpointError> {
        let _changing = lock(&self.changing);
        for (path, mut intent) in self.unfinished()? {
            let Some(index) = intent.roots.iter().position(|it| it.root == root) else {
                continue;
            };
            finish(intent.roots.remove(index).steps);
            if !intent.roots.is_empty() {
                self.begin(intent.roots)?;
            }
            self.end(&path)?;
        }
        Ok(())
    }

    /// Moves the records of earlier versions to this directory.
    fn adopt_single_root_intents(&self, store: &Path) -> io::Result<()> {
        for workspace in entries(&workspaces_directory(store))? {
            let path = workspace.path().join("restoring.json");
            let bytes = match fs::read(&path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let intent: SingleRootIntent = serde_json::from_slice(&bytes)?;
            if intent.version != VERSION {
                let message = format!("{} has an unknown version", path.display());
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            let StoredRoot { root, .. } =
                serde_json::from_slice(&fs::read(workspace.path().join("root.json"))?)?;
            let roots = vec![RootSteps {
                root,
                steps: intent.steps,
            }];
            self.begin(roots).map_err(io::Error::other)?;
            fs::remove_file(&path)?;
        }
        Ok(())
    }
}

fn read(bytes: &[u8], path: &Path) -> Result<Intent, CheckpointError> {
    let intent = serde_json::from_slice(bytes).ok();
    intent
        .filter(|intent: &Intent| intent.version == VERSION)
        .ok_or_else(|| CheckpointError::Damaged {
            path: path.to_owned(),
        })
}
