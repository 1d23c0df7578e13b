//! Forgetting rows of turns whose records are gone.

use rusqlite::Connection;

use super::super::ancestry::shared_upto;
use super::super::error::Fault;
use super::super::numbers::{int, key};
use super::base::{base_behind, gone};
use super::batches::remove_some_before;
use super::marks;
use super::rows::Base;
use crate::journal::StreamKey;

/// What is left of forgotten rows: how much they counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forgotten(Base);

/// Returns what would be left of a stream's rows whose records are gone; nothing where there are none, or where forks show them.
pub(crate) fn forgettable(
    reader: &Connection,
    name: &StreamKey,
    stream: u64,
) -> Result<Option<Forgotten>, Fault> {
    let gone = gone(reader, stream, u64::MAX)?;
    if gone == 0 || shared_upto(reader, stream)? > 0 {
        return Ok(None);
    }
    let base = base_behind(reader, name, stream, gone)?;
    // A turn of which only a part is gone is not forgotten yet.
    Ok((base.mark.seq == gone).then_some(Forgotten(base)))
}

/// Forgets some of them; returns how many. What they counted is noted first, so that what comes behind still adds up.
pub(crate) fn forget(
    connection: &Connection,
    stream: u64,
    Forgotten(base): Forgotten,
    limit: u64,
) -> Result<u64, Fault> {
    if shared_upto(connection, stream)? > 0 {
        return Ok(0);
    }
    marks::put(connection, stream, &base)?;
    let removed = remove_some_before(connection, stream, base.mark.places(), limit)?;
    // The first mark of a fork is where it begins.
    connection
        .prepare_cached(
            "DELETE FROM marks WHERE key > ?1 AND key < ?2 \
             AND key <> ?1 + coalesce((SELECT parent_seq FROM forks WHERE stream = ?3), 0)",
        )?
        .execute([key(stream, 0), key(stream, base.mark.seq), int(stream)])?;
    Ok(removed)
}
