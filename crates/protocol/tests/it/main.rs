//! The shapes on the wire.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod errors;
mod golden;
mod seed;
