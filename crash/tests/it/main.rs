//! A runtime that is killed, that lives for long, and that is not alone.
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
