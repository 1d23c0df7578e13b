//! Tests of the PostgreSQL store. They start their own server, which listens only on a socket in a temporary directory.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod conformance;
mod damage;
mod feed;
mod opening;
mod processes;
mod server;
mod support;
