//! What only a disk refuses.

use std::io;

use windlass_core::error::AgentLoopError;

pub(super) fn symlink(path: &str) -> AgentLoopError {
    AgentLoopError::tool(format!("symbolic links are not followed: {path}"))
}

pub(super) fn not_regular(path: &str) -> AgentLoopError {
    AgentLoopError::tool(format!("neither a regular file nor a directory: {path}"))
}

pub(super) fn too_deep(path: &str) -> AgentLoopError {
    AgentLoopError::tool(format!("directories are nested too deep below: {path}"))
}

/// Returns what turns an error of the system into ours: what was tried, and with which path.
pub(super) fn io(doing: &'static str, path: &str) -> impl FnOnce(io::Error) -> AgentLoopError {
    move |error| AgentLoopError::tool(format!("cannot {doing} {path}: {error}"))
}
