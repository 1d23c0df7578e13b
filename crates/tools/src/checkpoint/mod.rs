//! States of workspaces before and after the calls of turns, with which a turn's changes can be undone.
//!
//! The store is a directory of the host, hidden from tools. Content is stored once by its digest; a checkpoint is a list of paths. The store does not
//! use git. Of a repository's configuration only `.gitignore` is honored: ignored files are not stored.
//!
//! Everything here blocks on disk I/O: call it from a blocking thread.

mod blobs;
mod error;
mod guard;
mod index;
mod intent;
mod manifest;
mod own;
mod path_text;
mod restore;
mod retention;
mod room;
mod scan;
#[cfg(test)]
mod tests;
mod turns;
mod undo;
#[cfg(test)]
mod undo_tests;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard};

pub use error::CheckpointError;
pub use guard::ChangingFiles;
pub(crate) use guard::changing_now;
pub use manifest::{Changes, CheckpointId};
pub(crate) use own::OwnWrite;
pub use restore::Restored;
pub use turns::{Changing, ChangingTurn};
pub use undo::{CutOffCalls, UndoneTurn};

use blobs::digest_of;
use intent::{Intent, Intents, RootSteps};
use manifest::Manifest;
use restore::{Plan, Step};
use room::Room;
use turns::{Active, Known};

use crate::environments::Environments;
use crate::lock::lock;
use crate::workspace::ResolvedWorkspace;

/// Limits of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointLimits {
    /// Maximum number of files, directories and links of a workspace. A larger one has no checkpoints.
    pub files: u64,
    /// Maximum size of a stored file in bytes. Of a larger one only the fact of a change is recorded.
    pub file_bytes: u64,
    /// Maximum size of a workspace in bytes. A larger one has no checkpoints.
    pub total_bytes: u64,
    /// Maximum size of the store in bytes. The oldest turns are removed first.
    pub stored_bytes: u64,
}

impl Default for CheckpointLimits {
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Self {
            files: 100_000,
            file_bytes: 10 * MIB,
            total_bytes: 512 * MIB,
            stored_bytes: 1024 * MIB,
        }
    }
}

/// The store of checkpoints. A cheap handle: all clones share the same store.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    directory: PathBuf,
    limits: CheckpointLimits,
    intents: Intents,
    /// One entry for each root that is in use.
    rooms: Mutex<HashMap<PathBuf, Arc<Mutex<Room>>>>,
    /// Write-locked by retention, read-locked by all other operations. Acquired before all other locks, and only once per operation.
    sweep: RwLock<()>,
    /// Approximate size of the store in bytes; computed on first use.
    stored: Mutex<Option<u64>>,
    /// Calls and restores in progress.
    active: Mutex<Vec<Active>>,
    next_active: AtomicU64,
    /// Notified when a call or restore ends.
    ended: Condvar,
    /// Held while the record of a turn is changed.
    records: Mutex<()>,
    known: Mutex<Known>,
}

/// An operation in the store: nothing is removed meanwhile. Do not nest: a waiting retention run would block the second lock.
struct Entered<'a> {
    _sweep: RwLockReadGuard<'a, ()>,
}

impl Checkpoints {
    /// Opens a store and creates it if it does not exist. Only one process may have it open.
    pub fn open(directory: impl Into<PathBuf>, limits: CheckpointLimits) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;

