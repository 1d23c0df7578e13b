//! Removing a stream with all that only it holds.

use rusqlite::OptionalExtension;

use super::super::ancestry::shared_upto;
use super::super::doorbells::Ring;
use super::super::error::Fault;
use super::super::kept::{let_go, set_aside, trim};
use super::super::numbers::{int, uint};
use super::super::spans::at;
use super::super::turn_runs;
use super::super::writer::Work;
use crate::journal::StreamKey;

pub(in super::super) fn remove(work: &mut Work<'_>, key: &StreamKey) -> Result<bool, Fault> {
    let connection = work.connection;
    let stream: Option<u64> = connection
        .prepare_cached("SELECT id FROM streams WHERE key = ?1")?
        .query_row([key.as_str()], |row| uint(row, 0))
        .optional()?;
    let Some(stream) = stream else {
        return Ok(false);
    };
    // The row of a run has the position of its first record; a session has none.
    connection
        .prepare_cached(concat!(
            "DELETE FROM runs WHERE position = (SELECT position FROM placed WHERE stream = ?1 AND ",
            at!("1"),
            ")"
        ))?
        .execute([int(stream)])?;
    turn_runs::remove(connection, stream, &(0..=i64::MAX as u64))?;
    turn_runs::remove_owner(connection, stream)?;
    trim(work, stream)?;
    match shared_upto(connection, stream)? {
        0 => {
            connection
                .prepare_cached("DELETE FROM streams WHERE id = ?1")?
                .execute([int(stream)])?;
            let_go(work, stream)?;
        }
        _ => set_aside(connection, stream)?,
    }
    work.state.heads.forget(stream);
    work.state.projections.give_up(stream);
    work.state.rings.push(Ring::Removed(key.clone()));
    Ok(true)
}
