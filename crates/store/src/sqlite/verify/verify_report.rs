//! Findings of a check.

use std::fmt;

use crate::journal::{JournalError, StreamKey};

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The stream, where it is one's.
    pub stream: Option<StreamKey>,
    /// The record, where it is one's.
    pub seq: Option<u64>,
    /// Description of the problem.
    pub what: String,
}

impl Finding {
    pub(crate) fn general(what: impl Into<String>) -> Self {
        Self {
            stream: None,
            seq: None,
            what: what.into(),
        }
    }

    pub(crate) fn of_stream(stream: &StreamKey, what: impl Into<String>) -> Self {
        Self {
            stream: Some(stream.clone()),
            ..Self::general(what)
        }
    }

    pub(crate) fn of_record(stream: &StreamKey, seq: u64, what: impl Into<String>) -> Self {
        Self {
            seq: Some(seq),
            ..Self::of_stream(stream, what)
        }
    }

    /// Names the record that an error is about.
    pub(crate) fn of_error(stream: &StreamKey, error: JournalError) -> Self {
        match error {
            JournalError::Damaged { seq, what, .. } => Self::of_record(stream, seq, what),
            JournalError::UnknownVersion { seq, version, .. } => {
                Self::of_record(stream, seq, format!("its version {version} is not known"))
            }
            other => Self::of_stream(stream, other.to_string()),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.stream, self.seq) {
            (Some(stream), Some(seq)) => write!(f, "stream {stream}, record {seq}: ")?,
            (Some(stream), None) => write!(f, "stream {stream}: ")?,
            _ => {}
        }
        f.write_str(&self.what)
    }
}
