//! Every operation of the Runtime API, declared once: method, path, scope, query, request and response.
//!
//! The router, the scopes of tokens, the API's description and the clients are derived from [`OPERATIONS`] and [`Endpoint`].

mod paths;
mod queries;
mod query;
mod table;
mod target;

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ErrorCode;

pub use paths::{
    AgentRunPath, ApprovalPath, CallPath, IdPath, InputPath, NamePath, Path, RunPath, TurnPath,
    WorkerPath,
};
pub use queries::{
    AgentRunsQuery, AutomationRunsQuery, EventsQuery, ExportQuery, FleetEventsQuery,
    FleetRunsQuery, McpToolsQuery, RecordsQuery, RunStatusFilter, RunsQuery, SessionOrder,
    SessionQuery, SessionsQuery, SnapshotsQuery, TasksQuery, ThreadDetailQuery, ThreadState,
    ThreadStateQuery, ThreadSummariesQuery, ThreadsQuery, UsageQuery, WaitsQuery,
};
pub use query::{CommaList, InvalidQuery, Query, QueryParameter, QueryValue};
pub use table::*;
pub(crate) use target::request_target;

/// An HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// GET: reads without side effects.
    Get,
    /// POST: creates or starts something.
    Post,
    /// PUT: replaces the whole resource.
    Put,
    /// PATCH: changes single fields.
    Patch,
    /// DELETE: removes the resource.
    Delete,
}

impl Method {
    /// Returns the name as HTTP writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// The scope that an operation requires of a token. A scope further down includes the callers of those above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequiredScope {
    /// Tokens with the scope `admin`, and the operator's own.
    Admin,
    /// Also tokens with the scope `client`.
    Client,
    /// Also the token of the agent that owns the thread in the path.
    Owner,
    /// Also the token of any agent.
    Agent,
    /// No token is needed.
    Anyone,
}

impl fmt::Display for RequiredScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Admin => "admin",
            Self::Client => "admin, client",
            Self::Owner => "admin, client, the agent of the thread",
            Self::Agent => "admin, client, agent",
            Self::Anyone => "anyone",
        })
    }
}

/// Whether a request has a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestBody {
    /// No body; a body that is sent is read and ignored.
    None,
    /// A body is required.
    Required,
    /// A body is optional; without one, every field has its default.
    Optional,
}

/// The form of a successful response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseForm {
    /// One JSON value.
    Json,
    /// A JSON array; the response type is its element.
    List,
    /// Server-sent events, whose data is of the response type.
    Events,
    /// Server-sent events of several types.
    Frames,
    /// One JSON value per line.
    Lines,
    /// Plain text in UTF-8.
    Text,
    /// A status without a body.
    Empty,
}

/// An operation without its types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// The name of the operation in Rust; the `operationId` begins with a lower-case letter.
    pub name: &'static str,
    /// HTTP method of the route.
    pub method: Method,
    /// The path, with `{names}` for its parameters.
    pub path: &'static str,
    /// Required scope of the caller.
    pub scope: RequiredScope,
    /// One sentence for the OpenAPI summary.
    pub summary: &'static str,
    /// The parameters of the query string.
    pub query: &'static [QueryParameter],
    /// Whether a body is sent.
    pub body: RequestBody,
    /// The status of success.
    pub status: u16,
    /// The form of a successful response.
    pub response: ResponseForm,
    /// The error codes that do not follow from the rest.
    pub own_errors: &'static [ErrorCode],
}

impl Operation {
    /// Returns the `operationId`.
    #[must_use]
    pub fn id(&self) -> String {
        let (first, rest) = self.name.split_at(1);
        format!("{}{rest}", first.to_ascii_lowercase())
    }

    /// Returns the codes of all errors that it answers with, by status and name. A path or method that no operation has is answered
    /// with `unknown_path` or `method_not_allowed`.
    #[must_use]
    pub fn errors(&self) -> Vec<ErrorCode> {
        use ErrorCode as Code;
        let has_body = self.body != RequestBody::None;
        let derived: [(bool, &[Code]); 7] = [
            // Any request can exceed a limit or arrive too slowly, and the daemon may be unable to read its records.
            (
                true,
                &[
                    Code::ForeignHost,
                    Code::Forbidden,
                    Code::InvalidQuery,
                    Code::RequestTimeout,
                    Code::BodyTooLarge,
                    Code::LimitReached,
                    Code::Internal,
                    Code::StoreUnavailable,
                ],
            ),
            (
                self.scope != RequiredScope::Anyone,
                &[Code::Unauthorized, Code::TokensUnavailable],
            ),
            (
                has_body,
                &[
                    Code::InvalidJson,
                    Code::UnsupportedMediaType,
                    Code::InvalidField,
                ],
            ),
            (self.method == Method::Post, &[Code::IdempotencyConflict]),
            (self.path.contains('{'), &[Code::UnknownPath]),
            (
                self.path.starts_with("/v1/threads/{id}"),
                &[Code::ThreadNotFound],
            ),
            (true, self.own_errors),
        ];
        let applies = derived.iter().filter(|(applies, _)| *applies);
        let mut codes: Vec<Code> = applies.flat_map(|(_, codes)| *codes).copied().collect();
        codes.sort_by_key(|code| (code.status(), code.as_str()));
        codes.dedup();
        codes
    }
}

/// An operation with its types.
pub trait Endpoint: Send + Sync + 'static {
    /// The operation without its types.
    const OPERATION: Operation;
    /// The parameters in the path.
    type Path: Path + DeserializeOwned + Send + Sync + 'static;
    /// The query string.
    type Query: Query + Send + Sync + 'static;
    /// The request body; `()` if there is none.
    type Request: Serialize + DeserializeOwned + Send + Sync + 'static;
    /// The response body, or one element of a stream; `()` if there is none.
    type Response;
}
