//! The drivers against a fake server: what is sent, what comes back, and what happens when things go wrong.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and says where"
)]

mod around;
mod bad_input;
mod cassettes;
mod fake_models;
mod fixtures;
mod golden;
mod in_a_turn;
mod matrix;
mod support;
