//! The records of agents, sessions and turns that a host stores.

pub mod agent;
pub mod config_layer;
pub mod harness;
pub mod named_secrets;
pub mod remembered_calls;
pub mod session;
pub mod session_file;
pub(crate) mod session_path;
pub mod thread_record;
pub mod turn_environment;
pub mod turn_policy;
pub mod turn_request;
