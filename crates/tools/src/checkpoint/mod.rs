//! What workspaces held before and after the calls of turns, so that the changes of a turn can be taken back.
//!
//! The store is a directory of the host, hidden from tools. Content is kept once by its digest; a checkpoint is a list of paths. It is no git: nothing
//! that a repository configures is obeyed, but that a `.gitignore` says what need not be kept.
//!
//! Everything here touches the disk: call it where blocking does no harm.

mod blobs;
mod error;
mod guard;
mod index;
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

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

pub use error::CheckpointError;
pub use guard::ChangingFiles;
pub(crate) use guard::changing_now;
pub use manifest::{Changes, CheckpointId};
pub(crate) use own::OwnWrite;
pub use restore::Restored;
pub use turns::{Changing, ChangingTurn};
pub use undo::{CutOffCalls, UndoneTurn};

use blobs::digest_of;
use manifest::Manifest;
use restore::{Plan, Step};
use room::Room;
use turns::{Active, Known};

use crate::environments::Environments;
use crate::workspace::ResolvedWorkspace;
use windlass_core::turn_environment::TurnEnvironment;

/// How much is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointLimits {
    /// Files, directories and links of a workspace. One with more has no checkpoints.
    pub files: u64,
    /// Bytes of one file. Of a larger one it is only known that it changed.
    pub file_bytes: u64,
    /// Bytes of a workspace. One with more has no checkpoints.
    pub total_bytes: u64,
    /// Bytes of the store. The oldest turns go first.
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

/// The store of checkpoints. A cheap handle: all clones are the same.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    directory: PathBuf,
    limits: CheckpointLimits,
    /// One for each root, while something is done in it.
    rooms: Mutex<HashMap<PathBuf, Arc<Mutex<Room>>>>,
    /// Taken to write by who removes what nobody needs, and to read by everybody else; before all other locks, and once.
    sweep: RwLock<()>,
    /// About how many bytes are kept; counted when somebody asks first.
    stored: Mutex<Option<u64>>,
    /// Who is at work at this moment.
    active: Mutex<Vec<Active>>,
    next_active: AtomicU64,
    /// Rung when somebody is at work no longer.
    ended: Condvar,
    /// Held by who changes the record of a turn.
    records: Mutex<()>,
    known: Mutex<Known>,
}

/// Somebody who works in the store: nothing is removed meanwhile. Nobody enters twice, because who sweeps may wait in between.
struct Entered<'a> {
    _sweep: RwLockReadGuard<'a, ()>,
}

impl Checkpoints {
    /// Opens a store, which is made where there is none. Only one process may have it open.
    pub fn open(directory: impl Into<PathBuf>, limits: CheckpointLimits) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;

        let directory = directory.into();
        let mut private = std::fs::DirBuilder::new();
        private.recursive(true).mode(0o700).create(&directory)?;
        let known = Mutex::new(Self::open_known(&directory)?);
        Ok(Self {
            shared: Arc::new(Shared {
                directory,
                limits,
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

    /// Keeps what a workspace holds now.
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
        room.finish(at, &self.shared.limits)?;
        let mut written = 0;
        let taken = room.take(at, &self.shared.limits, &mut written);
        // Also of what came to nothing something may have been written.
        if let Some(stored) = &mut *lock(&self.shared.stored) {
            *stored += written;
        }
        taken
    }

    /// Tells what is different between two checkpoints of a workspace.
    pub fn changes(
        &self,
        root: &Path,
        a: &CheckpointId,
        b: &CheckpointId,
    ) -> Result<Changes, CheckpointError> {
        let (a, b) = self.manifests(&self.enter(), root, a, b)?;
        Ok(Changes::between(&a, &b))
    }

    /// Brings a workspace back from one state to another. Only what differs between the two is touched; if somebody else changed any of it
    /// since the first, nothing is.
    pub fn restore(
        &self,
        at: &ResolvedWorkspace,
        from: &CheckpointId,
        to: &CheckpointId,
    ) -> Result<Restored, CheckpointError> {
        let _working = self.work_alone(&[at.root_path()])?;
        let entered = self.enter();
        let (from, to) = self.manifests(&entered, at.root_path(), from, to)?;
        self.carry_out(&entered, at, restore::steps(&from, &to))
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

    /// Returns what others changed of what these steps would touch.
    fn foreign(
        &self,
        entered: &Entered<'_>,
        at: &ResolvedWorkspace,
        steps: &[Step],
    ) -> Result<Vec<PathBuf>, CheckpointError> {
        let room = self.room(entered, at.root_path());
        let room = lock(&room);
        room.finish(at, &self.shared.limits)?;
        let plan = Plan::of(steps.to_vec());
        Ok(room.hand(at, &self.shared.limits).foreign(&plan.steps))
    }

    /// Does what it takes, unless somebody else changed something.
    fn carry_out(
        &self,
        entered: &Entered<'_>,
        at: &ResolvedWorkspace,
        steps: Vec<Step>,
    ) -> Result<Restored, CheckpointError> {
        if !at.policy().write {
            let id = at.id().to_owned();
            return Err(CheckpointError::ReadOnly { id });
        }
        let room = self.room(entered, at.root_path());
        let room = lock(&room);
        room.finish(at, &self.shared.limits)?;
        room.restore(at, &self.shared.limits, Plan::of(steps))
    }

    /// Finishes the restores in which an earlier process was killed. What cannot be finished is told in the log, and left.
    pub fn finish_restores(&self, environments: &Environments) {
        for environment in environments.list() {
            let entered = self.enter();
            let room = self.room(&entered, environment.root());
            let room = lock(&room);
            if !room.is_restoring() {
                continue;
            }
            let turn = TurnEnvironment::new(environment.id(), "");
            let done = environments
                .resolve(Some(&turn))
                .map_err(|error| error.to_string())
                .and_then(|at| {
                    let done = room.finish(&at, &self.shared.limits);
                    done.map_err(|error| error.to_string())
                });
            if let Err(error) = done {
                let root = environment.root().display();
                tracing::warn!(%root, %error, "a restore of files that was interrupted is not finished");
            }
        }
    }

    /// Returns where the store is.
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

    /// A root has its own directory, named by its path.
    fn room_path(&self, root: &Path) -> PathBuf {
        let name = digest_of(root.as_os_str().as_encoded_bytes());
        let rooms = retention::rooms_of(&self.shared.directory);
        rooms.join(name.get(..32).unwrap_or(&name))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
