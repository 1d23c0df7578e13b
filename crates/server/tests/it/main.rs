//! The Runtime API over real HTTP. A test that carries a number shows that line of "what Windlass does instead".
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod environments;
mod events;
mod external;
mod lists;
mod openapi;
mod replayed;
mod support;
mod transport;
mod turns;
