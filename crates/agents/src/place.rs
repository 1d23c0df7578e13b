//! Where an agent runs, and what it may touch there.

use windlass_core::backend::BackendSpec;
use windlass_process::{Place, ProcessError};

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
    #[error(transparent)]
    Directory(#[from] ProcessError),
}
