//! Errors that every store returns in the same words.

use windlass_core::error::AgentLoopError;

pub(crate) fn read_only(path: &str) -> AgentLoopError {
    AgentLoopError::tool(format!("file is read-only: {path}"))
}

pub(crate) fn read_only_inside(directory: &str, path: &str) -> AgentLoopError {
    AgentLoopError::tool(format!(
        "cannot delete {directory}: file is read-only: {path}"
    ))
}

pub(crate) fn is_directory(path: &str) -> AgentLoopError {
    AgentLoopError::tool(format!("cannot write a file where a directory is: {path}"))
}

pub(crate) fn is_file(path: &str) -> AgentLoopError {
    AgentLoopError::tool(format!("cannot make a directory where a file is: {path}"))
}

pub(crate) fn below_file(file: &str, path: &str) -> AgentLoopError {
    AgentLoopError::tool(format!("{file} is a file, nothing can be below it: {path}"))
}

pub(crate) fn root_delete() -> AgentLoopError {
    AgentLoopError::tool("cannot delete the root directory: /")
}
