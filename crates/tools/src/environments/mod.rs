//! Named root directories, what may be done in them, and where a turn works.

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
use windlass_process::{Hidden, HiddenPaths, open_to_look};

/// The environments that tools may work in. A cheap handle: all clones show the same, whoever changes it.
#[derive(Debug, Clone, Default)]
pub struct Environments {
    shared: Arc<RwLock<Registry>>,
}

#[derive(Debug, Default)]
struct Registry {
    by_id: BTreeMap<String, Arc<Environment>>,
    /// Where a turn works that names no environment.
    default: Option<String>,
    /// What no tool may touch, wherever it lies.
    hidden: HiddenPaths,
    /// Where is kept what calls change, if it is.
    checkpoints: Option<Checkpoints>,
    /// Where is kept what is too long to show, if it is.
    outputs: Option<Outputs>,
    /// Skills of repositories that no model is told of, by name.
    skills_off: Arc<BTreeSet<String>>,
    /// How often that place was changed.
    outputs_revision: u64,
}

impl Environments {
    /// Makes a registry without environments.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a registry with one environment, in which turns work that name none.
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

    /// Adds an environment; the same id replaces. Calls that run keep what they began with.
    pub fn put(&self, environment: Environment) {
        let id = environment.id().to_owned();
        self.change(|registry| registry.by_id.insert(id, Arc::new(environment)));
    }

    /// Removes an environment; tells whether there was one.
    pub fn remove(&self, id: &str) -> bool {
        self.change(|registry| registry.by_id.remove(id)).is_some()
    }

    /// Returns an environment.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<Arc<Environment>> {
        self.look(|registry| registry.by_id.get(id).cloned())
    }

    /// Returns all environments, ordered by id.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Environment>> {
        self.look(|registry| registry.by_id.values().cloned().collect())
    }

    /// Keeps a file or directory of the host from all tools, in all environments, also in those that come later: files
    /// tools refuse it by whatever name it is reached, and commands do not see it. Hosts hide where they keep their data.
    ///
    /// It need not exist yet; a command that runs while it is made can see it, though, so make it first. A second name of
    /// one of its files (a hard link) is known to files tools and not to commands.
    pub fn hide(&self, path: impl AsRef<Path>) {
        self.change(|registry| registry.hidden.add(path.as_ref()));
    }

    /// Hides the usual places of keys and passwords in a home directory.
    pub fn hide_keys_of(&self, home: impl AsRef<Path>) {
        self.change(|registry| registry.hidden.add_keys_of(home.as_ref()));
    }

    /// Tells whether a directory is hidden or lies below what is, so that no tool can work there. One that cannot be
    /// opened is told as an error.
    ///
    /// This touches the disk: call it where blocking does no harm.
    pub fn hides(&self, directory: impl AsRef<Path>) -> std::io::Result<bool> {
        let opened = open_to_look(directory.as_ref())?;
        self.hidden().covers(opened)
    }

    /// Keeps from now on what calls change in the environments, so that it can be taken back. The store must be hidden.
    pub fn keep_checkpoints(&self, checkpoints: Checkpoints) {
        self.change(|registry| registry.checkpoints = Some(checkpoints));
    }

    /// Returns where is kept what calls change, if it is.
    #[must_use]
    pub fn checkpoints(&self) -> Option<Checkpoints> {
        self.look(|registry| registry.checkpoints.clone())
    }

    /// Keeps from now on the whole of outputs that are too long to show, so that a model can look into them. The store must be hidden.
    pub fn keep_outputs(&self, outputs: Outputs) {
        self.change(|registry| {
            registry.outputs = Some(outputs);
            registry.outputs_revision += 1;
        });
    }

    /// Names the place where outputs are kept, as long as it stays the same.
    pub(crate) fn outputs_revision(&self) -> u64 {
        self.look(|registry| registry.outputs_revision)
    }

    /// Returns where is kept what is too long to show, if it is.
    #[must_use]
    pub fn outputs(&self) -> Option<Outputs> {
        self.look(|registry| registry.outputs.clone())
    }

    /// Says which skills of repositories no model is told of from now on, by name.
    pub fn switch_skills_off(&self, names: BTreeSet<String>) {
        self.change(|registry| registry.skills_off = Arc::new(names));
    }

    /// Returns the skills of repositories that no model is told of, by name.
    #[must_use]
    pub fn skills_off(&self) -> Arc<BTreeSet<String>> {
        self.look(|registry| Arc::clone(&registry.skills_off))
    }

    /// Finds out what is hidden at this moment.
    pub(crate) fn hidden(&self) -> Hidden {
        let paths = self.look(|registry| registry.hidden.clone());
        paths.look()
    }

    /// Opens what a turn works in. A turn that names nothing works in the root of the default environment.
    ///
    /// This touches the disk: call it where blocking does no harm.
    pub fn resolve(
        &self,
        turn: Option<&TurnEnvironment>,
    ) -> Result<ResolvedWorkspace, EnvironmentError> {
        let id = match turn {
            Some(turn) => turn.environment_id.clone(),
            None => self
                .look(|registry| registry.default.clone())
                .ok_or(EnvironmentError::NoneNamed)?,
        };
        let environment = self.get(&id).ok_or(EnvironmentError::NotFound { id })?;
        let cwd = turn.map_or(Path::new(""), |turn| turn.cwd.as_path());
        let policy = environment.policy().narrowed(turn);
        ResolvedWorkspace::open(&environment, cwd, policy, self.hidden())
    }

    /// Returns where a turn works and what it may do there, without opening it; nothing where no environment is named.
    #[cfg(feature = "web")]
    pub(crate) fn policy_of(
        &self,
        turn: Option<&TurnEnvironment>,
    ) -> Result<Option<(String, Policy)>, EnvironmentError> {
        let named = turn.map(|turn| turn.environment_id.clone());
        let Some(id) = named.or_else(|| self.look(|registry| registry.default.clone())) else {
            return Ok(None);
        };
        match self.get(&id) {
            Some(environment) => Ok(Some((id, environment.policy().narrowed(turn)))),
            None => Err(EnvironmentError::NotFound { id }),
        }
    }

    fn look<T>(&self, read: impl FnOnce(&Registry) -> T) -> T {
        read(&self.shared.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change<T>(&self, write: impl FnOnce(&mut Registry) -> T) -> T {
        write(&mut self.shared.write().unwrap_or_else(PoisonError::into_inner))
    }
}
