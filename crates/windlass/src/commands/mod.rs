//! The words of the command line, one file each.

pub(crate) mod acp;
pub(crate) mod approvals;
pub(crate) mod automations;
pub(crate) mod backends;
pub(crate) mod chat;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod mcp;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod serve;
pub(crate) mod store;
pub(crate) mod talking;
pub(crate) mod tasks;
pub(crate) mod threads;
pub(crate) mod token;
pub(crate) mod working;
