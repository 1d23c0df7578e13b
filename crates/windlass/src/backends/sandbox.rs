//! The sandbox of an external agent: the turn's environment and the agent's own home, without access to the user's home.

use std::path::{Path, PathBuf};

use windlass_core::backend::BackendSpec;
use windlass_external_agents::{SandboxError, SandboxProvider};
use windlass_process::{Network, SandboxSpec};
use windlass_tools::{Environments, ShellSettings};

use super::home::Home;
use super::known;
use crate::config::BackendKind;

pub(super) struct BackendSandboxes {
    pub(super) environments: Environments,
    pub(super) shell: ShellSettings,
    pub(super) home: Home,
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
                "the environment gives programs no network of their own, and the agent has to reach its provider: set its policy to network = \
                 \"inherit\", or let the thread work in another environment"
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
        let made = self.home.make(spec.owner.as_deref(), self.kind, user);
        let writable = made.map_err(|error| error.to_string())?;
        if let Home::User { settings, .. } = &self.home {
            let is_home = |path: &Path| user.is_some_and(|user| user.starts_with(path));
            let keys = bounds.hidden.places().iter();
            let mut keys = keys.filter(|key| !is_home(key));
            if keys.any(|key| settings.starts_with(key) && !self.is_usual(key)) {
                let shown = settings.display();
                return Err(format!("{shown} is hidden from all agents"));
            }
        }
        if let Some(above) = writable.iter().find(|it| bounds.root.starts_with(it)) {
            let (above, root) = (above.display(), bounds.root.display());
            return Err(format!(
                "the environment's root {root} lies in {above}, which the agent may change"
            ));
        }
        bounds.also_writable.extend(writable);
        // If the root is the user's home or above it, the agent sees the files there, except the keys, which are hidden from every process.
        let home = user.filter(|home| !home.starts_with(&bounds.root));
        if let Some(home) = home.filter(|home| *home != Path::new("/")) {
            let path = spec.variables.get("PATH").map_or("", String::as_str);
            let (program, known) = (spec.command.as_deref(), known::of(self.kind));
            let program =
                program.unwrap_or_else(|| Path::new(known.map_or("", |known| known.program)));
            if let Some(home) = &self.shell.home {
                home.open_program(bounds, path, program);
            }
            if let (Home::User { .. }, BackendKind::ClaudeCode) = (&self.home, self.kind) {
                let more = home.join(".claude.json");
                let is_file = more.symlink_metadata().is_ok_and(|found| found.is_file());
                bounds.also_readable.extend(is_file.then_some(more));
            }
        }
        Ok(())
    }

    /// Checks whether `path` is the agent's usual settings directory: it is hidden from other processes, but not from the agent.
    fn is_usual(&self, path: &Path) -> bool {
        let home = self.user.as_deref();
        home.zip(known::of(self.kind))
            .is_some_and(|(home, known)| path == home.join(known.settings))
    }
}
