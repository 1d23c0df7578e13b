//! The sandbox of an agent's process.

use windlass_core::backend::BackendSpec;
use windlass_process::{ProcessError, SandboxSpec};

/// Chooses the sandbox of each process, or refuses one. The daemon's provider uses the environment of the turn.
pub trait SandboxProvider: Send + Sync {
    /// Returns the sandbox for a process.
    fn sandbox(&self, spec: &BackendSpec) -> Result<SandboxSpec, SandboxError>;
}

/// Why a process gets no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The agent must not run there.
    #[error("{0}")]
    Refused(String),
    /// A directory cannot be opened.
    #[error(transparent)]
    Directory(#[from] ProcessError),
}
