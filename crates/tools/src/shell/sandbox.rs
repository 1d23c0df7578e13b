//! The sandbox of a turn's program: in the turn's environment, with the best confinement that works on this machine.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use windlass_core::turn_environment::TurnEnvironment;
use windlass_process::{Confinement, Network, SandboxBounds, SandboxSpec};

use super::ShellSettings;
use super::error::ShellError;
use crate::environments::{Environments, Unconfined};
use crate::workspace::ResolvedWorkspace;

/// Why a program of a turn may not run.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SandboxDenied(String);

impl ShellSettings {
    /// Returns the sandbox of a program in a turn's environment. The working directory is the environment's unless another one is given. Returns an
    /// error if the program may not run there.
    pub fn sandbox_of(
        &self,
        environments: &Environments,
        turn: Option<&TurnEnvironment>,
        cwd: Option<&str>,
    ) -> Result<SandboxSpec, SandboxDenied> {
        self.sandbox(environments, turn, cwd)
            .map_err(|refused| SandboxDenied(refused.to_string()))
    }

    pub(super) fn sandbox(
        &self,
        environments: &Environments,
        turn: Option<&TurnEnvironment>,
        cwd: Option<&str>,
    ) -> Result<SandboxSpec, ShellError> {
        let at = environments.resolve(turn)?;
        let confinement = self.confinement_of(&at)?;
        reject_link_to_hidden(&at, confinement)?;
        if (confinement, at.policy().network) == (Confinement::Unconfined, Network::Filtered) {
            let id = at.id().to_owned();
            return Err(ShellError::Unfiltered { id });
        }
        let cwd = at.canonical(&at.inside(cwd.unwrap_or("."))?)?;
        at.open_directory(&cwd)?;
        let scratch = confinement.needs_scratch().then(|| {
            tempfile::Builder::new()
                .prefix("windlass-")
                .tempdir_in(&self.scratch)
                .map_err(ShellError::io("create a temporary directory"))
        });
        let scratch = scratch.transpose()?;
        let root = at.root().as_fd().try_clone_to_owned();
        let mut bounds = SandboxBounds {
            root: at.root_path().to_owned(),
            cwd: at.root_path().join(cwd),
            is_writable: at.policy().write,
            also_writable: Vec::new(),
            also_readable: Vec::new(),
            hidden: Arc::clone(at.hidden()),
            pinned: roots_inside(environments, at.root_path()),
            network: at.policy().network,
            private_home: None,
            has_terminals: self.has_terminals,
            scratch: None,
        };
        if let Some(home) = &self.home {
            home.hide(&mut bounds);
            let scratch = scratch.as_ref().map(TempDir::path);
            let private = home.private(confinement, &bounds, scratch);
            bounds.private_home = private.map_err(ShellError::io("create a home directory"))?;
        }
        Ok(SandboxSpec {
            confinement,
            bounds,
            root: root.map_err(ShellError::io("open the environment's root"))?,
            scratch,
            limits: self.limits(),
            owner: self.owner.clone(),
            records: self.records.clone(),
        })
    }

    /// Returns the variables of a program; none are inherited from the host's process.
    pub(crate) fn variables_in(&self, bounds: &SandboxBounds) -> BTreeMap<OsString, OsString> {
        let scratch = bounds.scratch.as_deref().unwrap_or(Path::new("/tmp"));
        let home = bounds.private_home.as_deref().unwrap_or(scratch);
        let mut variables: BTreeMap<OsString, OsString> =
            BTreeMap::from([("HOME".into(), home.into()), ("TERM".into(), "dumb".into())]);
        let set = self.variables.iter();
        variables.extend(set.map(|(name, value)| (name.into(), value.into())));
        variables.insert("TMPDIR".into(), scratch.into());
        variables
    }

    /// Selects the confinement of a program, if it may run at all.
    fn confinement_of(&self, at: &ResolvedWorkspace) -> Result<Confinement, ShellError> {
        let (id, policy) = (at.id().to_owned(), at.policy());
        if !policy.shell {
            return Err(ShellError::NotAllowed { id });
        }
        let found = self.ways.iter().find(|way| way.works_here());
        match (found, policy.unconfined) {
            (Some(way), _) => Ok(*way),
            (None, Unconfined::Allow) => Ok(Confinement::Unconfined),
            (None, Unconfined::Refuse) => Err(ShellError::NoSandbox { id }),
        }
    }
}

/// Returns the roots of other environments inside a directory. A command that replaced one with a link, while a command starts there, would control
/// what the other command can access.
fn roots_inside(environments: &Environments, directory: &Path) -> Vec<PathBuf> {
    let all = environments.list().into_iter();
    let roots = all.map(|environment| environment.root().to_owned());
    let roots = roots.filter(|root| root.starts_with(directory) && root != directory);
    let roots = roots.filter(|root| root.canonicalize().is_ok_and(|real| real == *root));
    roots.collect()
}

/// A sandbox can cover files and directories, but not a link by which the host finds its own data. A command that could replace such a link is
/// refused, because it would control which data the host opens at its next start.
fn reject_link_to_hidden(
    at: &ResolvedWorkspace,
    confinement: Confinement,
) -> Result<(), ShellError> {
    if !at.policy().write || confinement == Confinement::Unconfined {
        return Ok(());
    }
    match at.hidden().link_inside(at.root_path()) {
        Some(link) => Err(ShellError::LinkToHidden {
            id: at.id().to_owned(),
            link: link.to_owned(),
        }),
        None => Ok(()),
    }
}
