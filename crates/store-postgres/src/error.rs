//! Errors of the store.

use std::error::Error as _;

use deadpool_postgres::PoolError;
use tokio_postgres::error::{Severity, SqlState};
use windlass_core::error::AgentLoopError;
use windlass_store::{CursorError, JournalError, LedgerError};

/// Why a PostgreSQL store cannot be opened or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PostgresError {
    /// The URL is invalid.
    #[error("the database URL is invalid: {0}")]
    Url(String),
    /// The URL requests TLS, or omits it for another machine.
    #[error("the database connection cannot be encrypted: {0}")]
    Tls(String),
    /// The name of the schema is invalid.
    #[error(
        "`{0}` is not the name of a schema: use up to 40 lowercase letters, digits and underscores"
    )]
    SchemaName(String),
    /// The server cannot be reached, or rejects the login.
    #[error("the database cannot be reached: {0}")]
    Unreachable(String),
    /// The schema contains tables of another program.
    #[error(
        "the schema `{0}` of the database belongs to another program; use another schema or database"
    )]
    AnotherProgram(String),
    /// A newer version has written the database.
    #[error(
        "the schema `{schema}` of the database has version {found}, but this program knows only versions up to {known}; use a newer \
         Windlass, the database is unchanged"
    )]
    NewerSchema {
        /// The name of the schema.
        schema: String,
        /// The version of the database.
        found: i32,
        /// The newest version that this program knows.
        known: i32,
    },
    /// The server would acknowledge commits that it can lose.
    #[error(
        "the server setting `{0}` is off, so that it can lose acknowledged commits; turn it on"
    )]
    NotDurable(&'static str),
    /// The server uses another encoding of texts.
    #[error("the database has the encoding {0}; create it with UTF8")]
    Encoding(String),
    /// The chain's key is missing, superfluous or another one.
    #[error("the key of the chain does not fit the database: {0}")]
    ChainKey(&'static str),
    /// The store was closed.
    #[error("the store was closed")]
    Closed,
    /// An operation failed, and changed nothing unless the connection ended during its commit.
    #[error("the database reported an error: {0}")]
    Database(String),
}

/// The result of work in the database, which either the database or a rule of the journal ends.
pub(crate) type DbResult<T> = Result<T, DbError>;

#[derive(Debug, Clone)]
pub(crate) enum DbError {
    Journal(JournalError),
    Store(PostgresError),
    /// Another transaction prevented this one, which can be repeated.
    Conflict(PostgresError),
    /// The server rejected a statement, so nothing was committed.
    Rejected(PostgresError),
}

impl DbError {
    /// Returns whether certainly nothing was committed.
    pub(crate) fn is_rolled_back(&self) -> bool {
        matches!(self, Self::Conflict(_) | Self::Rejected(_))
    }
}

/// Describes an error with its causes: the error alone names only its kind.
pub(crate) fn describe(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(error), _) => format!("{} ({})", error.message(), error.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

impl From<tokio_postgres::Error> for DbError {
    fn from(error: tokio_postgres::Error) -> Self {
        let described = PostgresError::from(&error);
        let conflicts = [
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::T_R_SERIALIZATION_FAILURE,
        ];
        match error.as_db_error() {
            Some(error) if conflicts.contains(error.code()) => Self::Conflict(described),
            Some(error) if error.parsed_severity() == Some(Severity::Error) => {
                Self::Rejected(described)
            }
            // A server that shuts down reports that after a commit too.
            _ => Self::Store(described),
        }
    }
}

impl From<&tokio_postgres::Error> for PostgresError {
    fn from(error: &tokio_postgres::Error) -> Self {
        Self::Database(describe(error))
    }
}

impl From<tokio_postgres::Error> for PostgresError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::from(&error)
    }
}

impl From<PoolError> for PostgresError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Closed => Self::Closed,
            PoolError::Backend(error) => Self::Unreachable(describe(&error)),
            error => Self::Unreachable(error.to_string()),
        }
    }
}

impl From<PostgresError> for DbError {
    fn from(error: PostgresError) -> Self {
        Self::Store(error)
    }
}

impl From<PoolError> for DbError {
    fn from(error: PoolError) -> Self {
        Self::Store(error.into())
    }
}

impl From<JournalError> for DbError {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

impl From<CursorError> for DbError {
    fn from(error: CursorError) -> Self {
        Self::Journal(error.into())
    }
}

impl From<DbError> for JournalError {
    fn from(error: DbError) -> Self {
        match error {
            DbError::Journal(error) => error,
            DbError::Store(error) | DbError::Conflict(error) | DbError::Rejected(error) => {
                Self::Unavailable(error.to_string())
            }
        }
    }
}

impl From<DbError> for LedgerError {
    fn from(error: DbError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl From<DbError> for AgentLoopError {
    fn from(error: DbError) -> Self {
        Self::StoreUnavailable(error.to_string())
    }
}

impl std::fmt::Display for DbError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Journal(error) => error.fmt(f),
            Self::Store(error) | Self::Conflict(error) | Self::Rejected(error) => error.fmt(f),
        }
    }
}
