//! Tests of a runtime that is killed, that runs for a long time, and that shares its data directory.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod children;
mod crash;
mod feed;
mod hostile;
mod lock;
mod restarts;
mod soak;
