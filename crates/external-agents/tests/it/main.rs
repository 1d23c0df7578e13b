//! Agents: their output, from recorded and arbitrary lines, and the ends of their processes.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod acp_usage;
mod bounds;
mod codex;
mod failures;
mod host;
mod many;
mod play;
mod properties;
mod stages;
mod support;
mod traces;
mod trees;
mod turns;
