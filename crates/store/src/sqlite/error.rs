//! Errors of the SQLite store.

use std::path::{Path, PathBuf};

use windlass_core::error::AgentLoopError;

use crate::cursor::CursorError;
use crate::journal::JournalError;
use crate::queries::QueryError;

/// Why a store could not be opened, checked or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SqliteError {
    /// Another process, or another store of this one, has the directory.
    #[error(
        "{directory} is used by process {holder}; stop it first (in the same process, close the other store), or open the store for reading only"
    )]
    Locked {
        /// The data directory.
        directory: PathBuf,
        /// The process ID that is in the lock file.
        holder: String,
    },
    /// A file or directory cannot be used.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// The failed operation, as a verb: "cannot {doing} {path}".
        doing: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    /// The file is no database of Windlass.
    #[error(
        "{path} is not a database of Windlass ({what}); it was left as it is: choose another directory"
    )]
    Foreign {
        path: PathBuf,
        /// The reason why it is not a database of Windlass.
        what: String,
    },
    /// A newer version of Windlass has written the database.
    #[error(
        "{path} has schema version {found}, and this program knows up to {known}; open it with a newer Windlass, or, if it is \
         from before the first release, export it with the version that wrote it and import the lines here"
    )]
    NewerSchema {
        /// The database file.
        path: PathBuf,
        /// Its schema version.
        found: u32,
        /// The newest version that is known here.
        known: u32,
    },
    /// A version from before the first release has written the database.
    #[error(
        "{path} was written by a version of Windlass from before the first release, which is no longer read; export it with \
         the version that wrote it and import the lines here"
    )]
    EarlierSchema {
        /// The database file.
        path: PathBuf,
    },
    /// The database was created with another chain key, or with none.
    #[error(
        "the chain key does not belong to {path} ({what}); open it with the key it was made with"
    )]
    WrongChainKey {
        /// The database file.
        path: PathBuf,
        /// Whether a key is missing, superfluous or another.
        what: &'static str,
    },
    /// Commits that were acknowledged are not in the database.
    #[error(
        "{path} holds commits up to {found}, and {expected} were acknowledged: {what}. Put the missing file back from a \
         backup, or continue without them: start with --accept-lost-commits, or open with OnLostCommits::Accept"
    )]
    LostCommits {
        /// The database file.
        path: PathBuf,
        /// The newest commit in it.
        found: u64,
        /// The newest commit in the counter file.
        expected: u64,
        /// Which file is missing or cut.
        what: String,
    },
    /// The structure of the database is damaged.
    #[error(
        "{path} is damaged ({}); nothing was written. Open it for reading only and export what can be saved (`windlass store \
         export`), or put a backup in its place (`windlass store restore`)", findings.join("; ")
    )]
    Damaged {
        /// The database file.
        path: PathBuf,
        /// The messages of SQLite's integrity check.
        findings: Vec<String>,
    },
    /// No table of the database can be read.
    #[error(
        "{path} is so damaged that none of its tables can be read ({what}), so nothing can be exported; put a backup in its \
         place (`windlass store restore`)"
    )]
    Unreadable {
        /// The database file.
        path: PathBuf,
        /// The message of SQLite.
        what: String,
    },
    /// The store was opened for reading only.
    #[error("the store was opened for reading only; open it for writing")]
    ReadOnly,
    /// The store was closed, or writing has stopped.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// A secret cannot be stored or read without a key.
    #[error(
        "this store has no key for secrets, so it stores and returns none; open it with a key: by \
         SqliteOptions::with_secrets_key, for a conversation given to ConversationBuilder::on_disk_with (a daemon has a \
         secrets.key in its data directory, or the file that --secrets-key-file names)"
    )]
    NoSecretsKey,
    /// A secret was sealed with another key.
    #[error("the secret `{0}` was sealed with another key; open the store with that one")]
    WrongSecretsKey(String),
    /// A sealed secret was changed.
    #[error("the secret `{0}` was changed in the database and cannot be opened; set it again")]
    DamagedSecret(String),
    /// A stored row cannot be read.
    #[error("the stored {what} cannot be read: {why}")]
    DamagedRow {
        /// The table and key of the row.
        what: String,
        /// What is wrong.
        why: String,
    },
    /// A line of an export cannot be imported.
    #[error("line {line} of the export cannot be imported: {why}")]
    Import {
        /// The line's number, from 1.
        line: u64,
        /// What is wrong.
        why: String,
    },
    /// The journal refused the operation.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

