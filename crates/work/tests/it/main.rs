//! Tests of work that nobody sits beside.

mod automations;
mod fleet;
mod schedule;
mod support;
mod task_kills;
mod tasks;
