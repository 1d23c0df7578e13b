//! Messages of a conversation and the ways to select them.

pub mod history;
pub mod message;
pub mod message_filter;
pub mod message_retriever;
