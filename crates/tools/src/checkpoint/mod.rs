//! States of workspaces before and after the calls of turns, with which a turn's changes can be undone.
//!
//! The store is a directory of the host, hidden from tools. Content is stored once by its digest; a checkpoint is a list of paths. The store does not
//! use git. Of a repository's configuration only `.gitignore` is honored: ignored files are not stored.
//!
//! Everything here blocks on disk I/O: call it from a blocking thread.

mod attribution;
mod blobs;
mod call_records;
mod checkpointed_work;
mod error;
mod index;
mod intent;
mod manifest;
mod path_text;
mod restore;
mod retention;
mod scan;
#[cfg(test)]
mod tests;
mod undo;
#[cfg(test)]
mod undo_tests;
mod workspace_store;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard};

pub(crate) use attribution::OwnWrite;
pub use call_records::{CheckpointedCall, CheckpointedTurn};
pub use checkpointed_work::CheckpointedWork;
pub(crate) use checkpointed_work::begin_call;
pub use error::CheckpointError;
pub use manifest::CheckpointId;
pub use restore::RestoreReport;
pub use undo::{CutOffCalls, TurnToUndo};

use blobs::digest_of;
use call_records::{ActiveWork, CoveredPeriod};
use intent::{Intent, IntentLog, RootSteps};
use manifest::Manifest;
use restore::{RestorePlan, RestoreStep};
use workspace_store::WorkspaceStore;

use crate::environments::Environments;
use crate::workspace::ResolvedWorkspace;
use windlass_core::lock::lock;

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
    shared: Arc<CheckpointStore>,
}

#[derive(Debug)]
struct CheckpointStore {
    directory: PathBuf,
    limits: CheckpointLimits,
    intents: IntentLog,
    /// One entry for each root that is in use.
    workspaces: Mutex<HashMap<PathBuf, Arc<Mutex<WorkspaceStore>>>>,
    /// Write-locked by retention, read-locked by all other operations. Acquired before all other locks, and only once per operation.
    sweep: RwLock<()>,
    /// Approximate size of the store in bytes; computed on first use.
    stored: Mutex<Option<u64>>,
    /// Calls and restores in progress.
    active: Mutex<Vec<ActiveWork>>,
    next_active: AtomicU64,
    /// Notified when a call or restore ends.
    ended: Condvar,
    /// Held while the record of a turn is changed.
    records: Mutex<()>,
    covered: Mutex<CoveredPeriod>,
}

/// An operation in the store: nothing is removed meanwhile. Do not nest: a waiting retention run would block the second lock.
type StoreGuard<'a> = RwLockReadGuard<'a, ()>;

impl Checkpoints {
    /// Opens a store and creates it if it does not exist. Only one process may have it open.
    pub fn open(directory: impl Into<PathBuf>, limits: CheckpointLimits) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;

