//! The subcommands, one file each.

pub(crate) mod acp;
pub(crate) mod approvals;
pub(crate) mod attachments;
pub(crate) mod automations;
pub(crate) mod backends;
pub(crate) mod chat;
pub(crate) mod config;
pub(crate) mod console;
pub(crate) mod data_options;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod job_args;
pub(crate) mod mcp;
pub(crate) mod prompt;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod serve;
pub(crate) mod store;
pub(crate) mod tasks;
pub(crate) mod thread_args;
pub(crate) mod threads;
pub(crate) mod token;
