//! Access to the network: the rules, the HTTP contract and MCP servers.

pub mod egress;
pub mod json_rpc;
pub mod mcp;
pub mod network_access;
