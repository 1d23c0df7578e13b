//! The Windlass daemon: the Runtime API over HTTP and SSE, run tracing over WebSocket.
//!
//! The operations themselves are in [`windlass_service`]; here are their transport and the authentication of requests.

#![warn(missing_docs)]

mod app;
mod error;
mod http;
mod routes;
mod rpc;
mod serve;
mod sse;
mod unix_socket;
mod visitors;

pub use serve::{Inside, Server, StartError, listen};
pub use unix_socket::check_unix_socket;
pub use windlass_service::rpc::socket_methods;
pub use windlass_service::view;
pub use windlass_service::{
    Access, ApiError, BadScope, Caller, FileState, HostConfig, HostWireStore, InProcess,
    JsonContents, JsonFile, JsonFileError, Limits, ModelProvider, Models, OpenError, Reload,
    Reloaded, RememberedBook, RememberedCall, RememberedInProjects, RpcSettings, Settings,
    StoredAnswer, Token, TokenBook, TokenLookup, TokenRecord, TokenScope, Tokens, UnknownModels,
    Upkeep, WireStore, WorkSettings, check_environments, open_environments,
};
