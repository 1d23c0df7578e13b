//! The records of a removed stream that stay because forks share them.

use rusqlite::Connection;

use super::ancestry::{is_retained, shared_upto};
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::DbResult;
use crate::sqlite::numbers::{first_number, int};
use crate::sqlite::retention::deferred_delete::Leftover;
use crate::sqlite::write::writer::WriteContext;

/// Removes a stream from `streams`. A stream with records that forks share moves to a table where only its forks find it.
pub(crate) fn put_aside(db: &Connection, stream: u64, shared: u64) -> DbResult<()> {
    if shared > 0 {
        db.execute_cached(
            "INSERT INTO kept (stream, key) SELECT id, key FROM streams WHERE id = ?1",
            [int(stream)],
        )?;
    }
    db.execute_cached("DELETE FROM streams WHERE id = ?1", [int(stream)])?;
    Ok(())
}

/// Ends the sharing of a stream with its parent. A removed parent is deleted if no other fork needs it, and so are its own parents. If the parent
/// exists, the shared records can be pruned again.
pub(crate) fn let_go(work: &mut WriteContext<'_>, stream: u64) -> DbResult<()> {
    let db = work.db;
    let mut next = Some(stream);
    while let Some(fork) = next.take() {
        let parent: Option<u64> = db.find_row(
            "DELETE FROM forks WHERE stream = ?1 RETURNING parent",
            [int(fork)],
            first_number,
        )?;
        let Some(parent) = parent else {
            return Ok(());
        };
        let upto = shared_upto(db, parent)?;
        if !is_retained(db, parent)? {
            db.execute_cached(
                "UPDATE streams SET swept = min(swept, ?2), aged = 0 WHERE id = ?1",
                [int(parent), int(upto)],
            )?;
            return Ok(());
        }
        if upto == 0 {
            db.execute_cached("DELETE FROM kept WHERE stream = ?1", [int(parent)])?;
            next = Some(parent);
        }
        Leftover::after(work, parent, upto)?.begin_to_remove(work)?;
    }
    Ok(())
}

/// Deletes a stream that was retained for its forks, if no fork shares its records.
pub(crate) fn drop_unneeded(work: &mut WriteContext<'_>, stream: u64) -> DbResult<()> {
    let db = work.db;
    if !is_retained(db, stream)? || shared_upto(db, stream)? > 0 {
        return Ok(());
    }
    db.execute_cached("DELETE FROM kept WHERE stream = ?1", [int(stream)])?;
    Leftover::after(work, stream, 0)?.remove_whole(work)?;
    let_go(work, stream)
}

/// Removes blobs, except those that a record still names.
pub(crate) fn drop_blobs(db: &Connection, names: &[Vec<u8>]) -> DbResult<()> {
    let mut statement = db.prepare_cached(
        "DELETE FROM blobs WHERE hash = ?1 \
         AND NOT EXISTS (SELECT 1 FROM records WHERE form = 1 AND body = ?1)",
    )?;
    for name in names {
        statement.execute([name])?;
    }
    Ok(())
}
