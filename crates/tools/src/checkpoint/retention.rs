//! Removal of checkpoints that are no longer needed.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLockWriteGuard};

use super::blobs::entries;
use super::room::Room;
use super::{CheckpointError, CheckpointId, Checkpoints, lock};

/// Returns the directory that contains the rooms.
pub(super) fn rooms_of(directory: &Path) -> PathBuf {
    directory.join("workspaces")
}

/// Returns the size of a store in bytes.
pub(super) fn bytes_in(directory: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for room in entries(&rooms_of(directory))? {
        let room = Room::open(room.path(), Path::new(""));
        for list in [room.blobs.list()?, room.manifests.list()?] {
            bytes += list.iter().map(|(_, size)| size).sum::<u64>();
        }
    }
    Ok(bytes)
}

/// Checkpoints that are needed together, such as those of a turn.
pub(super) type Needed = Vec<(PathBuf, CheckpointId)>;

/// File names, by the directory of their room.
type Names = HashMap<PathBuf, HashSet<String>>;

impl Checkpoints {
    /// Removes everything that none of these checkpoints needs; each is listed with the root of its workspace. If the list needs more than the store
    /// may contain, its first entries are removed too. Returns how many were retained, counted from the end of the list.
    pub fn keep(&self, list: &[(PathBuf, CheckpointId)]) -> Result<usize, CheckpointError> {
        let groups: Vec<Needed> = list.iter().map(|it| vec![it.clone()]).collect();
        let limit = self.shared.limits.stored_bytes;
        self.keep_newest(&self.sweeping(), &groups, limit)
    }

    /// Waits until no operation is running in the store.
    pub(super) fn sweeping(&self) -> RwLockWriteGuard<'_, ()> {
        let sweep = self.shared.sweep.write();
        sweep.unwrap_or_else(PoisonError::into_inner)
    }

    /// Retains as many groups from the end of the list as fit, and removes everything else.
    pub(super) fn keep_newest(
        &self,
        _sweeping: &RwLockWriteGuard<'_, ()>,
        groups: &[Needed],
        limit: u64,
    ) -> Result<usize, CheckpointError> {
        let directory = &self.shared.directory;
        let failed = CheckpointError::io("clean up", directory);
        let mut needed = Names::new();
        let (mut bytes, mut kept) = (0, 0);
        for group in groups.iter().rev() {
            let (more, names) = self.needs(group, &needed);
            if bytes + more > limit {
                break;
            }
            bytes += more;
            kept += 1;
            for (room, names) in names {
                needed.entry(room).or_default().extend(names);
            }
        }
        // An unfinished restore needs the content of its roots.
        let restores = self.shared.intents.open_ones()?;
        let restoring: HashSet<PathBuf> = restores
            .iter()
            .flat_map(|(_, intent)| &intent.roots)
            .map(|it| self.room_path(&it.root))
            .collect();
        for room in entries(&rooms_of(directory)).map_err(&failed)? {
            if restoring.contains(&room.path()) {
                continue;
            }
            let needed = needed.remove(&room.path()).unwrap_or_default();
            self.sweep_room(&room.path(), &needed).map_err(&failed)?;
        }
        let stored = bytes_in(directory).map_err(&failed)?;
        *lock(&self.shared.stored) = Some(stored);
        Ok(kept)
    }

    /// Returns the files that a group needs in addition to `needed`, and their total size in bytes.
    fn needs(&self, group: &Needed, needed: &Names) -> (u64, Names) {
        let (mut bytes, mut more) = (0, Names::new());
        for (root, id) in group {
            let directory = self.room_path(root);
            let room = Room::open(directory.clone(), root);
            let known = needed.get(&directory);
            let names = more.entry(directory).or_default();
            let mut is_new = |name: &str| {
                !known.is_some_and(|known| known.contains(name)) && names.insert(name.to_owned())
            };
            if !is_new(&id.0) {
                continue;
            }
            // An unreadable manifest needs nothing.
            let Ok(manifest) = room.manifest(id) else {
                continue;
            };
            bytes += room.manifests.size(&id.0);
            for (digest, size) in manifest.digests() {
                if is_new(digest) {
                    bytes += size;
                }
            }
        }
        (bytes, more)
    }

    fn sweep_room(&self, directory: &Path, needed: &HashSet<String>) -> io::Result<()> {
        let is_needed = |path: &Path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| needed.contains(name))
        };
        let room = Room::open(directory.to_owned(), Path::new(""));
        // The index is pruned first, because it must not refer to removed content.
        let mut open = lock(&self.shared.rooms);
        let of_open = open
            .iter()
            .find(|(root, _)| self.room_path(root) == directory);
        match of_open.map(|(_, room)| room.clone()) {
            Some(room) => lock(&room).forget(|digest| needed.contains(digest))?,
            None => Room::open(directory.to_owned(), Path::new(""))
                .forget(|digest| needed.contains(digest))?,
        }
        for list in [room.manifests.list()?, room.blobs.list()?] {
            for (path, _) in list.iter().filter(|(path, _)| !is_needed(path)) {
                fs::remove_file(path)?;
            }
        }
        if needed.is_empty() {
            open.retain(|root, _| self.room_path(root) != directory);
            fs::remove_dir_all(directory)?;
        }
        Ok(())
    }
}
