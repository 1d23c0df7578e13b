//! Named root directories with their policies, and the working directory of a turn.

mod environment;
mod error;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use windlass_core::turn_environment::TurnEnvironment;

pub use environment::{Environment, Policy, Unconfined};
pub use error::EnvironmentError;

use crate::checkpoint::Checkpoints;
use crate::outputs::Outputs;
use crate::workspace::ResolvedWorkspace;
use windlass_process::{Hidden, ProtectedPaths, open_path};

/// The environments that tools may work in. A cheap handle: all clones share changes.
#[derive(Debug, Clone, Default)]
pub struct Environments {
    shared: Arc<RwLock<Registry>>,
}

#[derive(Debug, Default)]
struct Registry {
    by_id: BTreeMap<String, Arc<Environment>>,
    /// The environment of turns that name none.
    default: Option<String>,
    /// Paths that no tool may access, wherever they are.
    hidden: ProtectedPaths,
    /// Store of checkpoints, if enabled.
    checkpoints: Option<Checkpoints>,
    /// Store of outputs that are too long to show, if enabled.
    outputs: Option<Outputs>,
    /// Names of repository skills that are not offered to a model.
    skills_off: Arc<BTreeSet<String>>,
    /// Number of times the output store was replaced.
    outputs_revision: u64,
}

impl Environments {
    /// Creates a registry without environments.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a registry with one environment, which is the default.
    #[must_use]
    pub fn with_default(environment: Environment) -> Self {
        let environments = Self::new();
        let id = environment.id().to_owned();
        environments.change(|registry| {
            registry.default = Some(id.clone());
            registry.by_id.insert(id, Arc::new(environment));
        });
        environments
    }

    /// Adds an environment, or replaces the one with the same ID. Running calls continue with the previous one.
    pub fn put(&self, environment: Environment) {
        let id = environment.id().to_owned();
        self.change(|registry| registry.by_id.insert(id, Arc::new(environment)));
    }

    /// Removes an environment. Returns whether it existed.
    pub fn remove(&self, id: &str) -> bool {
        self.change(|registry| registry.by_id.remove(id)).is_some()
    }

    #[must_use]
    pub fn get(&self, id: &str) -> Option<Arc<Environment>> {
        self.read(|registry| registry.by_id.get(id).cloned())
    }

    /// Returns all environments, ordered by ID.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Environment>> {
        self.read(|registry| registry.by_id.values().cloned().collect())
    }

    /// Hides a file or directory of the host from all tools, in all current and future environments: file tools refuse it under any name, and
    /// commands do not see it. Hosts hide their data directories.
    ///
    /// The path need not exist yet, but a command that is running while it is created can see it, so create it first. File tools recognize further
    /// hard links of its files; commands can still read them.
    pub fn hide(&self, path: impl AsRef<Path>) {
        self.change(|registry| registry.hidden.add(path.as_ref()));
    }

    /// Hides the usual locations of keys and passwords in a home directory.
    pub fn hide_keys_of(&self, home: impl AsRef<Path>) {
        self.change(|registry| registry.hidden.add_keys_of(home.as_ref()));
    }

    /// Returns whether a directory is hidden or below a hidden one, so that no tool can work there. Returns an error if it cannot be opened.
    ///
    /// Blocks on disk I/O: call it from a blocking thread.
    pub fn hides(&self, directory: impl AsRef<Path>) -> std::io::Result<bool> {
        let opened = open_path(directory.as_ref())?;
        self.hidden().covers(opened)
    }

    /// Enables checkpoints of changes by calls, so that they can be undone. The store must be hidden.
    pub fn enable_checkpoints(&self, checkpoints: Checkpoints) {
        self.change(|registry| registry.checkpoints = Some(checkpoints));
    }

    /// Returns the store of checkpoints, if enabled.
    #[must_use]
    pub fn checkpoints(&self) -> Option<Checkpoints> {
        self.read(|registry| registry.checkpoints.clone())
    }

    /// Enables storage of outputs that are too long to show, so that a model can read them. The store must be hidden.
    pub fn enable_outputs(&self, outputs: Outputs) {
        self.change(|registry| {
            registry.outputs = Some(outputs);
            registry.outputs_revision += 1;
        });
    }

    /// Returns a number that identifies the current output store.
    pub(crate) fn outputs_revision(&self) -> u64 {
        self.read(|registry| registry.outputs_revision)
    }

    /// Returns the store of long outputs, if enabled.
    #[must_use]
    pub fn outputs(&self) -> Option<Outputs> {
        self.read(|registry| registry.outputs.clone())
    }

    /// Sets the names of repository skills that are not offered to a model from now on.
    pub fn switch_skills_off(&self, names: BTreeSet<String>) {
        self.change(|registry| registry.skills_off = Arc::new(names));
    }

    /// Returns the names of repository skills that are not offered to a model.
    #[must_use]
    pub fn skills_off(&self) -> Arc<BTreeSet<String>> {
        self.read(|registry| Arc::clone(&registry.skills_off))
    }

    /// Determines which paths are hidden at this moment.
    pub(crate) fn hidden(&self) -> Hidden {
        let paths = self.read(|registry| registry.hidden.clone());
        paths.look()
    }

    /// Opens the workspace of a turn. A turn that names no environment works in the root of the default one.
    ///
    /// Blocks on disk I/O: call it from a blocking thread.
    pub fn resolve(
        &self,
        turn: Option<&TurnEnvironment>,
    ) -> Result<ResolvedWorkspace, EnvironmentError> {
        let id = match turn {
            Some(turn) => turn.environment_id.clone(),
            None => self
                .read(|registry| registry.default.clone())
                .ok_or(EnvironmentError::NoDefault)?,
        };
        let environment = self.get(&id).ok_or(EnvironmentError::NotFound { id })?;
        let cwd = turn.map_or(Path::new(""), |turn| turn.cwd.as_path());
        let policy = environment.policy().narrowed(turn);
        ResolvedWorkspace::open(&environment, cwd, policy, self.hidden())
    }

    /// Returns the environment of a turn and its permissions there, without opening it; `None` if the turn names none and there is no default.
    #[cfg(feature = "web")]
    pub(crate) fn policy_of(
        &self,
        turn: Option<&TurnEnvironment>,
    ) -> Result<Option<(String, Policy)>, EnvironmentError> {
        let id = turn.map(|turn| turn.environment_id.clone());
        let Some(id) = id.or_else(|| self.read(|registry| registry.default.clone())) else {
            return Ok(None);
        };
        match self.get(&id) {
            Some(environment) => Ok(Some((id, environment.policy().narrowed(turn)))),
            None => Err(EnvironmentError::NotFound { id }),
        }
    }

    fn read<T>(&self, read: impl FnOnce(&Registry) -> T) -> T {
        read(&self.shared.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change<T>(&self, write: impl FnOnce(&mut Registry) -> T) -> T {
        write(&mut self.shared.write().unwrap_or_else(PoisonError::into_inner))
    }
}
