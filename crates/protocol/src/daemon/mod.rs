//! The daemon: its status, configuration, environments, skills, usage and workspace.

pub mod apps;
pub mod config;
pub mod environments;
pub mod info;
pub mod usage;
pub mod workspace;
