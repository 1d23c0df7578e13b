//! The Runtime API over real HTTP. A number in a test name refers to a numbered requirement of the API.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod attachments;
mod attacks;
mod automations;
mod background_loops;
mod budgets;
mod children;
mod compact;
mod config;
#[cfg(feature = "console")]
mod console;
mod context;
mod crash_recovery;
mod environments;
mod events;
mod external;
mod first_requests;
mod fleet;
mod forks;
mod golden_traces;
mod held_tasks;
mod idempotency;
mod in_process;
mod job_attacks;
mod lists;
mod maintenance;
mod openapi;
mod output;
mod output_schema;
mod queue;
mod read_counts;
mod removal;
mod replay;
mod rpc;
mod scopes;
mod sessions;
mod skills;
mod slow_readers;
mod stopped;
mod support;
mod tasks;
mod traffic;
mod transport;
mod turns;
mod undo_files;
