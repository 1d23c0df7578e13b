//! Where a program runs, and what it may touch there.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use crate::confine::{Bounds, Confinement};
use crate::error::ProcessError;
use crate::hidden::open_to_look;
use crate::limits::Limits;
use crate::output::Output;
use crate::program::Program;
use crate::records::Records;

/// Where a program runs, and what it may touch there.
#[derive(Debug)]
pub struct Place {
    /// How it is confined.
    pub confinement: Confinement,
    /// What it may touch.
    pub bounds: Bounds,
    /// A handle of the bounds' root.
    pub root: OwnedFd,
    /// A directory for its temporary files, removed when it has ended.
    pub scratch: Option<TempDir>,
    /// Limits that the kernel holds it to.
    pub limits: Limits,
    /// Whose program it is, to be found in a later life.
    pub owner: Option<String>,
    /// Where its processes are recorded while they live.
    pub records: Option<Records>,
}

impl Place {
    /// A directory in which everything may be changed, and nothing beside it.
    pub fn in_directory(confinement: Confinement, directory: &Path) -> Result<Self, ProcessError> {
        let failed = |source| ProcessError::Directory {
            directory: directory.to_owned(),
            source,
        };
        let directory = directory.canonicalize().map_err(failed)?;
        let root = open_to_look(&directory).map_err(failed)?;
        Ok(Self {
            confinement,
            bounds: Bounds::of(directory),
            root,
            scratch: None,
            limits: Limits::default(),
            owner: None,
            records: None,
        })
    }

    /// A program there, without arguments and input. What it says and complains about is kept together. `TMPDIR` is the only variable
    /// that it has, where the place has a directory for that.
    #[must_use]
    pub fn program(self, program: impl Into<PathBuf>, output: Arc<Output>) -> Program {
        let mut bounds = self.bounds;
        if let Some(scratch) = &self.scratch {
            bounds.scratch = Some(scratch.path().to_owned());
        }
        let tmpdir = bounds.scratch.clone();
        let mut program = Program::new(program, self.confinement, bounds, self.root, output);
        let tmpdir = tmpdir.map(|scratch| ("TMPDIR".into(), scratch.into()));
        program.variables.extend(tmpdir);
        program.limits = self.limits;
        program.owner = self.owner;
        program.records = self.records;
        program.scratch = self.scratch;
        program
    }
}
