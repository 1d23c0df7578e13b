//! A model that says what it is told to: no key, no network, the same every time.

mod config;
mod driver;

pub use config::{LlmSimConfig, OnExhausted, SimError, SimToolCall, SimTurn};
pub use driver::LlmSimDriver;
