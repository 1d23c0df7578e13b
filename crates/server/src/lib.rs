//! The Windlass daemon: the Runtime API over HTTP and SSE, and run tracing over WebSocket.
//!
//! [`windlass_service`] implements the operations; this crate adds transport and authentication.

#![warn(missing_docs)]

mod app;
mod error;
mod http;
mod pending_connections;
mod routes;
mod rpc;
mod serve;
mod sse;
mod unix_socket;

pub use serve::{ApiServer, InProcessHandle, StartError, listen};
pub use unix_socket::check_unix_socket;
pub use windlass_service::rpc::socket_methods;
pub use windlass_service::view;
pub use windlass_service::{
    Access, ApiCaller, ApiError, ClientLimits, FileState, HostConfig, HostWireStore, InProcess,
    InvalidPublicUrl, InvalidScope, JobSettings, JsonContents, JsonFile, JsonFileError, Logins,
    ModelProvider, Models, OpenError, ProjectApprovals, PublicUrl, Reload, Reloaded,
    RememberedCall, RememberedInProjects, RpcSettings, Settings, StoredAnswer, Token, TokenFile,
    TokenLookup, TokenRecord, TokenScope, Tokens, UnknownModels, Upkeep, WireStore,
    check_environments, open_environments,
};
