//! Agents: what they say, from recorded lines and from arbitrary ones, and what becomes of their processes.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod acp_usage;
mod attempts;
mod bounds;
mod codex;
mod host;
mod many;
mod play;
mod properties;
mod stages;
mod support;
mod traces;
mod trees;
mod turns;
