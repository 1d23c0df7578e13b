//! Tools on real files and real processes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(target_os = "linux")]
mod attacks;
mod background;
mod checkpoints;
mod editing;
mod environments;
mod example;
mod hidden;
#[cfg(target_os = "linux")]
mod hidden_from_commands;
mod home;
mod host_access;
mod host_command;
#[cfg(target_os = "linux")]
mod kernel_objects;
#[cfg(all(feature = "mcp", target_os = "linux"))]
mod mcp;
#[cfg(all(feature = "mcp", target_os = "linux"))]
mod mcp_http;
#[cfg(all(feature = "mcp", target_os = "linux"))]
mod mcp_real;
#[cfg(all(feature = "mcp", target_os = "linux"))]
mod mcp_server;
#[cfg(target_os = "linux")]
mod mounted;
mod outputs;
mod paths;
#[cfg(target_os = "linux")]
mod processes;
mod race;
mod reading;
mod repository;
#[cfg(target_os = "linux")]
mod sandbox;
mod searching;
mod secrets;
mod shell;
mod support;
mod turns;
#[cfg(feature = "web")]
mod web;
mod writing;
