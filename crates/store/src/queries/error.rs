//! Why a question was not answered.

use crate::journal::JournalError;

impl From<QueryError> for JournalError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Journal(error) => error,
            error => Self::Unavailable(error.to_string()),
        }
    }
}

/// Why a question was not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The cursor is none: it was cut, changed, or is that of another list.
    #[error("`{cursor}` is not a cursor of this list ({why}); ask for the first page again")]
    BadCursor {
        /// What was given.
        cursor: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The cursor was given out by another database.
    #[error("the cursor `{0}` was given out by another database; ask for the first page again")]
    ForeignCursor(String),
    /// The cursor is newer than the database: an older copy of it was put back.
    #[error(
        "the cursor `{0}` is newer than this database, which was put back from an older copy; ask for the first page again"
    )]
    FutureCursor(String),
    /// A row cannot be read. The records are not touched by that.
    #[error("{what} cannot be read: {why}; rebuild the rows")]
    DamagedRow {
        /// Which row.
        what: String,
        /// What is wrong.
        why: String,
    },
    /// The log could not be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
}
