//! Tests of the PostgreSQL store. They start their own server, which listens only on a socket in a temporary directory.

mod conformance;
mod damage;
mod feed;
mod opening;
mod processes;
mod server;
mod support;
