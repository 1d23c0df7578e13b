//! Threads and their turns, items, inputs, requests and saved sessions.

pub mod answers;
pub mod attachments;
pub mod budgets;
pub mod context;
pub mod items;
pub mod mode;
pub mod queue;
pub mod records;
pub mod sessions;
pub mod stream;
pub mod threads;
pub mod tools;
pub mod turn_policy;
pub mod turns;
pub mod waits;