        let directory = directory.into();
        let mut private = std::fs::DirBuilder::new();
        private.recursive(true).mode(0o700).create(&directory)?;
        let known = Mutex::new(Self::open_known(&directory)?);
        let intents = Intents::open(&directory)?;
        Ok(Self {
            shared: Arc::new(Shared {
                directory,
                limits,
                intents,
                rooms: Mutex::default(),
                sweep: RwLock::default(),
                stored: Mutex::default(),
                active: Mutex::default(),
                next_active: AtomicU64::default(),
                ended: Condvar::new(),
                records: Mutex::default(),
                known,
            }),
        })
    }

    /// Takes a checkpoint of the workspace.
    pub fn take(&self, at: &ResolvedWorkspace) -> Result<CheckpointId, CheckpointError> {
        self.take_in(&self.enter(), at)
    }

    fn take_in(
        &self,
        entered: &Entered<'_>,
        at: &ResolvedWorkspace,
    ) -> Result<CheckpointId, CheckpointError> {
        let room = self.room(entered, at.root_path());
        let mut room = lock(&room);
        self.finish(&room, at)?;
        let mut written = 0;
        let taken = room.take(at, &self.shared.limits, &mut written);
        // A failed attempt may have written content too.
        if let Some(stored) = &mut *lock(&self.shared.stored) {
            *stored += written;
        }
        taken
    }

    /// Returns the differences between two checkpoints of a workspace.
    pub fn changes(
        &self,
        root: &Path,
        a: &CheckpointId,
        b: &CheckpointId,
    ) -> Result<Changes, CheckpointError> {
        let (a, b) = self.manifests(&self.enter(), root, a, b)?;
        Ok(Changes::between(&a, &b))
    }

    /// Restores a workspace from one state to another. Only the differences between the two are touched; if something else changed any of them since
    /// the first state, nothing is touched.
    pub fn restore(
        &self,
        at: &ResolvedWorkspace,
        from: &CheckpointId,
        to: &CheckpointId,
    ) -> Result<Restored, CheckpointError> {
        let _working = self.work_alone(&[at.root_path()])?;
        let entered = self.enter();
        let (from, to) = self.manifests(&entered, at.root_path(), from, to)?;
        self.restore_all(&entered, vec![(at, restore::steps(&from, &to))])
    }

    fn manifests(
        &self,
        entered: &Entered<'_>,
        root: &Path,
        a: &CheckpointId,
        b: &CheckpointId,
    ) -> Result<(Manifest, Manifest), CheckpointError> {
        let room = self.room(entered, root);
        let room = lock(&room);
        Ok((room.manifest(a)?, room.manifest(b)?))
    }

    /// Returns the paths of these steps that something else changed.
    fn foreign(
        &self,
        entered: &Entered<'_>,
        at: &ResolvedWorkspace,
        steps: &[Step],
    ) -> Result<Vec<PathBuf>, CheckpointError> {
        let room = self.room(entered, at.root_path());
        let room = lock(&room);
        self.finish(&room, at)?;
        let plan = Plan::of(steps.to_vec());
        Ok(room.hand(at, &self.shared.limits).foreign(&plan.steps))
    }

    /// Restores all workspaces, which are ordered by root, or none. Nothing is touched if a path was changed by something else.
    fn restore_all(
        &self,
        entered: &Entered<'_>,
        plans: Vec<(&ResolvedWorkspace, Vec<Step>)>,
    ) -> Result<Restored, CheckpointError> {
        if let Some((at, _)) = plans.iter().find(|(at, _)| !at.policy().write) {
            let id = at.id().to_owned();
            return Err(CheckpointError::ReadOnly { id });
        }
        let rooms = self.rooms(entered, plans.iter().map(|(at, _)| at.root_path()));
        let rooms: Vec<_> = rooms.iter().map(|room| lock(room)).collect();
        let mut hands = Vec::new();
        let mut foreign = Vec::new();
        let mut left = Vec::new();
        for (room, (at, steps)) in rooms.iter().zip(plans) {
            self.finish(room, at)?;
            let plan = Plan::of(steps);
            let hand = room.hand(at, &self.shared.limits);
            foreign.extend(hand.foreign(&plan.steps));
            hand.check_content(&plan.steps)?;
            left.extend(plan.left);
            hands.push((hand, plan.steps));
        }
        if !foreign.is_empty() {
            return Err(CheckpointError::ForeignEdits { paths: foreign });
        }
        let roots = hands.iter().map(|(hand, steps)| RootSteps {
            root: hand.at.root_path().to_owned(),
            steps: steps.clone(),
        });
        let intent = self.shared.intents.begin(roots.collect())?;
        let restored = restore::apply_all(&hands);
        self.shared.intents.end(&intent)?;
        let mut restored = restored?;
        restored.left.extend(left);
        restored.left.sort();
        Ok(restored)
    }

    /// Finishes the restores of a workspace that a killed process left unfinished. Paths that were changed since are not touched.
    fn finish(&self, room: &Room, at: &ResolvedWorkspace) -> Result<(), CheckpointError> {
        let root = at.root_path();
        self.shared.intents.finish_root(root, |steps| {
            let hand = room.hand(at, &self.shared.limits);
            log_finished(&[root], restore::apply_all(&[(hand, steps)]));
        })
    }

    /// Finishes the restores that a killed process left unfinished, each in all of its roots. A restore that cannot be finished is rolled back. If no
    /// environment has one of its roots, the restore is logged and stays unfinished until one does.
    pub fn finish_restores(&self, environments: &Environments) {
        let open = match self.shared.intents.open_ones() {
            Ok(open) => open,
            Err(error) => {
                return tracing::warn!(%error, "interrupted restores of files are not finished");
            }
        };
        for (path, intent) in open {
            let finished = self.finish_intent(environments, intent);
            let ended = finished.and_then(|()| {
                let ended = self.shared.intents.end(&path);
                ended.map_err(|error| error.to_string())
            });
            if let Err(error) = ended {
                tracing::warn!(%error, "an interrupted restore of files is not finished");
            }
        }
    }

    fn finish_intent(&self, environments: &Environments, intent: Intent) -> Result<(), String> {
        let mut workspaces = Vec::new();
        for RootSteps { root, .. } in &intent.roots {
            let at = undo::resolved(environments, root, &[]);
            workspaces.push(at.map_err(|error| error.to_string())?);
        }
        let entered = self.enter();
        let roots: Vec<&Path> = intent.roots.iter().map(|it| it.root.as_path()).collect();
        let rooms = self.rooms(&entered, roots.iter().copied());
        let rooms: Vec<_> = rooms.iter().map(|room| lock(room)).collect();
        let steps = intent.roots.iter().map(|it| it.steps.clone());
        let hands = rooms.iter().zip(&workspaces).zip(steps);
        let hands: Vec<_> = hands
            .map(|((room, at), steps)| (room.hand(at, &self.shared.limits), steps))
            .collect();
        log_finished(&roots, restore::apply_all(&hands));
        Ok(())
    }

    /// Returns the directory of the store.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.shared.directory
    }

    fn enter(&self) -> Entered<'_> {
        let sweep = self.shared.sweep.read();
        Entered {
            _sweep: sweep.unwrap_or_else(PoisonError::into_inner),
        }
    }

    fn room(&self, _entered: &Entered<'_>, root: &Path) -> Arc<Mutex<Room>> {
        let mut rooms = lock(&self.shared.rooms);
        let room = rooms.entry(root.to_owned()).or_insert_with(|| {
            let room = Room::open(self.room_path(root), root);
            Arc::new(Mutex::new(room))
        });
        Arc::clone(room)
    }

    fn rooms<'a>(
        &self,
        entered: &Entered<'_>,
        roots: impl Iterator<Item = &'a Path>,
    ) -> Vec<Arc<Mutex<Room>>> {
        roots.map(|root| self.room(entered, root)).collect()
    }

    /// Returns the directory of a root, named by a digest of its path.
    fn room_path(&self, root: &Path) -> PathBuf {
        let name = digest_of(root.as_os_str().as_encoded_bytes());
        let rooms = retention::rooms_of(&self.shared.directory);
        rooms.join(name.get(..32).unwrap_or(&name))
    }
}

fn log_finished(roots: &[&Path], finished: Result<Restored, CheckpointError>) {
    match finished {
        Ok(restored) => {
            let left = restored.left.len();
            tracing::info!(?roots, left, "an interrupted restore of files was finished");
        }
        Err(error) => {
            tracing::warn!(?roots, %error, "an interrupted restore of files could not be finished");
        }
    }
}
