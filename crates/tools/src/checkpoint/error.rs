//! Errors of taking and restoring checkpoints.

use std::io;
use std::path::{Path, PathBuf};

/// Maximum number of paths in a message.
const NAMED: usize = 5;

/// Why a checkpoint could not be taken or restored.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Files were changed since by something else; no file was touched.
    #[error(
        "files were changed by somebody else since: {}; nothing was restored: move those changes away, or undo without files",
        named(paths)
    )]
    ForeignEdits {
        /// The changed paths, relative to the root.
        paths: Vec<PathBuf>,
    },
    /// A call was cut off when the process died, so the differences may not all be its changes; no file was touched.
    #[error(
        "a call was cut off when the runtime died, and nobody knows whether all of this is its doing: {}; nothing was restored: look at it, and \
         ask again with `cut_off` to take it back, or undo without files",
        named(paths)
    )]
    CutOff {
        /// The differing paths, relative to the root.
        paths: Vec<PathBuf>,
    },
    /// The workspace exceeds a limit for checkpoints.
    #[error(
        "{} holds more than {limit} {what}, which is too much to keep; let a .gitignore leave out what need not be kept",
        root.display()
    )]
    TooLarge {
        root: PathBuf,
        /// The limited quantity.
        what: &'static str,
        limit: u64,
    },
    /// No checkpoint was taken before a call.
    #[error("the files before a call were not kept: {why}")]
    NotKept {
        /// Message of the error that prevented it.
        why: String,
    },
    /// There is no record of the turn's changes: it was removed, or never written.
    #[error(
        "what the turn did to files is not kept: it began while checkpoints were off, or is older than all that are kept \
         (`checkpoints.max_mb`)"
    )]
    NotKnown,
    /// The checkpoint was removed.
    #[error("the checkpoint {id} is not kept any more")]
    Gone {
        /// Digest of the removed checkpoint.
        id: String,
    },
    /// Stored content does not match its digest.
    #[error("{} is damaged: it is not what its name says", path.display())]
    Damaged {
        /// The file of the store.
        path: PathBuf,
    },
    /// A call is changing files at this moment.
    #[error(
        "a call is changing files in {}; try again when it has ended",
        root.display()
    )]
    Busy {
        /// Root of the workspace.
        root: PathBuf,
    },
    /// The environment's policy forbids changes.
    #[error("environment `{id}` is read-only: its files stay as they are")]
    ReadOnly {
        /// ID of the environment.
        id: String,
    },
    /// The environment now has a different root than during the turn.
    #[error("environment `{id}` is no longer at {}, where the turn worked", root.display())]
    Moved {
        id: String,
        /// The root during the turn.
        root: PathBuf,
    },
    /// A restore failed and was rolled back completely.
    #[error(
        "cannot {doing} {}: {source}; nothing was restored: remove the cause and ask again",
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
        "the files were restored only in part: cannot {doing} {}: {source}; remove the cause and ask again",
        path.display()
    )]
    Partly {
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

fn named(paths: &[PathBuf]) -> String {
    let first = paths.iter().take(NAMED);
    let mut text: Vec<_> = first.map(|path| path.display().to_string()).collect();
    if let Some(more) = paths.len().checked_sub(NAMED).filter(|more| *more > 0) {
        text.push(format!("and {more} more"));
    }
    text.join(", ")
}
