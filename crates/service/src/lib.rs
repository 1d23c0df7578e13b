//! The operations of the Runtime API, without a transport.
//!
//! The service takes a runtime and settings as values; it reads no environment variables. The API's view is a pure function of the journal: [`view`]
//! converts one event of the library to at most one wire event with the same number. Lists, details and sums come from the read model. Data that only
//! the API has (idempotent responses, environments) is stored in a [`WireStore`].

#![warn(missing_docs)]

mod background;
mod children;
mod convert;
mod environments;
mod error;
mod external;
mod fanout;
mod git;
mod handle;
mod ids;
mod in_process;
mod jobs;
mod json_file;
mod keyed_request;
mod limits;
mod locks;
mod open;
mod operations;
mod project_approvals;
pub mod rpc;
mod service;
mod settings;
mod sse_frame;
mod store;
mod threads;
mod tokens;
pub mod view;

pub use environments::{check_environments, open_environments};
pub use error::ApiError;
pub use fanout::{EventText, PIECE_BYTES};
pub use handle::Handle;
pub use in_process::InProcess;
pub use json_file::{FileState, JsonContents, JsonFile, JsonFileError};
pub use keyed_request::KeyedRequest;
pub use limits::quotas::{Quota, Share};
pub use limits::subscribers::Subscriber;
pub use locks::{Locks, NamedLock};
pub use open::OpenError;
pub use operations::{
    DetailJson, FleetFollower, FollowItem, FollowedEvent, Follower, OneTurn, RequestContext,
    UnknownFields, fields,
};
pub use project_approvals::{ProjectApprovals, RememberedCall, RememberedInProjects};
pub use service::{Counters, LimitPermit, Service, State};
pub use settings::host::{HostConfig, Reload, Reloaded};
pub use settings::models::{ModelProvider, Models, UnknownModels};
pub use settings::public_url::{InvalidPublicUrl, PublicUrl};
pub use settings::{Access, ClientLimits, JobSettings, RpcSettings, Settings, Upkeep, Validity};
pub use sse_frame::{FRAME_END, frame, frame_head};
pub use store::{HostWireStore, StoredAnswer, WireStore};
pub use tokens::{
    ApiCaller, InvalidScope, LoginSecret, Logins, NewSession, SessionLookup, Token, TokenFile,
    TokenLookup, TokenRecord, TokenScope, Tokens, authenticate, tokens_unavailable,
};
