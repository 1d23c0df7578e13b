//! Tests of the runtime as an application uses it: scripted models and tools, real stores, every requirement by its number.
//!
//! R48 (what the crates depend on) is checked by `cargo xtask slim`; the figures of R43, R47 and R49 by `bench/`.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod agents;
mod bad_input;
mod budgets;
mod cancellation;
mod compaction;
mod context;
mod durability;
mod environment_instructions;
mod errors;
mod events;
mod examples;
mod forks;
mod hooks;
mod host;
#[cfg(feature = "sqlite")]
mod idle;
mod mcp;
mod memory;
mod network;
#[cfg(feature = "sqlite")]
mod on_disk;
mod open_turns;
mod output_schema;
mod queue;
mod replay;
mod secrets;
mod shutdown;
mod subagents;
mod support;
mod tool_cache;
mod tool_search;
mod tools;
mod turns;
