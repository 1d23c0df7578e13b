//! The rules of runs, without a transport.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod following;
mod limits;
mod lost;
mod rights;
mod starting;
mod support;
