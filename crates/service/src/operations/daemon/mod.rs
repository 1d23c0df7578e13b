//! Operations on the daemon: its status, configuration, environments, providers, skills and snapshots.

pub(crate) mod config;
pub(crate) mod environments;
pub(crate) mod health;
pub(crate) mod mcp;
pub(crate) mod metrics;
pub(crate) mod openapi;
pub(crate) mod providers;
pub(crate) mod skills;
pub(crate) mod snapshots;
pub(crate) mod usage;
pub(crate) mod workspace;
