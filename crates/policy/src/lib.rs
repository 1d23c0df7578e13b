//! Approval rules without I/O: they decide which tool calls run, need approval or are denied.

#![warn(missing_docs)]

mod command;
mod path;
mod pattern;
mod rules;

pub use rules::{ApprovalAction, ApprovalRule, ApprovalRules};
