//! Limits for clients: quotas of tokens, followers and threads.

pub(crate) mod quotas;
pub(crate) mod subscribers;
pub(crate) mod thread_quota;
