//! Errors of subcommands, and their exit status.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// Why a subcommand failed.
#[derive(Debug)]
pub(crate) enum XtaskError {
    /// The command line was invalid; contains the correction.
    Usage(String),
    /// A check failed and has already reported it.
    Shown,
    /// A missing dependency of the machine; contains the remedy.
    Missing(String),
    /// A program or file could not be started or read.
    Io { doing: String, source: io::Error },
}

impl XtaskError {
    /// 2 for a wrong command line, 1 for everything else, as cargo and clippy users expect.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Shown | Self::Missing(_) | Self::Io { .. } => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for XtaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) | Self::Missing(message) => f.write_str(message),
            Self::Shown => f.write_str("a check failed; see above"),
            Self::Io { doing, source } => write!(f, "cannot {doing}: {source}"),
        }
    }
}

impl std::error::Error for XtaskError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Usage(_) | Self::Missing(_) | Self::Shown => None,
        }
    }
}
