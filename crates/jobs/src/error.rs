//! Errors of job operations.

use windlass_core::bounds::prefix;
use windlass_store::JournalError;

use crate::schedule::RuleError;

/// Why a job operation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// A value is invalid.
    #[error("`{field}` {reason}")]
    Invalid {
        /// Name of the field.
        field: &'static str,
        /// What is wrong, and the valid values.
        reason: String,
    },
    /// The schedule is invalid.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// A limit on the number of objects is reached.
    #[error(
        "there are {limit} {object} already, which is the limit; wait until some have ended, or remove some"
    )]
    TooMany {
        /// Name of the limited objects.
        object: &'static str,
        /// Maximum number of them.
        limit: usize,
    },
    /// A limit on the bytes of one owner is reached.
    #[error(
        "the {object} would exceed the limit of {limit} bytes; wait until some have ended, or remove some"
    )]
    TooManyBytes {
        /// Name of the limited objects.
        object: &'static str,
        /// Maximum number of bytes.
        limit: u64,
    },
    /// The object does not exist.
    #[error("no {object} has the id `{id}`")]
    NotFound {
        /// Kind of the object.
        object: &'static str,
        /// ID of the object.
        id: String,
    },
    /// The state of the object does not allow the operation.
    #[error("{object} `{id}` {reason}")]
    Conflict {
        /// Kind of the object.
        object: &'static str,
        /// ID of the object.
        id: String,
        /// Why the operation is not possible.
        reason: &'static str,
    },
    /// Another process has claimed the stream; this one must stop.
    #[error("another process has taken over the work of this data directory")]
    Replaced,
    /// A stored row or record cannot be read.
    #[error("the record `{name}` of kind `{kind}` cannot be read: {reason}; it was left as it is")]
    Corrupt {
        /// Kind of the row.
        kind: &'static str,
        /// Name of the row.
        name: String,
        /// Why it cannot be read.
        reason: String,
    },
    /// The store cannot be read or written now.
    #[error("the work could not be recorded or read: {0}")]
    Storage(String),
}

impl JobError {
    pub(crate) fn invalid(field: &'static str, reason: impl Into<String>) -> Self {
        Self::Invalid {
            field,
            reason: reason.into(),
        }
    }

    pub(crate) fn conflict(object: &'static str, id: impl ToString, reason: &'static str) -> Self {
        Self::Conflict {
            object,
            id: id.to_string(),
            reason,
        }
    }

    pub(crate) fn not_found(object: &'static str, id: impl ToString) -> Self {
        Self::NotFound {
            object,
            id: id.to_string(),
        }
    }
}

/// Logs an unreadable object and skips it: others are unaffected.
pub(crate) fn skip_corrupt<T>(
    found: Result<T, JobError>,
    message: &'static str,
) -> Result<Option<T>, JobError> {
    match found {
        Err(error @ JobError::Corrupt { .. }) => {
            tracing::error!(%error, "{message}");
            Ok(None)
        }
        found => found.map(Some),
    }
}

impl From<JournalError> for JobError {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::Fenced { .. } => Self::Replaced,
            _ => Self::Storage(error.to_string()),
        }
    }
}

impl From<windlass_core::error::AgentLoopError> for JobError {
    fn from(error: windlass_core::error::AgentLoopError) -> Self {
        Self::Storage(error.to_string())
    }
}

/// Rejects a text that is blank or too long.
pub(crate) fn check_text(field: &'static str, text: &str, longest: usize) -> Result<(), JobError> {
    if text.trim().is_empty() {
        return Err(JobError::invalid(field, "must not be blank"));
    }
    check_length(field, text, longest)
}

/// Rejects a text that is too long.
pub(crate) fn check_length(
    field: &'static str,
    text: &str,
    longest: usize,
) -> Result<(), JobError> {
    if text.len() > longest {
        let reason = format!("has {} bytes, and {longest} are allowed", text.len());
        return Err(JobError::invalid(field, reason));
    }
    Ok(())
}

/// Rejects one more object of an owner that has half of the maximum, so that no owner takes it all.
pub(crate) fn check_owner_share(
    object: &'static str,
    of_owner: usize,
    limit: usize,
) -> Result<(), JobError> {
    let limit = limit.div_ceil(2);
    if of_owner < limit {
        Ok(())
    } else {
        Err(JobError::TooMany { object, limit })
    }
}

/// Rejects a name that is blank, too long or contains control characters.
pub(crate) fn check_name(field: &'static str, text: &str, longest: usize) -> Result<(), JobError> {
    check_text(field, text, longest)?;
    if text.chars().any(char::is_control) {
        Err(JobError::invalid(field, "must not have control characters"))
    } else {
        Ok(())
    }
}

/// Rejects an optional name like [`check_name`].
pub(crate) fn check_optional_name(
    field: &'static str,
    text: Option<&String>,
    longest: usize,
) -> Result<(), JobError> {
    text.map_or(Ok(()), |text| check_name(field, text, longest))
}

/// Truncates a text to at most `longest` bytes and an ellipsis.
pub(crate) fn truncate_to(mut text: String, longest: usize) -> String {
    if text.len() > longest {
        text.truncate(prefix(&text, longest).len());
        text.push('…');
    }
    text
}
