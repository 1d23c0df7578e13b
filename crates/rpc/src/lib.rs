//! Run tracing over JSON-RPC 2.0, apart from any transport.
//!
//! A transport makes a [`Connection`] for each of its own, hands it every text that arrives, and sends what comes out of
//! the other end of its [`Outbox`]. Calls of one connection take effect and are answered in the order of arrival; what
//! may take long runs apart and is answered when it is done. Further methods come from a [`Methods`].

#![warn(missing_docs)]

mod access;
mod calls;
mod connection;
mod error;
mod frame;
mod hub;
mod methods;
mod outbox;

pub use access::{Gate, Known, OpenGate, TokenRole};
pub use calls::ClientCalls;
pub use connection::{Closing, Connection, Next};
pub use error::RpcError;
pub use frame::{Frame, FrameError, Id};
pub use hub::{Answer, Hub, Methods, NoMethods, Peer, RpcLimits};
pub use methods::params;
pub use outbox::{Outbox, Outgoing, Queued, TextPiece, TextSource};
