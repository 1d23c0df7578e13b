//! The sandbox of an external agent: the turn's environment and the agent's own home, without access to the user's home.

use std::path::{Path, PathBuf};

use windlass_core::backend::BackendSpec;
use windlass_external_agents::{SandboxError, SandboxProvider};
use windlass_process::{Network, SandboxSpec};
use windlass_tools::{Environments, ShellSettings};

use super::built_in;
use super::home::AgentHome;
use crate::config::BackendKind;

pub(super) struct BackendSandboxes {
    pub(super) environments: Environments,
    pub(super) shell: ShellSettings,
    pub(super) home: AgentHome,
    pub(super) kind: BackendKind,
    /// The user's home, with symlinks resolved.
    pub(super) user: Option<PathBuf>,
}

impl SandboxProvider for BackendSandboxes {
    fn sandbox(&self, spec: &BackendSpec) -> Result<SandboxSpec, SandboxError> {
        let turn = spec.environment.as_ref();
        let sandbox = self.shell.sandbox_of(&self.environments, turn, None);
        let mut sandbox = sandbox.map_err(|error| SandboxError::Refused(error.to_string()))?;
        if sandbox.bounds.network != Network::Inherit {
            return Err(SandboxError::Refused(
                "the environment restricts the network, and the agent has to reach its provider: set its policy to network = \"inherit\", \
                 or use another environment"
                    .to_owned(),
            ));
        }
        self.confine(&mut sandbox, spec)
            .map_err(SandboxError::Refused)?;
        Ok(sandbox)
    }
}

impl BackendSandboxes {
    /// Restricts a sandbox to the paths of this agent. It also applies to processes that the agent starts through the host.
    pub(super) fn confine(
        &self,
        sandbox: &mut SandboxSpec,
        spec: &BackendSpec,
    ) -> Result<(), String> {
        let bounds = &mut sandbox.bounds;
        // Agents run their commands in a terminal.
        bounds.has_terminals = true;
        let user = self.user.as_deref();
        let created = self.home.create(spec.owner.as_deref(), self.kind, user);
        let writable = created.map_err(|error| error.to_string())?;
        if let AgentHome::User { settings, .. } = &self.home {
            let is_home = |path: &Path| user.is_some_and(|user| user.starts_with(path));
            let protected = bounds.hidden.places().iter();
            let mut protected = protected.filter(|key| !is_home(key));
            if protected.any(|key| settings.starts_with(key) && !self.is_usual(key)) {
                let shown = settings.display();
                return Err(format!("{shown} is hidden from all agents"));
            }
        }
        if let Some(parent) = writable.iter().find(|it| bounds.root.starts_with(it)) {
            let (parent, root) = (parent.display(), bounds.root.display());
            return Err(format!(
                "the environment's root {root} is inside {parent}, which the agent may change"
            ));
        }
        bounds.also_writable.extend(writable);
        // If the root contains the user's home, the agent sees the files there, except keys, which are hidden from every process.
        let home = user.filter(|home| !home.starts_with(&bounds.root));
        if let Some(home) = home.filter(|home| *home != Path::new("/")) {
            let path = spec.variables.get("PATH").map_or("", String::as_str);
            let (program, agent) = (spec.command.as_deref(), built_in::find(self.kind));
            let program =
                program.unwrap_or_else(|| Path::new(agent.map_or("", |agent| agent.program)));
            if let Some(home) = &self.shell.home {
                home.open_program(bounds, path, program);
            }
            if let (AgentHome::User { .. }, BackendKind::ClaudeCode) = (&self.home, self.kind) {
                let settings_file = home.join(".claude.json");
                let is_file = settings_file
                    .symlink_metadata()
                    .is_ok_and(|metadata| metadata.is_file());
                bounds
                    .also_readable
                    .extend(is_file.then_some(settings_file));
            }
        }
        Ok(())
    }

    /// Checks whether `path` is the agent's usual settings directory: it is hidden from other processes, but not from the agent.
    fn is_usual(&self, path: &Path) -> bool {
        let home = self.user.as_deref();
        home.zip(built_in::find(self.kind))
            .is_some_and(|(home, agent)| path == home.join(agent.settings))
    }
}