        let directory = directory.into();
        let mut private = std::fs::DirBuilder::new();
        private.recursive(true).mode(0o700).create(&directory)?;
        let covered = Mutex::new(CoveredPeriod::open(&directory)?);
        let intents = IntentLog::open(&directory)?;
        Ok(Self {
            shared: Arc::new(CheckpointStore {
                directory,
                limits,
                intents,
                workspaces: Mutex::default(),
                sweep: RwLock::default(),
                stored: Mutex::default(),
                active: Mutex::default(),
                next_active: AtomicU64::default(),
                ended: Condvar::new(),
                records: Mutex::default(),
                covered,
            }),
        })
    }

    /// Takes a checkpoint of the workspace.
    pub fn take(&self, at: &ResolvedWorkspace) -> Result<CheckpointId, CheckpointError> {
        self.take_in(&self.enter(), at)
    }

    fn take_in(
        &self,
        guard: &StoreGuard<'_>,
        at: &ResolvedWorkspace,
    ) -> Result<CheckpointId, CheckpointError> {
        let workspace = self.workspace(guard, at.root_path());
        let mut workspace = lock(&workspace);
        self.finish(&workspace, at)?;
        let mut written = 0;
        let taken = workspace.take(at, &self.shared.limits, &mut written);
        // A failed attempt may have written content too.
        if let Some(stored) = &mut *lock(&self.shared.stored) {
            *stored += written;
        }
        taken
    }

    fn manifests(
        &self,
        guard: &StoreGuard<'_>,
        root: &Path,
        a: &CheckpointId,
        b: &CheckpointId,
    ) -> Result<(Manifest, Manifest), CheckpointError> {
        let workspace = self.workspace(guard, root);
        let workspace = lock(&workspace);
        Ok((workspace.manifest(a)?, workspace.manifest(b)?))
    }

    /// Returns the paths of these steps that another program changed.
    fn external_edits(
        &self,
        guard: &StoreGuard<'_>,
        at: &ResolvedWorkspace,
        steps: &[RestoreStep],
    ) -> Result<Vec<PathBuf>, CheckpointError> {
        let workspace = self.workspace(guard, at.root_path());
        let workspace = lock(&workspace);
        self.finish(&workspace, at)?;
        let plan = RestorePlan::new(steps.to_vec());
        let context = workspace.restore_context(at, &self.shared.limits);
        Ok(context.external_edits(&plan.steps))
    }

    /// Restores all workspaces, which are ordered by root, or none. Nothing is touched if another program changed one of the paths.
    fn restore_all(
        &self,
        guard: &StoreGuard<'_>,
        plans: Vec<(&ResolvedWorkspace, Vec<RestoreStep>)>,
    ) -> Result<RestoreReport, CheckpointError> {
        if let Some((at, _)) = plans.iter().find(|(at, _)| !at.policy().write) {
            let id = at.id().to_owned();
            return Err(CheckpointError::ReadOnly { id });
        }
        let workspaces = self.workspaces(guard, plans.iter().map(|(at, _)| at.root_path()));
        let workspaces: Vec<_> = workspaces.iter().map(|it| lock(it)).collect();
        let mut restores = Vec::new();
        let mut edited = Vec::new();
        let mut left = Vec::new();
        for (workspace, (at, steps)) in workspaces.iter().zip(plans) {
            self.finish(workspace, at)?;
            let plan = RestorePlan::new(steps);
            let context = workspace.restore_context(at, &self.shared.limits);
            edited.extend(context.external_edits(&plan.steps));
            context.check_content(&plan.steps)?;
            left.extend(plan.left);
            restores.push((context, plan.steps));
        }
        if !edited.is_empty() {
            return Err(CheckpointError::ExternalEdits { paths: edited });
        }
        let roots = restores.iter().map(|(context, steps)| RootSteps {
            root: context.at.root_path().to_owned(),
            steps: steps.clone(),
        });
        let intent = self.shared.intents.begin(roots.collect())?;
        let restored = restore::apply_all(&restores);
        self.shared.intents.end(&intent)?;
        let mut restored = restored?;
        restored.left.extend(left);
        restored.left.sort();
        Ok(restored)
    }

    /// Finishes the restores of a workspace that a killed process left unfinished. Paths that were changed since are not touched.
    fn finish(
        &self,
        workspace: &WorkspaceStore,
        at: &ResolvedWorkspace,
    ) -> Result<(), CheckpointError> {
        let root = at.root_path();
        self.shared.intents.finish_root(root, |steps| {
            let context = workspace.restore_context(at, &self.shared.limits);
            log_finished(&[root], restore::apply_all(&[(context, steps)]));
        })
    }

    /// Finishes the restores that a killed process left unfinished, each in all of its roots. A restore that cannot be finished is rolled back. If no
    /// environment has one of its roots, the restore is logged and stays unfinished until one does.
    pub fn finish_restores(&self, environments: &Environments) {
        let unfinished = match self.shared.intents.unfinished() {
            Ok(unfinished) => unfinished,
            Err(error) => {
                return tracing::warn!(%error, "interrupted restores of files are not finished");
            }
        };
        for (path, intent) in unfinished {
            let finished = self.finish_intent(environments, intent);
            if let Err(error) = finished.and_then(|()| self.shared.intents.end(&path)) {
                tracing::warn!(%error, "an interrupted restore of files is not finished");
            }
        }
    }

    fn finish_intent(
        &self,
        environments: &Environments,
        intent: Intent,
    ) -> Result<(), CheckpointError> {
        let mut resolved = Vec::new();
        for RootSteps { root, .. } in &intent.roots {
            resolved.push(undo::resolve_root(environments, root, None)?);
        }
        let guard = self.enter();
        let roots: Vec<&Path> = intent.roots.iter().map(|it| it.root.as_path()).collect();
        let workspaces = self.workspaces(&guard, roots.iter().copied());
        let workspaces: Vec<_> = workspaces.iter().map(|it| lock(it)).collect();
        let mut restores = Vec::new();
        for ((workspace, at), root) in workspaces.iter().zip(&resolved).zip(&intent.roots) {
            let context = workspace.restore_context(at, &self.shared.limits);
            restores.push((context, root.steps.clone()));
        }
        log_finished(&roots, restore::apply_all(&restores));
        Ok(())
    }

    /// Returns the directory of the store.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.shared.directory
    }

    fn enter(&self) -> StoreGuard<'_> {
        let sweep = self.shared.sweep.read();
        sweep.unwrap_or_else(PoisonError::into_inner)
    }

    fn workspace(&self, _entered: &StoreGuard<'_>, root: &Path) -> Arc<Mutex<WorkspaceStore>> {
        let mut workspaces = lock(&self.shared.workspaces);
        let workspace = workspaces.entry(root.to_owned()).or_insert_with(|| {
            let workspace = WorkspaceStore::open(self.workspace_directory(root), root);
            Arc::new(Mutex::new(workspace))
        });
        Arc::clone(workspace)
    }

    fn workspaces<'a>(
        &self,
        guard: &StoreGuard<'_>,
        roots: impl Iterator<Item = &'a Path>,
    ) -> Vec<Arc<Mutex<WorkspaceStore>>> {
        roots.map(|root| self.workspace(guard, root)).collect()
    }

    /// Returns the directory of a root, named by a digest of its path.
    fn workspace_directory(&self, root: &Path) -> PathBuf {
        let name = digest_of(root.as_os_str().as_encoded_bytes());
        let workspaces = retention::workspaces_directory(&self.shared.directory);
        workspaces.join(name.get(..32).unwrap_or(&name))
    }
}

fn log_finished(roots: &[&Path], finished: Result<RestoreReport, CheckpointError>) {
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
