//! The Runtime API over real HTTP. A test that carries a number shows that line of "what Windlass does instead".
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod attacks;
mod automations;
mod budgets;
mod children;
mod compact;
mod config;
mod decided_again;
mod environments;
mod events;
mod external;
mod first_requests;
mod fleet;
mod forks;
mod killed;
mod lists;
mod openapi;
mod output;
mod reads;
mod removed;
mod repeats;
mod replayed;
mod rpc;
mod scopes;
mod sessions;
mod skills;
mod stopped;
mod support;
mod tasks;
mod traffic;
mod transport;
mod turns;
mod undone_files;
mod upkeep;
mod work_attacks;
