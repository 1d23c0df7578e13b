//! What every durable form of a store shares: how an event becomes bytes and back, their short form, the chain over the records of a
//! stream and how it is followed. The rules of forks are in `journal/fork.rs`, the folds in `queries/fold.rs` and in
//! `windlass_core::runs`.

pub(crate) mod chain;
mod pack;
pub(crate) mod record;
pub(crate) mod trail;
