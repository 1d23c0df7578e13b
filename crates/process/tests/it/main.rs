//! Programs that are started, fed, confined and ended, in every world that this machine has.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alone;
mod chains;
mod confined;
mod errors;
mod host;
mod ladder;
mod pipes;
mod records;
mod support;
mod trees;
