//! The sandbox of a program: its confinement, access rights and limits.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use crate::confine::{Confinement, SandboxBounds};
use crate::error::ProcessError;
use crate::limits::ResourceLimits;
use crate::output::Output;
use crate::program::Program;
use crate::protected_paths::open_path;
use crate::records::Records;

/// Confinement, access rights and limits of a program.
#[derive(Debug)]
pub struct SandboxSpec {
    /// The method of confinement.
    pub confinement: Confinement,
    /// The program's access rights.
    pub bounds: SandboxBounds,
    /// A handle of the bounds' root.
    pub root: OwnedFd,
    /// A directory for temporary files, removed after the program has ended.
    pub scratch: Option<TempDir>,
    /// Resource limits, enforced by the kernel.
    pub limits: ResourceLimits,
    /// The owner's name, with which [`end_leftovers`](crate::end_leftovers) of a later process finds the program. It must be stable, such as a digest
    /// of the host's data directory.
    pub owner: Option<String>,
    /// Where the program's processes are recorded while they run.
    pub records: Option<Records>,
}

impl SandboxSpec {
    /// A sandbox in which everything in a directory is writable, and nothing outside it.
    pub fn in_directory(confinement: Confinement, directory: &Path) -> Result<Self, ProcessError> {
        let failed = |source| ProcessError::Directory {
            directory: directory.to_owned(),
            source,
        };
        let directory = directory.canonicalize().map_err(failed)?;
        let root = open_path(&directory).map_err(failed)?;
        Ok(Self::new(
            confinement,
            SandboxBounds::writable(directory),
            root,
        ))
    }

    /// A sandbox without limits, scratch directory and records.
    #[must_use]
    pub fn new(confinement: Confinement, bounds: SandboxBounds, root: OwnedFd) -> Self {
        Self {
            confinement,
            bounds,
            root,
            scratch: None,
            limits: ResourceLimits::default(),
            owner: None,
            records: None,
        }
    }

    /// A program in this sandbox, without arguments and input. Its standard output and error are captured together. `TMPDIR` is its only variable, if
    /// the sandbox has a scratch directory.
    #[must_use]
    pub fn program(mut self, program: impl Into<PathBuf>, output: Arc<Output>) -> Program {
        if let Some(scratch) = &self.scratch {
            self.bounds.scratch = Some(scratch.path().to_owned());
        }
        Program::new(program.into(), self, output)
    }
}
