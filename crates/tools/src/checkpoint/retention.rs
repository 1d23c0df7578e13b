//! Removal of checkpoints that are no longer needed.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLockWriteGuard};

use super::blobs::entries;
use super::workspace_store::WorkspaceStore;
use super::{CheckpointError, CheckpointId, Checkpoints, lock};

/// Returns the directory that contains the stores of the workspaces.
pub(super) fn workspaces_directory(directory: &Path) -> PathBuf {
    directory.join("workspaces")
}

/// Returns the size of a store in bytes.
pub(super) fn bytes_in(directory: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for workspace in entries(&workspaces_directory(directory))? {
        let workspace = WorkspaceStore::open(workspace.path(), Path::new(""));
        for list in [workspace.blobs.list()?, workspace.manifests.list()?] {
            bytes += list.iter().map(|(_, size)| size).sum::<u64>();
        }
    }
    Ok(bytes)
}

/// Checkpoints that are needed together, such as those of a turn.
pub(super) type CheckpointGroup = Vec<(PathBuf, CheckpointId)>;

/// File names, by the directory of their workspace's store.
type FileNames = HashMap<PathBuf, HashSet<String>>;

impl Checkpoints {
    /// Waits until no operation is running in the store.
    pub(super) fn lock_for_removal(&self) -> RwLockWriteGuard<'_, ()> {
        let sweep = self.shared.sweep.write();
        sweep.unwrap_or_else(PoisonError::into_inner)
    }

    /// Retains as many groups from the end of the list as fit into `limit` bytes, and removes everything else. Returns the number of retained groups.
    pub(super) fn retain_newest(
        &self,
        _locked: &RwLockWriteGuard<'_, ()>,
        groups: &[CheckpointGroup],
        limit: u64,
    ) -> Result<usize, CheckpointError> {
        let directory = &self.shared.directory;
        let failed = CheckpointError::io("clean up", directory);
        let mut needed = FileNames::new();
        let (mut bytes, mut retained) = (0, 0);
        for group in groups.iter().rev() {
            let (more, names) = self.needs(group, &needed);
            if bytes + more > limit {
                break;
            }
            bytes += more;
            retained += 1;
            for (directory, names) in names {
                needed.entry(directory).or_default().extend(names);
            }
        }
        // An unfinished restore needs the content of its roots.
        let restores = self.shared.intents.unfinished()?;
        let restoring: HashSet<PathBuf> = restores
            .iter()
            .flat_map(|(_, intent)| &intent.roots)
            .map(|it| self.workspace_directory(&it.root))
            .collect();
        for workspace in entries(&workspaces_directory(directory)).map_err(&failed)? {
            let path = workspace.path();
            if !restoring.contains(&path) {
                let needed = needed.remove(&path).unwrap_or_default();
                self.sweep_workspace(&path, &needed).map_err(&failed)?;
            }
        }
        let stored = bytes_in(directory).map_err(&failed)?;
        *lock(&self.shared.stored) = Some(stored);
        Ok(retained)
    }

    /// Returns the files that a group needs in addition to `needed`, and their total size in bytes.
    fn needs(&self, group: &CheckpointGroup, needed: &FileNames) -> (u64, FileNames) {
        let (mut bytes, mut more) = (0, FileNames::new());
        for (root, id) in group {
            let directory = self.workspace_directory(root);
            let workspace = WorkspaceStore::open(directory.clone(), root);
            let counted = needed.get(&directory);
            let names = more.entry(directory).or_default();
            let mut is_new = |name: &str| {
                !counted.is_some_and(|names| names.contains(name)) && names.insert(name.to_owned())
            };
            if !is_new(&id.0) {
                continue;
            }
            // An unreadable manifest needs nothing.
            let Ok(manifest) = workspace.manifest(id) else {
                continue;
            };
            bytes += workspace.manifests.size(&id.0);
            for (digest, size) in manifest.digests() {
                if is_new(digest) {
                    bytes += size;
                }
            }
        }
        (bytes, more)
    }

    fn sweep_workspace(&self, directory: &Path, needed: &HashSet<String>) -> io::Result<()> {
        let is_needed = |path: &Path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| needed.contains(name))
        };
        let mut workspace = WorkspaceStore::open(directory.to_owned(), Path::new(""));
        // The index is pruned first, because it must not refer to removed content.
        let mut open = lock(&self.shared.workspaces);
        let is_needed_digest = |digest: &str| needed.contains(digest);
        match open
            .iter()
            .find(|(root, _)| self.workspace_directory(root) == directory)
        {
            Some((_, open)) => lock(open).prune_index(is_needed_digest)?,
            None => workspace.prune_index(is_needed_digest)?,
        }
        for list in [workspace.manifests.list()?, workspace.blobs.list()?] {
            for (path, _) in list.iter().filter(|(path, _)| !is_needed(path)) {
                fs::remove_file(path)?;
            }
        }
        if needed.is_empty() {
            open.retain(|root, _| self.workspace_directory(root) != directory);
            fs::remove_dir_all(directory)?;
        }
        Ok(())
    }
}
