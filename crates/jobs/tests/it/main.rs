//! Unattended work with a manual clock, over kills, with threads that outlive them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod automations;
mod fleet;
mod full_disk;
mod schedule;
mod support;
mod task_kills;
mod tasks;
