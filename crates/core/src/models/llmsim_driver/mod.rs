//! A scripted model for tests: deterministic, without a key or a network.

mod config;
mod driver;

pub use config::{LlmSimConfig, OnExhausted, SimError, SimToolCall, SimTurn};
pub use driver::LlmSimDriver;
