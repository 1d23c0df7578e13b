//! Errors of running commands.

use std::io;
use std::path::PathBuf;

use windlass_process::ProcessError;

use crate::environments::EnvironmentError;
use crate::workspace::FileError;

/// Why a command did not run, or was ended. The model receives the message.
#[derive(Debug, thiserror::Error)]
pub(super) enum ShellError {
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("environment `{id}` allows no commands here; use the files tools")]
    NotAllowed { id: String },
    #[error("`command` contains a NUL character")]
    Nul,
    #[error("`command` must not be blank")]
    Blank,
    #[error(
        "no sandbox works on this machine, and environment `{id}` does not allow commands without one; install bubblewrap, use a \
         Linux with landlock, or let the environment's policy allow unconfined commands"
    )]
    NoSandbox { id: String },
    #[error(
        "no command runs in environment `{id}`: the host finds its own data by the link {}, which lies inside and which a \
         command could replace; let the host name the data without that link (`--data`), or use another workspace",
        link.display()
    )]
    LinkToHidden { id: String, link: PathBuf },
    #[error(
        "the network of environment `{id}` is filtered, which needs bubblewrap; without a sandbox a command would have all of it"
    )]
    Unfiltered { id: String },
    #[error(
        "the network of environment `{id}` is filtered, and the program that runs these tools has no proxy for commands \
         (`ShellSettings::proxy`); give the environment another network"
    )]
    NoProxy { id: String },
    #[error("{0}")]
    NotKept(String),
    #[error("cannot start the command: {0}")]
    NoShell(#[source] ProcessError),
    #[error(transparent)]
    Process(ProcessError),
    #[error("cannot {doing}: {source}")]
    Io {
        doing: &'static str,
        source: io::Error,
    },
    #[error(
        "the command did not end within {limit_ms} ms and was stopped; its output so far:\n{output}"
    )]
    TimedOut { limit_ms: u128, output: String },
    #[error("the command could not be killed and still runs; its output so far:\n{output}")]
    Immortal { output: String },
    #[error(
        "the host keeps no outputs, so no command runs in the background; run it without `background`"
    )]
    NoBackground,
    #[error(
        "{limit} commands of {whose} run in the background, which is as many as may; end one with shell_stop"
    )]
    TooMany { limit: usize, whose: &'static str },
    #[error(
        "there is no command `{id}` in the background; shell_output without an `id` lists them"
    )]
    NoSuchCommand { id: String },
    #[error("the threads that supervised the command are gone; its outcome is unknown")]
    Lost,
}

impl From<ProcessError> for ShellError {
    fn from(error: ProcessError) -> Self {
        match error {
            ProcessError::NotFound { .. }
            | ProcessError::IsDirectory { .. }
            | ProcessError::NotExecutable { .. }
            | ProcessError::RelativePath { .. } => Self::NoShell(error),
            other => Self::Process(other),
        }
    }
}

impl ShellError {
    /// Returns a function that wraps an I/O error, for `map_err`.
    pub(super) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}
