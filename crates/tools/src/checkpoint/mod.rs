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
use intent::{Intent, Intents, RootSteps};
use manifest::Manifest;
use restore::{Plan, Step};
use room::Room;
use turns::{Active, Known};

use crate::environments::Environments;
use crate::workspace::ResolvedWorkspace;

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
    intents: Intents,
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
        self.finish(&room, at)?;
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

    /// Returns what others changed of what these steps would touch.
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

    /// Restores in all workspaces, which are in the order of their roots, or in none. Nothing is touched if a path was changed by
    /// something else.
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

    /// Finishes the restores of a workspace in which an earlier process was killed. What was changed since stays as it is.
    fn finish(&self, room: &Room, at: &ResolvedWorkspace) -> Result<(), CheckpointError> {
        let root = at.root_path();
        self.shared.intents.finish_root(root, |steps| {
            let hand = room.hand(at, &self.shared.limits);
            log_finished(&[root], restore::apply_all(&[(hand, steps)]));
        })
    }

    /// Finishes the restores in which an earlier process was killed, each in all of its roots. What cannot be finished is rolled
    /// back. A restore with a root that no environment has is logged and left until one has it.
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

    fn rooms<'a>(
        &self,
        entered: &Entered<'_>,
        roots: impl Iterator<Item = &'a Path>,
    ) -> Vec<Arc<Mutex<Room>>> {
        roots.map(|root| self.room(entered, root)).collect()
    }

    /// A root has its own directory, named by its path.
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
