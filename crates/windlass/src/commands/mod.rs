//! The words of the command line, one file each.

pub(crate) mod acp;
pub(crate) mod backends;
pub(crate) mod config;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod serve;
pub(crate) mod store;
pub(crate) mod token;
