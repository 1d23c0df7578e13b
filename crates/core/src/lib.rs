//! Windlass.

pub mod network_access;
