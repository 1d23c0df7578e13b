//! Why files could not be kept, or not be brought back.

use std::io;
use std::path::{Path, PathBuf};

/// How many paths a message names.
const NAMED: usize = 5;

/// Why files could not be kept, or not be brought back.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Somebody else changed files since; nothing was touched.
    #[error(
        "files were changed by somebody else since: {}; nothing was restored: move those changes away, or undo without files",
        named(paths)
    )]
    ForeignEdits {
        /// Which, below the root.
        paths: Vec<PathBuf>,
    },
    /// A call was cut off with the process, and nobody knows whether it did all that differs; nothing was touched.
    #[error(
        "a call was cut off when the runtime died, and nobody knows whether all of this is its doing: {}; nothing was restored: look at it, and \
         ask again with `cut_off` to take it back, or undo without files",
        named(paths)
    )]
    CutOff {
        /// What is different, below the root.
        paths: Vec<PathBuf>,
    },
    /// The workspace is larger than what is kept.
    #[error(
        "{} holds more than {limit} {what}, which is too much to keep; let a .gitignore leave out what need not be kept",
        root.display()
    )]
    TooLarge {
        /// The workspace.
        root: PathBuf,
        /// What there is too much of.
        what: &'static str,
        /// How much is kept.
        limit: u64,
    },
    /// The files of a call were not kept when it was made.
    #[error("the files before a call were not kept: {why}")]
    NotKept {
        /// Why not.
        why: String,
    },
    /// Nothing is known of the turn's files any more, or was never.
    #[error(
        "what the turn did to files is not kept: it began while checkpoints were off, or is older than all that are kept \
         (`checkpoints.max_mb`)"
    )]
    NotKnown,
    /// What was kept is gone.
    #[error("the checkpoint {id} is not kept any more")]
    Gone {
        /// What was looked for.
        id: String,
    },
    /// What was kept is not what is there.
    #[error("{} is damaged: it is not what its name says", path.display())]
    Damaged {
        /// The file of the store.
        path: PathBuf,
    },
    /// Files are being changed at this moment.
    #[error(
        "a call is changing files in {}; try again when it has ended",
        root.display()
    )]
    Busy {
        /// The workspace.
        root: PathBuf,
    },
    /// The workspace may not be changed.
    #[error("environment `{id}` is read-only: its files stay as they are")]
    ReadOnly {
        /// The environment.
        id: String,
    },
    /// The environment of a turn is another one by now.
    #[error("environment `{id}` is no longer at {}, where the turn worked", root.display())]
    Moved {
        /// The environment.
        id: String,
        /// Where it was.
        root: PathBuf,
    },
    /// A restore failed, and the files are as they were before it.
    #[error(
        "cannot {doing} {}: {source}; nothing was restored: remove the cause and ask again",
        path.display()
    )]
    RolledBack {
        /// What was tried.
        doing: &'static str,
        /// With what, below the root.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A restore failed, and could not be rolled back. It can be asked for again.
    #[error(
        "the files were restored only in part: cannot {doing} {}: {source}; remove the cause and ask again",
        path.display()
    )]
    Partly {
        /// What was tried.
        doing: &'static str,
        /// With what, below the root.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The system refused.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl CheckpointError {
    /// Names what the system refused.
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
