//! Errors of queries.

use crate::cursor::CursorError;
use crate::journal::JournalError;

impl From<QueryError> for JournalError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Journal(error) => error,
            QueryError::Cursor(error) => error.into(),
            error => Self::Unavailable(error.to_string()),
        }
    }
}

/// Errors of a query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The cursor is invalid.
    #[error(transparent)]
    Cursor(#[from] CursorError),
    /// A row cannot be read. The records are unaffected.
    #[error("{what} cannot be read: {why}; rebuild the rows")]
    DamagedRow {
        /// The table and key of the row.
        what: String,
        /// What is wrong.
        why: String,
    },
    /// The log could not be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
}
