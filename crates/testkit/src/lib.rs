//! Fixtures for the tests of Windlass: a daemon process that can be killed, with a client of its API ([`Home`], [`Daemon`], [`Client`]; [`AsyncClient`] for a
//! daemon in the same process), a [`Browser`] for its console,
//! and a model server that speaks four wire APIs on loopback.
//!
//! A test takes one request after the other and releases the answer chunk by chunk, so that it controls when the
//! model answers, stalls, disconnects or sends invalid data:
//!
//! ```no_run
//! # async fn test() -> std::io::Result<()> {
//! use windlass_testkit::{Answer, FakeServer, Wire};
//!
//! let mut server = FakeServer::start().await?;
//! // … a client calls `server.url()` …
//! let mut exchange = server.next().await;
//! exchange.begin_stream(&[]).await?;
//! for chunk in Wire::Anthropic.events(&Answer::text(&["Hel", "lo"])) {
//!     exchange.chunk(chunk.as_bytes()).await?;
//! }
//! exchange.finish().await
//! # }
//! ```

mod async_client;
mod browser;
mod client;
mod daemon;
mod processes;
mod server;
mod skipped;
mod wire;

pub use async_client::{AsyncClient, FrameStream, HttpReply, StreamFrame, soon};
pub use browser::Browser;
pub use client::{ApiReply, Client, EventReader, Frame};
pub use daemon::{Daemon, Home, TOKEN};
pub use processes::{pids_of, sleepers, unique_sleep};
pub use server::{After, Exchange, FakeServer, Reply, Request};
pub use skipped::skipped;
pub use wire::{Answer, FakeCall, Tokens, Wire};
