//! Programs that are started, fed, confined and ended, with every method of confinement that works on this machine.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alone;
mod chains;
mod confined;
mod errors;
mod host;
mod pipes;
mod records;
mod shutdown;
mod support;
mod trees;