pub(crate) type DbResult<T> = Result<T, DbError>;

/// Any failure of work on the database. Each public trait converts it into its own error.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) enum DbError {
    Sql(#[from] rusqlite::Error),
    Journal(#[from] JournalError),
    Agent(#[from] AgentLoopError),
    Store(#[from] SqliteError),
    Query(#[from] QueryError),
}

impl From<CursorError> for DbError {
    fn from(error: CursorError) -> Self {
        Self::Query(error.into())
    }
}

impl DbError {
    pub(crate) fn unavailable(why: impl Into<String>) -> Self {
        Self::Store(SqliteError::Unavailable(why.into()))
    }
}

impl SqliteError {
    /// Returns a function that adds the operation and its path to an I/O error.
    pub(crate) fn io(
        doing: &'static str,
        path: &Path,
    ) -> impl FnOnce(std::io::Error) -> Self + Clone + use<> {
        let path = path.to_owned();
        move |source| Self::Io {
            doing,
            path,
            source,
        }
    }
}

impl From<DbError> for SqliteError {
    fn from(error: DbError) -> Self {
        match error {
            DbError::Sql(error) => Self::Unavailable(explain(&error)),
            DbError::Journal(error) => Self::Journal(error),
            DbError::Store(error) => error,
            DbError::Agent(_) | DbError::Query(_) => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<DbError> for JournalError {
    fn from(error: DbError) -> Self {
        match error {
            DbError::Sql(error) => Self::Unavailable(explain(&error)),
            DbError::Journal(error) | DbError::Store(SqliteError::Journal(error)) => error,
            DbError::Query(error) => error.into(),
            DbError::Store(SqliteError::Unavailable(why)) => Self::Unavailable(why),
            DbError::Agent(_) | DbError::Store(_) => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<DbError> for QueryError {
    fn from(error: DbError) -> Self {
        match error {
            DbError::Query(error) => error,
            DbError::Store(SqliteError::DamagedRow { what, why }) => Self::DamagedRow { what, why },
            error => Self::Journal(error.into()),
        }
    }
}

impl From<DbError> for AgentLoopError {
    fn from(error: DbError) -> Self {
        match error {
            DbError::Sql(error) => Self::StoreUnavailable(explain(&error)),
            DbError::Agent(error) => error,
            DbError::Journal(JournalError::Unavailable(why))
            | DbError::Store(SqliteError::Unavailable(why)) => Self::StoreUnavailable(why),
            DbError::Store(SqliteError::NoSecretsKey | SqliteError::WrongSecretsKey(_)) => {
                Self::config(error.to_string())
            }
            DbError::Journal(_) | DbError::Store(_) | DbError::Query(_) => {
                Self::StoreUnavailable(error.to_string())
            }
        }
    }
}

/// Returns whether SQLite reported damaged pages.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(
        error.sqlite_error_code(),
        Some(DatabaseCorrupt | NotADatabase)
    )
}

/// Explains an error of SQLite to the operator.
pub(crate) fn explain(error: &rusqlite::Error) -> String {
    use rusqlite::ErrorCode::{
        DatabaseBusy, DatabaseCorrupt, DiskFull, NotADatabase, PermissionDenied, ReadOnly,
        SystemIoFailure,
    };
    let advice = match error.sqlite_error_code() {
        Some(DiskFull) => "no space is left for the database; make room, then try again",
        Some(ReadOnly | PermissionDenied) => {
            "the database may not be written; check the rights of its directory"
        }
        Some(SystemIoFailure) => "the disk reported an error; check it, then open the store again",
        Some(DatabaseCorrupt | NotADatabase) => {
            "the database is damaged; open it for reading only and export what can be saved (`windlass store export`), or put a \
             backup in its place (`windlass store restore`)"
        }
        Some(DatabaseBusy) => "another program holds the database; stop it, then try again",
        _ => return error.to_string(),
    };
    format!("{advice} ({error})")
}
