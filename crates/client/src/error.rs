//! What can go wrong between a client and a daemon.

use std::io;

use windlass_protocol::{ErrorBody, ErrorCode};

/// Why a request has no good answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody is there.
    #[error("the daemon cannot be reached: {0}")]
    Unreachable(#[source] io::Error),
    /// The connection broke in the middle. Whether the daemon did what it was asked is not known.
    #[error("the connection to the daemon broke: {0}")]
    Broken(#[source] hyper::Error),
    /// The daemon said no.
    #[error("{}", .0.error.message)]
    Refused(Box<ErrorBody>),
    /// The daemon said no, and not in words that are known.
    #[error("the daemon answered with status {status}: {text}")]
    Status {
        /// The status.
        status: u16,
        /// The beginning of what it said.
        text: String,
    },
    /// What was sent or answered is not what was meant.
    #[error("what the daemon said cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// What was read cannot be written.
    #[error("what was read cannot be written: {0}")]
    Unwritten(#[source] io::Error),
    /// A path or a token that no request can carry.
    #[error("the request cannot be made: {0}")]
    BadRequest(String),
}

impl ClientError {
    /// Returns the code of a refusal.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused(body) => body.error.code,
            _ => None,
        }
    }

    /// Tells whether the daemon is gone, so that another may be there soon. One that may not be spoken to is not gone.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        match self {
            Self::Unreachable(error) => error.kind() != io::ErrorKind::PermissionDenied,
            Self::Broken(_) => true,
            _ => false,
        }
    }
}
