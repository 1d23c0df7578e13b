//! Projections: threads, turns, items and the places of messages, kept so that listing is a look-up.
//!
//! A commit writes whole pages, so a row for each event would cost more than the event. Five decisions keep it cheap:
//!
//! - The row of a thread changes when a turn starts, ends, or begins or ceases to wait. The newest rows stay in memory, and go to
//!   the table together (`newest.rs`). Whoever lists sees both, and after a crash what is missing is folded: always exact.
//! - Rows of turns, items and messages are written only when they cannot change any more, and several turns at a time, in
//!   the commit that brings the [`FLUSH_AFTER`]th event since the last time, or the [`FLUSH_BYTES`]th byte. What is newer is
//!   folded from the journal by whoever reads: a bounded number of events and bytes, and the open turn. `threads.upto` says
//!   where that begins, and it is always a place between turns, so that the fold needs nothing of what lies before.
//! - What is written together lies together, at the ends of the tables (`batches.rs`).
//! - Text chunks are not looked at. Later events hold the text whole.
//! - A fork has no rows for what it shares: those of its parent are shown (`sources.rs`). With the rows goes a mark of how much there is so
//!   far (`marks.rs`), so that a fork anywhere knows its own counts without a fold of all that lies before.
//!
//! Rows and fold are one: [`Fold`] makes the rows that are stored, those that are folded on reading, those that
//! `verify` compares with and those that `rebuild` writes. Rows outlive records: retention takes records and leaves rows, and
//! `rebuild` keeps rows whose records are gone.

mod base;
mod batches;
mod cache;
mod check;
mod codes;
mod detail;
mod fold;
mod folds;
mod forget;
mod forks;
mod items;
mod load;
mod marks;
mod messages;
mod newest;
#[cfg(test)]
mod plans;
mod rebuild;
mod rows;
mod sources;
mod threads;
mod turns;
mod write;

pub(super) use batches::stand_in;
pub(super) use cache::Projections;
pub(super) use check::Check;
pub(super) use folds::{Folds, Loan};
pub(super) use forget::{forget, forgettable};
pub(super) use forks::{begin_fork, hide, trim};
pub use items::ItemEntry;
pub use messages::MessageEntry;
pub(super) use newest::Newest;
pub(super) use rebuild::fill_if_empty;
pub use rebuild::{RebuildProgress, RebuildReport};
pub(super) use threads::{find as find_thread, list as list_threads};
pub use turns::TurnEntry;
pub(super) use turns::end as turn_end;

/// How many events, text chunks apart, may be newer than the rows while no turn is open.
pub(crate) const FLUSH_AFTER: u64 = 512;
/// How many bytes they may have.
pub(crate) const FLUSH_BYTES: usize = 1024 * 1024;
