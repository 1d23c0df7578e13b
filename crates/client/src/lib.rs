//! A client of the Windlass Runtime API.
//!
//! [`Client`] implements [`RuntimeApi`](windlass_protocol::RuntimeApi) over a port or a Unix socket (see [`Connect`]).
//! Requests, responses and errors are the types of `windlass-protocol`.
//!
//! Event streams reconnect automatically and continue after the last event: they lose none and repeat none, also when the
//! daemon restarts. They end when the thread is removed, when the daemon refuses the request, or when they are dropped.
//!
//! ```no_run
//! use windlass_client::{Client, TcpConnector};
//! use windlass_protocol::operations::IdPath;
//! use windlass_protocol::{Call, CallError, CreateThread, RuntimeApi, StartTurn};
//!
//! # async fn example() -> Result<(), CallError> {
//! let client = Client::new(TcpConnector::new("127.0.0.1:7878"), Some("the-token".to_owned()));
//! let thread = client.create_thread(Call::new((), CreateThread::default())).await?;
//! let path = IdPath { id: thread.id };
//! let prompt = StartTurn {
//!     prompt: "What is in this directory?".to_owned(),
//!     ..StartTurn::default()
//! };
//! client.start_turn(Call::new(path.clone(), prompt)).await?;
//! let mut events = client.stream_events(Call::new(path, ())).await?;
//! while let Some(event) = events.next().await? {
//!     println!("{} {}", event.seq, event.payload.name());
//! }
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]

mod backoff;
mod client;
mod connect;
mod events;
mod raw;
mod sse;
#[cfg(test)]
mod tests;

pub use client::Client;
pub use connect::{Connect, Connection, TcpConnector, UnixConnector};
