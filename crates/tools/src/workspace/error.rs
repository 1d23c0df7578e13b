//! Errors of accessing files.

use std::io;

/// Why a file could not be found, read or changed. The model receives the message, with paths in the form shown to it.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The path leads out of the environment.
    #[error(
        "path_outside_environment: `{path}` is outside the environment; use a path inside the working directory"
    )]
    Outside { path: String },
    /// The path is invalid on every file system.
    #[error("invalid path: {why}: `{path}`")]
    Invalid {
        why: &'static str,
        /// The path, shortened.
        path: String,
    },
    /// There is no such stored output.
    #[error(
        "there is no {path}: this thread has no such output, or it was removed to save space; run the command again"
    )]
    NoSuchOutput { path: String },
    /// The path does not exist.
    #[error("{path} does not exist; search with `list` or `glob`")]
    Missing { path: String },
    /// The path is a directory instead of a file.
    #[error("{path} is a directory, not a file; read it with `list`")]
    IsDirectory { path: String },
    /// The path, or a parent of it, is not a directory.
    #[error("{path} is not a directory, or one of its parents is not")]
    NotDirectory { path: String },
    /// The path is a device, pipe or socket.
    #[error("{path} is neither a file nor a directory and is not accessed")]
    Special { path: String },
    /// The path is a link whose target does not exist.
    #[error("{path} is a link whose target does not exist; write to its target instead")]
    DanglingLink { path: String },
    /// The file is not text.
    #[error("{path} is a binary file of {bytes} bytes; only text can be read and edited here")]
    Binary {
        path: String,
        /// Size of the file.
        bytes: u64,
    },
    /// The file exceeds the tool's size limit.
    #[error("{path} is too large: {bytes} bytes, and the limit is {limit}")]
    TooLarge {
        path: String,
        /// Size of the file.
        bytes: u64,
        /// Maximum size in bytes.
        limit: u64,
    },
    /// The environment or the turn forbids changes.
    #[error("environment `{id}` is read-only here: {path} is not changed")]
    ReadOnlyEnvironment {
        /// ID of the environment.
        id: String,
        /// The path in the form shown to the model.
        path: String,
    },
    /// The file's permissions forbid changes.
    #[error("{path} is read-only and is not changed")]
    ReadOnlyFile { path: String },
    /// The path is in a `.git` directory.
    #[error("{path} belongs to git's own data, which file tools do not change; use git")]
    Protected { path: String },
    /// The path is hidden by the host.
    #[error(
        "{path} belongs to the program that runs these tools, such as its data or its keys, and tools cannot access it; use \
         other files"
    )]
    Hidden { path: String },
    /// The file was changed concurrently.
    #[error(
        "another program or user has changed {path} in the meantime, so it was not overwritten; read it again"
    )]
    Changed { path: String },
    /// The edit does not apply to the file.
    #[error("{0}")]
    Edit(String),
    /// A pattern cannot be parsed.
    #[error("invalid {what}: {why}")]
    Pattern {
        /// The kind of pattern.
        what: &'static str,
        /// The parser's message.
        why: String,
    },
    /// A file system operation failed.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// The operation that failed, worded to complete "cannot …".
        doing: &'static str,
        path: String,
        /// The system's error.
        source: io::Error,
    },
}

impl FileError {
    /// Converts an I/O error.
    pub(crate) fn io(doing: &'static str, path: String, source: io::Error) -> Self {
        match source.kind() {
            // The library, not the system, detects an escape from the root, so the error has no OS code.
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
