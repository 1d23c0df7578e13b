//! Errors of the SQLite store.

use std::path::PathBuf;

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
        "{directory} is used by process {holder}; stop it first (in the same process, close what has it open), or open the store for reading only"
    )]
    Locked {
        /// The data directory.
        directory: PathBuf,
        /// The process id as the holder wrote it.
        holder: String,
    },
    /// A file or directory cannot be used.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// The failed operation, as a verb: "cannot {doing} {path}".
        doing: &'static str,
        path: PathBuf,
        /// Why it did not work.
        source: std::io::Error,
    },
    /// The file is not one of ours.
    #[error(
        "{path} is not a database of Windlass ({what}); it was left as it is: choose another directory"
    )]
    Foreign {
        path: PathBuf,
        /// The reason why it is not a database of Windlass.
        what: String,
    },
    /// A newer version has written the database.
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
         backup, or go on without them: start with --accept-lost-commits, or open with OnLostCommits::Accept"
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
        "{path} is so damaged that nothing in it can be found ({what}), so nothing can be exported either; put a backup in its \
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
    /// The store was closed, or cannot be written any more.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// A secret cannot be stored or read without a key.
    #[error(
        "this store has no key for secrets, so it keeps and shows none; whoever runs the program opens it with one: by \
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
    /// The journal refused.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Any failure of work on the database. Each public trait converts it into its own error.
#[derive(Debug)]
pub(crate) enum Fault {
    Sql(rusqlite::Error),
    Journal(JournalError),
    Agent(AgentLoopError),
    Store(SqliteError),
    Query(QueryError),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}
impl From<JournalError> for Fault {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}
impl From<AgentLoopError> for Fault {
    fn from(error: AgentLoopError) -> Self {
        Self::Agent(error)
    }
}
impl From<SqliteError> for Fault {
    fn from(error: SqliteError) -> Self {
        Self::Store(error)
    }
}

impl Fault {
    pub(crate) fn unavailable(why: impl Into<String>) -> Self {
        Self::Store(SqliteError::Unavailable(why.into()))
    }
}

impl From<Fault> for SqliteError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Sql(error) => Self::Unavailable(explain(&error)),
            Fault::Journal(error) => Self::Journal(error),
            Fault::Agent(error) => Self::Unavailable(error.to_string()),
            Fault::Query(error) => Self::Unavailable(error.to_string()),
            Fault::Store(error) => error,
        }
    }
}

impl From<Fault> for JournalError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Sql(error) => Self::Unavailable(explain(&error)),
            Fault::Journal(error) | Fault::Store(SqliteError::Journal(error)) => error,
            Fault::Agent(error) => Self::Unavailable(error.to_string()),
            Fault::Query(error) => error.into(),
            Fault::Store(SqliteError::Unavailable(why)) => Self::Unavailable(why),
            Fault::Store(error) => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<CursorError> for Fault {
    fn from(error: CursorError) -> Self {
        Self::Query(error.into())
    }
}

impl From<QueryError> for Fault {
    fn from(error: QueryError) -> Self {
        Self::Query(error)
    }
}

impl From<Fault> for QueryError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Query(error) => error,
            Fault::Store(SqliteError::DamagedRow { what, why }) => Self::DamagedRow { what, why },
            fault => Self::Journal(fault.into()),
        }
    }
}

impl From<Fault> for AgentLoopError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Sql(error) => Self::StoreUnavailable(explain(&error)),
            Fault::Agent(error) => error,
            Fault::Journal(JournalError::Unavailable(why))
            | Fault::Store(SqliteError::Unavailable(why)) => Self::StoreUnavailable(why),
            Fault::Journal(error) => Self::StoreUnavailable(error.to_string()),
            Fault::Store(error @ (SqliteError::NoSecretsKey | SqliteError::WrongSecretsKey(_))) => {
                Self::config(error.to_string())
            }
            Fault::Store(error) => Self::StoreUnavailable(error.to_string()),
            Fault::Query(error) => Self::StoreUnavailable(error.to_string()),
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
        Some(SystemIoFailure) => {
            "the disk did not do as asked; check it, then open the store again"
        }
        Some(DatabaseCorrupt | NotADatabase) => {
            "the database is damaged; open it for reading only and export what can be saved (`windlass store export`), or put a \
             backup in its place (`windlass store restore`)"
        }
        Some(DatabaseBusy) => "another program holds the database; stop it, then try again",
        _ => return error.to_string(),
    };
    format!("{advice} ({error})")
}
