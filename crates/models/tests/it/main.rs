//! The drivers against a fake server: requests, answers and failures.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod around;
mod bad_input;
mod cassettes;
mod fake_models;
mod fixtures;
mod golden;
mod in_a_turn;
mod matrix;
mod support;
