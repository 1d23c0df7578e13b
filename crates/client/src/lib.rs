//! A client of the Windlass Runtime API: threads, turns, answers and events of a daemon.
//!
//! It speaks HTTP over whatever leads to the daemon: a port, a Unix socket, or a pipe inside of one process (see [`Connect`]). Bodies are the
//! types of `windlass-protocol`, or any JSON.
//!
//! ```no_run
//! use serde_json::json;
//! use windlass_client::{Client, ToPort};
//! use windlass_protocol::{Thread, ThreadAndTurn};
//!
//! # async fn example() -> Result<(), windlass_client::ClientError> {
//! let client = Client::new(ToPort::new("127.0.0.1:7878"), Some("the-token".to_owned()));
//! let thread: Thread = client.post("/v1/threads", &json!({})).await?;
//! let prompt = json!({ "prompt": "What is in this directory?" });
//! let path = format!("/v1/threads/{}/turns", thread.id);
//! let started: ThreadAndTurn = client.post(&path, &prompt).await?;
//! let mut events = client.events(&started.thread.id, 0).await?;
//! while let Some(event) = events.next().await? {
//!     println!("{} {}", event.seq, event.payload.name());
//! }
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]

mod client;
mod connect;
mod error;
mod events;

pub use client::Client;
pub use connect::{Connect, Connection, ToPort, ToSocket};
pub use error::ClientError;
pub use events::Events;
