//! The web console in a browser, against the binary.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;
mod hostile;
mod live;
mod pages;
mod restart;
