//! Errors of taking and restoring checkpoints.

use std::io;
use std::path::{Path, PathBuf};

/// Maximum number of paths in a message.
const MAX_SHOWN_PATHS: usize = 5;

/// Why a checkpoint could not be taken or restored.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Another program changed files since; no file was touched.
    #[error(
        "another program or user has changed these files since: {}; nothing was restored: move those changes away, or undo without files",
        listed(paths)
    )]
    ExternalEdits {
        /// The changed paths, relative to the root.
        paths: Vec<PathBuf>,
    },
    /// A call was cut off when the process died, so the differences may not all be its changes; no file was touched.
    #[error(
        "a call was cut off when the runtime died, so these changes may not all be its own: {}; nothing was restored: check them, and repeat \
         the request with `cut_off` to restore these files too, or undo without files",
        listed(paths)
    )]
    CutOff {
        /// The differing paths, relative to the root.
        paths: Vec<PathBuf>,
    },
    /// The workspace exceeds a limit for checkpoints.
    #[error(
        "{} contains more than {limit} {what}, which is too much to store; exclude unneeded files with a .gitignore",
        root.display()
    )]
    TooLarge {
        root: PathBuf,
        /// The limited quantity.
        what: &'static str,
        limit: u64,
    },
    /// No checkpoint was taken before a call.
    #[error("the files before a call were not stored: {why}")]
    NotTaken { why: String },
    /// There is no record of the turn's changes: it was removed, or never written.
    #[error(
        "the turn's file changes are not recorded: it began while checkpoints were off, or its record was removed to save space \
         (`checkpoints.max_mb`)"
    )]
    NotRecorded,
    /// The checkpoint was removed.
    #[error("the checkpoint {id} is no longer stored")]
    Gone { id: String },
    /// Stored content does not match its digest.
    #[error("{} is damaged: its content does not match its name", path.display())]
    Damaged { path: PathBuf },
    /// A call is changing files at this moment.
    #[error(
        "a call is changing files in {}; retry when it has ended",
        root.display()
    )]
    Busy { root: PathBuf },
    /// The environment's policy forbids changes.
    #[error("environment `{id}` is read-only; its files are not restored")]
    ReadOnly { id: String },
    /// The environment now has a different root than during the turn.
    #[error("environment `{id}` is no longer at {}, where the turn worked", root.display())]
    Moved {
        id: String,
        /// The root during the turn.
        root: PathBuf,
    },
    /// A restore failed and was rolled back completely.
    #[error(
        "cannot {doing} {}: {source}; nothing was restored: remove the cause and retry",
        path.display()
    )]
    RolledBack {
        /// The operation that failed, worded to complete "cannot …".
        doing: &'static str,
        /// The path, relative to the root.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A restore failed and could not be rolled back. It can be retried.
    #[error(
        "the files were restored only in part: cannot {doing} {}: {source}; remove the cause and retry",
        path.display()
    )]
    Incomplete {
        /// The operation that failed, worded to complete "cannot …".
        doing: &'static str,
        /// The path, relative to the root.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file system operation failed.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// The operation that failed, worded to complete "cannot …".
        doing: &'static str,
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl CheckpointError {
    /// Returns a function that wraps an I/O error, for `map_err`.
    pub(super) fn io<'a>(doing: &'static str, path: &'a Path) -> impl Fn(io::Error) -> Self + 'a {
        move |source| Self::Io {
            doing,
            path: path.to_owned(),
            source,
        }
    }
}

fn listed(paths: &[PathBuf]) -> String {
    let first = paths.iter().take(MAX_SHOWN_PATHS);
    let mut shown: Vec<_> = first.map(|path| path.display().to_string()).collect();
    if paths.len() > MAX_SHOWN_PATHS {
        shown.push(format!("and {} more", paths.len() - MAX_SHOWN_PATHS));
    }
    shown.join(", ")
}
