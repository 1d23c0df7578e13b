//! Why a program did not start, or is lost.

use std::io;
use std::path::PathBuf;

/// Why a program did not start, or is lost.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// There is no such program.
    #[error("there is no program {}", program.display())]
    NotFound {
        /// How it was called.
        program: PathBuf,
    },
    /// It is a directory.
    #[error("{} is a directory and no program", program.display())]
    IsDirectory {
        /// How it was called.
        program: PathBuf,
    },
    /// It may not be executed.
    #[error("{} is not executable", program.display())]
    NotExecutable {
        /// How it was called.
        program: PathBuf,
    },
    /// The sandbox has a directory of its own in the place of the one that it is in.
    #[error("{} is below /tmp, of which a sandbox has its own; put the program elsewhere", program.display())]
    OutOfSight {
        /// Where it is.
        program: PathBuf,
    },
    /// It was named by a relative path, which means something else in each directory.
    #[error("{} is a relative path; name the program alone or by its absolute path", program.display())]
    RelativePath {
        /// How it was called.
        program: PathBuf,
    },
    /// The system takes no NUL there.
    #[error("{place} contains a NUL character")]
    Nul {
        /// Where it is.
        place: &'static str,
    },
    /// A variable cannot have that name.
    #[error("`{name}` is no name of a variable")]
    VariableName {
        /// The name.
        name: String,
    },
    /// The directory it was to start in is not there.
    #[error("{} is no directory that can be opened: {source}", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The sandbox could not be made.
    #[error("the sandbox refused to start: {0}")]
    Sandbox(String),
    /// The system refused.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was attempted.
        doing: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// The threads that looked after it are gone.
    #[error("nobody looks after the command any more; what became of it is unknown")]
    Lost,
}

impl ProcessError {
    /// Returns what turns an error of the system into ours.
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}
