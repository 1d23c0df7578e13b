//! The operations of the Runtime API, without a transport.
//!
//! The service takes a runtime and settings as values; it reads no environment variable. What the API shows is a
//! pure function of the journal: [`view`] turns one event of the library into at most one event of the wire with
//! the same number; lists, details and sums are answers of the read model. What only the API knows (idempotent answers,
//! environments) is behind [`WireStore`].

#![warn(missing_docs)]

mod children;
mod chosen;
mod environments;
mod error;
mod external;
mod fanout;
mod git;
mod handle;
mod host;
mod ids;
mod in_process;
mod json_file;
mod keyed_request;
mod locks;
mod models;
mod open;
mod operations;
mod quotas;
mod readiness;
mod remembered;
mod rooms;
pub mod rpc;
mod service;
mod settings;
mod store;
mod subscribers;
mod supervise;
mod threads;
mod tokens;
mod upkeep;
pub mod view;
mod work;

pub use environments::{check_environments, open_environments};
pub use error::ApiError;
pub use fanout::{EventText, PIECE_BYTES};
pub use handle::Handle;
pub use host::{HostConfig, Reload, Reloaded};
pub use in_process::InProcess;
pub use json_file::{FileState, JsonContents, JsonFile, JsonFileError};
pub use keyed_request::KeyedRequest;
pub use locks::{Held, Locks};
pub use models::{ModelProvider, Models, UnknownModels};
pub use open::OpenError;
pub use operations::{
    DetailJson, FleetFollower, FollowedEvent, Follower, Heard, OneTurn, RequestContext,
    UnknownFields, fields, frame,
};
pub use quotas::{Quota, Share};
pub use remembered::{RememberedBook, RememberedCall, RememberedInProjects};
pub use service::{Counters, LimitPermit, Service, State};
pub use settings::{Access, Limits, RpcSettings, Settings, Upkeep, WorkSettings};
pub use store::{HostWireStore, StoredAnswer, WireStore};
pub use subscribers::Subscriber;
pub use tokens::{
    BadScope, Caller, Token, TokenBook, TokenLookup, TokenRecord, TokenScope, Tokens,
    TokensUnknown, tokens_unavailable, who_shows,
};
