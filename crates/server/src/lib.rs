//! The Windlass daemon: the Runtime API over HTTP and SSE, run tracing over WebSocket.
//!
//! The server takes a runtime and settings as values; it reads no environment variable. What the API shows is a
//! pure function of the journal: [`view`] turns one event of the library into at most one event of the wire with
//! the same number; lists, details and sums are answers of the read model. What only the API knows (idempotent answers,
//! environments) is behind [`WireStore`].

#![warn(missing_docs)]

mod app;
mod children;
mod chosen;
mod environments;
mod error;
mod external;
mod fanout;
mod git;
mod host;
mod http;
mod ids;
mod json_file;
mod locks;
mod models;
mod quotas;
mod readiness;
mod remembered;
mod rooms;
mod routes;
mod rpc;
mod serve;
mod service;
mod settings;
mod sse;
mod store;
mod subscribers;
mod supervise;
mod threads;
mod tokens;
mod unix_socket;
mod upkeep;
pub mod view;
mod visitors;
mod work;

pub use environments::{check_environments, open_environments};
pub use error::ApiError;
pub use host::{HostConfig, Reload, Reloaded};
pub use json_file::{FileState, JsonContents, JsonFile, JsonFileError};
pub use models::{ModelProvider, Models, UnknownModels};
pub use remembered::{RememberedBook, RememberedCall, RememberedInProjects};
pub use rpc::socket_methods;
pub use serve::{Inside, Server, StartError, listen};
pub use settings::{Access, Limits, RpcSettings, Settings, Upkeep, WorkSettings};
pub use store::{HostWireStore, StoredAnswer, WireStore};
pub use tokens::{BadScope, Token, TokenBook, TokenLookup, TokenRecord, TokenScope, Tokens};
pub use unix_socket::check_unix_socket;
