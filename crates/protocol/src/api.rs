//! The Runtime API as a trait: the daemon in this process and a client over a connection both implement it.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;

use crate::operations::{Endpoint, RequestBody, request_target};
use crate::{ErrorBody, ErrorCode};

pub use crate::operations::RuntimeApi;

/// Future of a call's response.
pub type CallFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, CallError>> + Send + 'a>>;

/// A request for one operation.
#[derive(Debug, Clone)]
pub struct Call<E: Endpoint> {
    /// The parameters in the path.
    pub path: E::Path,
    /// The query string.
    pub query: E::Query,
    /// The request body; `()` if the operation has none.
    pub request: E::Request,
    /// Requests with the same key are one request, also after a restart of the daemon.
    pub idempotency_key: Option<String>,
}

impl<E: Endpoint> Call<E> {
    /// Creates a request with an empty query.
    pub fn new(path: E::Path, request: E::Request) -> Self {
        Self {
            path,
            query: E::Query::default(),
            request,
            idempotency_key: None,
        }
    }

    /// Sets the query.
    #[must_use]
    pub fn with_query(mut self, query: E::Query) -> Self {
        self.query = query;
        self
    }

    /// Sets the idempotency key.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Returns the path and the query string, percent-encoded.
    ///
    /// # Errors
    /// A parameter of the path is empty.
    pub fn target(&self) -> Result<String, CallError> {
        request_target(E::OPERATION.path, &self.path, &self.query)
    }

    /// Returns the JSON of the request; it is empty if the operation has no body.
    ///
    /// # Errors
    /// The request cannot be written as JSON.
    pub fn body(&self) -> Result<Vec<u8>, CallError> {
        match E::OPERATION.body {
            RequestBody::None => Ok(Vec::new()),
            RequestBody::Required | RequestBody::Optional => Ok(serde_json::to_vec(&self.request)?),
        }
    }
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The entries, in the order of the list.
    pub entries: Vec<T>,
    /// The `cursor` of the next page; `None` after the last one, and for lists without pages.
    pub next: Option<String>,
}

impl<T> From<Vec<T>> for Page<T> {
    fn from(entries: Vec<T>) -> Self {
        Self {
            entries,
            next: None,
        }
    }
}

/// A response that arrives in parts.
pub trait Parts<T>: Send {
    /// Returns the next part; `None` after the last one.
    fn next(&mut self) -> CallFuture<'_, Option<T>>;
}

/// A response in parts of a type.
pub type ResponseStream<T> = Box<dyn Parts<T>>;

/// Error of a call without a usable response.
#[derive(Debug)]
pub enum CallError {
    /// The daemon refused the request.
    Refused(Box<ErrorBody>),
    /// The daemon cannot be reached.
    Unreachable(io::Error),
    /// The connection broke. Whether the daemon executed the request is unknown.
    Broken(Box<dyn Error + Send + Sync>),
    /// The response has an error status and no body of the API.
    Status {
        /// The HTTP status.
        status: u16,
        /// The beginning of the body.
        text: String,
    },
    /// The request or the response is not the JSON of its type.
    Unreadable(serde_json::Error),
    /// The path, the token or another header has characters that HTTP does not allow.
    InvalidRequest(String),
}

impl CallError {
    /// Returns the code of a refusal.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused(body) => body.error.code,
            _ => None,
        }
    }

    /// Returns whether the daemon is gone, so that another one may be reachable soon. A refused connection counts, one that
    /// the operating system does not permit does not.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        match self {
            Self::Unreachable(error) => error.kind() != io::ErrorKind::PermissionDenied,
            Self::Broken(_) => true,
            _ => false,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(body) => f.write_str(&body.error.message),
            Self::Unreachable(error) => write!(f, "the daemon cannot be reached: {error}"),
            Self::Broken(error) => write!(f, "the connection to the daemon broke: {error}"),
            Self::Status { status, text } => {
                write!(f, "the daemon answered with status {status}: {text}")
            }
            Self::Unreadable(error) => write!(f, "a message of the API cannot be read: {error}"),
            Self::InvalidRequest(what) => write!(f, "the request cannot be sent: {what}"),
        }
    }
}

impl Error for CallError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Refused(_) | Self::Status { .. } | Self::InvalidRequest(_) => None,
            Self::Unreachable(error) => Some(error),
            Self::Broken(error) => Some(error.as_ref()),
            Self::Unreadable(error) => Some(error),
        }
    }
}

impl From<serde_json::Error> for CallError {
    fn from(error: serde_json::Error) -> Self {
        Self::Unreadable(error)
    }
}
