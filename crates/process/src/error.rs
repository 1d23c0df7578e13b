//! Errors of starting and supervising programs.

use std::io;
use std::path::PathBuf;

/// Why a program did not start or was lost.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The program does not exist.
    #[error("there is no program {}", program.display())]
    NotFound {
        /// The path or name as given.
        program: PathBuf,
    },
    /// The path is a directory.
    #[error("{} is a directory, not a program", program.display())]
    IsDirectory {
        /// The path or name as given.
        program: PathBuf,
    },
    /// The file is not executable.
    #[error("{} is not executable", program.display())]
    NotExecutable {
        /// The path or name as given.
        program: PathBuf,
    },
    /// The sandbox replaces the directory that contains the program.
    #[error("{} is below /tmp, which is private in a sandbox; move the program to another directory", program.display())]
    NotInSandbox {
        /// Path of the program on the host.
        program: PathBuf,
    },
    /// The path is relative, so its meaning depends on the working directory.
    #[error("{} is a relative path; specify a bare program name or an absolute path", program.display())]
    RelativePath {
        /// The path as given.
        program: PathBuf,
    },
    /// An argument, variable or path contains a NUL byte, which the system does not accept.
    #[error("{place} contains a NUL character")]
    Nul {
        /// The part that contains the NUL byte.
        place: &'static str,
    },
    /// The name of a variable is not valid.
    #[error("`{name}` is not a valid variable name")]
    VariableName {
        /// The name as given.
        name: String,
    },
    /// The working directory cannot be opened.
    #[error("{} cannot be opened as a directory: {source}", directory.display())]
    Directory {
        directory: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The sandbox could not be created.
    #[error("the sandbox refused to start: {0}")]
    Sandbox(String),
    /// A system call failed.
    #[error("cannot {doing}: {source}")]
    Io {
        /// The operation that failed, worded to complete "cannot …".
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The threads that supervised the program are gone, so its outcome is unknown.
    #[error("the threads that supervised the command are gone; its outcome is unknown")]
    Lost,
}

impl ProcessError {
    /// Returns a function that wraps an I/O error, for `map_err`.
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}
