//! Where an agent runs, and what it may touch there.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use windlass_core::backend::BackendSpec;
use windlass_process::{Bounds, Confinement, Limits, Records, open_to_look};

/// Who says where an agent runs. The daemon's goes by the environment of the turn; [`Place`] says what it has to decide.
pub trait Places: Send + Sync {
    /// Finds the place for an agent, or refuses it.
    fn place(&self, spec: &BackendSpec) -> Result<Place, PlaceError>;
}

/// Why an agent has no place to run.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// It may not run there.
    #[error("{0}")]
    Refused(String),
    /// A directory cannot be opened.
    #[error("cannot open {}: {source}", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// Where an agent runs, and what it may touch there.
pub struct Place {
    /// How it is confined.
    pub confinement: Confinement,
    /// What it may touch: the environment's root, and beside it the directory with its own settings.
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
    /// A directory and nothing beside it, with the network of the host: an agent has to reach its provider.
    pub fn in_directory(confinement: Confinement, directory: &Path) -> Result<Self, PlaceError> {
        let failed = |source| PlaceError::Directory {
            directory: directory.to_owned(),
            source,
        };
        let directory = directory.canonicalize().map_err(failed)?;
        let root = open_to_look(&directory).map_err(failed)?;
        let mut bounds = Bounds::of(directory);
        bounds.network = windlass_process::Network::Inherit;
        Ok(Self {
            confinement,
            bounds,
            root,
            scratch: None,
            limits: Limits::default(),
            owner: None,
            records: None,
        })
    }
}
