//! Turns of sessions as runs: a small row for each, so that one list shows everything that agents did.
//!
//! The journal is the truth: the records of such a run are made from the events of its session when somebody reads them. The
//! row changes when the turn starts, ends, waits or does a step. The newest rows are [remembered](super::run_rows) until many go to
//! the table together; after a crash, and in another process that only reads, what is newer is folded (`tail.rs`).
//!
//! Three things keep it simple:
//!
//! - A row has the position of the record that began its turn. It goes with that record, so what is listed can be read.
//! - Where a fold must begin is known from the records alone: `open_from` of the record before names the oldest open turn.
//! - What a fork copied is no run of its own: the record that says where a stream comes from takes back what was before it.

mod check;
mod follow;
mod list;
mod refill;
mod rows;
mod tail;

pub(super) use check::TurnRunCheck;
pub(super) use follow::TurnRuns;
pub(super) use list::{find, list};
pub(super) use refill::{fill, refill};
pub(super) use rows::{put, remove, remove_owner};
pub(super) use tail::fold_tail;
