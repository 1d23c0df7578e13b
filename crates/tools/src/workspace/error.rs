//! Why a file could not be reached, read or changed.

use std::io;

/// Why a file could not be reached, read or changed. The model reads the text.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The path leads out of the environment.
    #[error(
        "path_outside_environment: `{path}` leads outside of the environment; use a path inside of the working directory"
    )]
    Outside {
        /// The path as it was given.
        path: String,
    },
    /// No file system takes the path.
    #[error("invalid path: {why}: `{path}`")]
    Invalid {
        /// What is wrong with it.
        why: &'static str,
        /// The path, made short.
        path: String,
    },
    /// There is no such kept output.
    #[error(
        "there is no {path}: this thread kept no such output, or it made room for others; run the command again"
    )]
    NoSuchOutput {
        /// The path as it was given.
        path: String,
    },
    /// Nothing is there.
    #[error("there is nothing at {path}; look with `list` or `glob`")]
    Missing {
        /// The path.
        path: String,
    },
    /// A directory is where a file was meant.
    #[error("{path} is a directory, not a file; look into it with `list`")]
    IsDirectory {
        /// The path.
        path: String,
    },
    /// Something else is where a directory was meant.
    #[error("{path} is not a directory, or goes through something that is none")]
    NotDirectory {
        /// The path.
        path: String,
    },
    /// A device, pipe or socket.
    #[error("{path} is neither a file nor a directory and is left alone")]
    Special {
        /// The path.
        path: String,
    },
    /// A link whose target does not exist.
    #[error("{path} is a link to something that does not exist; write to its target instead")]
    DanglingLink {
        /// The path.
        path: String,
    },
    /// Bytes that are no text.
    #[error("{path} is a binary file of {bytes} bytes; only text can be read and edited here")]
    Binary {
        /// The path.
        path: String,
        /// Its size.
        bytes: u64,
    },
    /// More than a tool takes.
    #[error("{path} is too large: {bytes} bytes, and at most {limit} are taken")]
    TooLarge {
        /// The path.
        path: String,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The environment or the turn forbids changes.
    #[error("environment `{id}` is read-only here: {path} is not changed")]
    ReadOnlyEnvironment {
        /// The environment.
        id: String,
        /// The path.
        path: String,
    },
    /// The file's own permissions forbid changes.
    #[error("{path} is read-only and is not changed")]
    ReadOnlyFile {
        /// The path.
        path: String,
    },
    /// A repository's own records.
    #[error("{path} belongs to the records of git, which files tools do not change; use git")]
    Protected {
        /// The path.
        path: String,
    },
    /// The host keeps it to itself.
    #[error(
        "{path} belongs to the program that runs these tools, such as its data or its keys, and is out of their reach; work \
         with other files"
    )]
    Hidden {
        /// The path.
        path: String,
    },
    /// Somebody else was faster.
    #[error(
        "{path} was changed by somebody else in the meantime and is left as it is; read it again"
    )]
    Changed {
        /// The path.
        path: String,
    },
    /// The edit does not fit the file.
    #[error("{0}")]
    Edit(String),
    /// A pattern cannot be read.
    #[error("invalid {what}: {why}")]
    Pattern {
        /// Which one.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The system refused.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: String,
        /// What the system says.
        source: io::Error,
    },
}

impl FileError {
    /// Names what the system refused.
    pub(crate) fn io(doing: &'static str, path: String, source: io::Error) -> Self {
        match source.kind() {
            // An escape is found out by the library, not by the system, and so has no number.
            io::ErrorKind::PermissionDenied if source.raw_os_error().is_none() => {
                Self::Outside { path }
            }
            io::ErrorKind::NotFound => Self::Missing { path },
            io::ErrorKind::NotADirectory => Self::NotDirectory { path },
            io::ErrorKind::IsADirectory => Self::IsDirectory { path },
            _ => Self::Io {
                doing,
                path,
                source,
            },
        }
    }
}
