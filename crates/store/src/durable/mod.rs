//! Code that every durable store shares: the encoding of events and its short form, and the chain over the records of a stream. The rules of forks
//! are in `journal/fork.rs`, the folds in `queries/fold.rs` and in `windlass_core::runs`.
//!
//! An event becomes a record in three steps: its JSON, which an export contains; the digest of that JSON, which the chain covers; and the stored
//! bytes, in which a value that an earlier record contains is a reference. Reading reverses these steps, so the digest always covers the text that a
//! reader gets. A change of a record therefore also breaks the records that refer to it.

pub mod chain;
pub mod lineage;
mod pack;
pub mod record;
pub mod trail;
pub mod window;
