//! Run tracing over JSON-RPC 2.0, independent of any transport.
//!
//! A transport creates a [`Connection`] for each of its own, passes it every text that arrives, and sends the messages of its [`Outbox`]. Calls of
//! one connection take effect and are answered in order of arrival; long calls run concurrently and are answered when they finish. A [`Methods`]
//! provides additional methods.

mod access;
mod calls;
mod connection;
mod error;
mod frame;
mod hub;
mod methods;
mod outbox;

pub use access::{Gate, TokenRole, ValidToken};
pub use calls::ClientCalls;
pub use connection::{Closing, Connection, FrameAction};
pub use error::RpcError;
pub use hub::{Hub, MethodResult, Methods, NoMethods, Peer, RpcLimits};
pub use methods::params;
pub use outbox::{Outbox, Outgoing, Queued, TextPiece, TextSource};
