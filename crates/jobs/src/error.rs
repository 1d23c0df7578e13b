//! Why something was not done.

use windlass_store::JournalError;

use crate::schedule::RuleError;

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// A value is not as it must be.
    #[error("`{field}` {reason}")]
    Invalid {
        /// Its name.
        field: &'static str,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// A schedule is not one.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// There are as many as there may be.
    #[error(
        "there are {limit} {what} already, which is the limit; wait until some have ended, or remove some"
    )]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        limit: usize,
    },
    /// What there is of an owner has as many bytes as it may have.
    #[error(
        "the {what} would exceed the limit of {limit} bytes; wait until some have ended, or remove some"
    )]
    TooManyBytes {
        /// Of what.
        what: &'static str,
        /// How many bytes there may be.
        limit: u64,
    },
    /// There is nothing of that id.
    #[error("no {what} has the id `{id}`")]
    NotFound {
        /// What was looked for.
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// It is not in a state in which that can be done.
    #[error("{what} `{id}` {reason}")]
    Conflict {
        /// What it is.
        what: &'static str,
        /// Its id.
        id: String,
        /// What is in the way.
        reason: &'static str,
    },
    /// Another process has taken over the work; this one has to stop.
    #[error("another process has taken over the work of this data directory")]
    Replaced,
    /// A record cannot be read.
    #[error("the record `{name}` of kind `{kind}` cannot be read: {what}; it was left as it is")]
    Corrupt {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// What is wrong with it.
        what: String,
    },
    /// Nothing can be written or read now.
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

    pub(crate) fn not_found(what: &'static str, id: impl ToString) -> Self {
        Self::NotFound {
            what,
            id: id.to_string(),
        }
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

/// Refuses a text that is too long, or has none at all where it must.
pub(crate) fn check_text(
    field: &'static str,
    text: &str,
    longest: usize,
    is_needed: bool,
) -> Result<(), JobError> {
    if is_needed && text.trim().is_empty() {
        return Err(JobError::invalid(field, "must not be blank"));
    }
    if text.len() > longest {
        let reason = format!("has {} bytes, and {longest} are allowed", text.len());
        return Err(JobError::invalid(field, reason));
    }
    Ok(())
}

/// Refuses one more to an owner who has half of what there may be, so that none takes all the room.
pub(crate) fn check_share(
    what: &'static str,
    of_owner: usize,
    limit: usize,
) -> Result<(), JobError> {
    let limit = limit.div_ceil(2);
    if of_owner < limit {
        Ok(())
    } else {
        Err(JobError::TooMany { what, limit })
    }
}

/// Refuses a name that is blank, too long or has control characters.
pub(crate) fn check_name(field: &'static str, text: &str, longest: usize) -> Result<(), JobError> {
    check_text(field, text, longest, true)?;
    if text.chars().any(char::is_control) {
        Err(JobError::invalid(field, "must not have control characters"))
    } else {
        Ok(())
    }
}

/// Cuts a text that is too long to be kept.
pub(crate) fn cut_to(mut text: String, longest: usize) -> String {
    if text.len() > longest {
        let end = (0..=longest).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or_default());
        text.push('…');
    }
    text
}
