//! Why a command failed, and its exit status.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// Why a word did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line was wrong; the text says how to mend it.
    Usage(String),
    /// A check failed and has said so itself.
    Shown,
    /// Something that the machine lacks; the text says what to do.
    Missing(String),
    /// A program could not be started or read.
    Io { doing: String, source: io::Error },
}

impl Failure {
    /// 2 for a wrong command line, 1 for everything else, as cargo and clippy users expect.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Shown | Self::Missing(_) | Self::Io { .. } => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) | Self::Missing(message) => f.write_str(message),
            Self::Shown => f.write_str("a check failed; see above"),
            Self::Io { doing, source } => write!(f, "cannot {doing}: {source}"),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Usage(_) | Self::Missing(_) | Self::Shown => None,
        }
    }
}
