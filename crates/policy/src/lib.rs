//! Rules that need no I/O: which tool calls run, which are asked about and which are refused.

#![warn(missing_docs)]

mod command;
mod path;
mod pattern;
mod rules;

pub use rules::{ApprovalAction, ApprovalRule, ApprovalRules};
