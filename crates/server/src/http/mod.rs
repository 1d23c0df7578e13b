//! Layers that every request and response passes through.

pub(crate) mod answers;
pub(crate) mod auth;
pub(crate) mod body;
pub(crate) mod browser;
pub(crate) mod cors;
pub(crate) mod detach;
pub(crate) mod host;
pub(crate) mod idempotency;
pub(crate) mod operation;
pub(crate) mod outflow;
pub(crate) mod query;
pub(crate) mod request;
pub(crate) mod stall;
