//! Retention: pruning of records, removal of streams and return of free pages to the file system.

pub(super) mod compact;
pub(super) mod deferred_delete;
pub(super) mod maintain;
mod merge_gaps;
mod prune;
mod shrink;
mod sweep;
