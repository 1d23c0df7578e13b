//! The binary as a person and a script meet it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod acp;
mod asking;
mod backends;
mod backups;
mod budgets;
mod cli_page;
mod config;
mod data;
mod events_page;
mod flags;
mod full_disk;
mod git;
mod http_page;
mod kept;
mod killed;
mod operations;
mod out_of_reach;
mod own_runs;
mod picture;
mod readme;
mod real_agents;
mod real_agents_hooks;
mod replay;
mod rewound;
mod rules;
mod run;
mod runs;
mod serve;
mod store;
mod support;
mod terminal;
mod threads;
mod tokens;
mod trust;
