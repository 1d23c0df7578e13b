//! What of a stream stays when it is removed: the records that forks share, until the last such fork is gone.

use rusqlite::{Connection, OptionalExtension};

use super::ancestry::{is_kept, shared_upto};
use super::error::Fault;
use super::numbers::{int, uint};
use super::spans::{self, from};
use super::writer::Work;
use super::{projection, turn_runs};

/// Takes the records, ranges and rows of a stream out that no fork shares.
pub(super) fn trim(work: &mut Work<'_>, stream: u64) -> Result<(), Fault> {
    let connection = work.connection;
    let upto = shared_upto(connection, stream)?;
    let blobs = blobs_of(connection, stream, upto)?;
    spans::remove(
        connection,
        &mut work.state.recent,
        stream,
        upto + 1,
        u64::MAX,
    )?;
    connection
        .prepare_cached("DELETE FROM pruned WHERE stream = ?1 AND first > ?2")?
        .execute([int(stream), int(upto)])?;
    projection::trim(connection, stream, upto)?;
    drop_blobs(connection, &blobs)?;
    work.state.lost_records = true;
    Ok(())
}

/// Puts a stream whose rows were trimmed where nobody finds it but its forks. Its turns are no runs any more.
pub(super) fn set_aside(connection: &Connection, stream: u64) -> Result<(), Fault> {
    turn_runs::remove(connection, stream, &(0..=i64::MAX as u64))?;
    turn_runs::remove_owner(connection, stream)?;
    connection
        .prepare_cached("INSERT INTO kept (stream, key) SELECT id, key FROM streams WHERE id = ?1")?
        .execute([int(stream)])?;
    connection
        .prepare_cached("DELETE FROM streams WHERE id = ?1")?
        .execute([int(stream)])?;
    Ok(())
}

/// Ends what a stream shares with its parent. A parent that was removed goes too if no other fork needs it, and so do its own
/// parents; of one that is still there, what was shared may be pruned again.
pub(super) fn let_go(work: &mut Work<'_>, stream: u64) -> Result<(), Fault> {
    let connection = work.connection;
    let mut next = Some(stream);
    while let Some(fork) = next.take() {
        let parent: Option<u64> = connection
            .prepare_cached("DELETE FROM forks WHERE stream = ?1 RETURNING parent")?
            .query_row([int(fork)], |row| uint(row, 0))
            .optional()?;
        let Some(parent) = parent else {
            return Ok(());
        };
        let upto = shared_upto(connection, parent)?;
        if !is_kept(connection, parent)? {
            connection
                .prepare_cached("UPDATE streams SET swept = min(swept, ?2) WHERE id = ?1")?
                .execute([int(parent), int(upto)])?;
            return Ok(());
        }
        trim(work, parent)?;
        if upto == 0 {
            connection
                .prepare_cached("DELETE FROM kept WHERE stream = ?1")?
                .execute([int(parent)])?;
            next = Some(parent);
        }
    }
    Ok(())
}

/// Removes a stream that is kept though no fork needs it.
pub(super) fn drop_unneeded(work: &mut Work<'_>, stream: u64) -> Result<(), Fault> {
    let connection = work.connection;
    if !is_kept(connection, stream)? || shared_upto(connection, stream)? > 0 {
        return Ok(());
    }
    trim(work, stream)?;
    connection
        .prepare_cached("DELETE FROM kept WHERE stream = ?1")?
        .execute([int(stream)])?;
    let_go(work, stream)
}

fn blobs_of(connection: &Connection, stream: u64, after: u64) -> Result<Vec<Vec<u8>>, Fault> {
    let mut statement = connection.prepare_cached(concat!(
        "SELECT body FROM placed WHERE stream = ?1 AND form = 1 AND ",
        from!("?2 + 1")
    ))?;
    let names = statement.query_map([int(stream), int(after)], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

/// Removes blobs, except those that a record still names.
pub(super) fn drop_blobs(connection: &Connection, names: &[Vec<u8>]) -> Result<(), Fault> {
    let mut statement = connection.prepare_cached(
        "DELETE FROM blobs WHERE hash = ?1 \
         AND NOT EXISTS (SELECT 1 FROM records WHERE form = 1 AND body = ?1)",
    )?;
    for name in names {
        statement.execute([name])?;
    }
    Ok(())
}
