//! Removing a stream with all that only it holds.

use rusqlite::{Connection, OptionalExtension};

use super::super::ancestry::shared_upto;
use super::super::doorbells::Wakeup;
use super::super::error::Fault;
use super::super::kept::{let_go, put_aside};
use super::super::numbers::uint;
use super::super::queries;
use super::super::removing::Leftover;
use super::super::writer::Work;
use crate::journal::StreamKey;
use crate::runs::is_run_stream;

/// Removes a stream for everybody. Where it is long, its records are taken out later.
pub(in super::super) fn remove(work: &mut Work<'_>, key: &StreamKey) -> Result<bool, Fault> {
    if !is_run_stream(key)
        && let Some(stream) = number(work.connection, key)?
    {
        queries::retain_stream(work.connection, (stream, key))?;
    }
    match hide(work, key)? {
        Some(leftover) => leftover.begin_to_remove(work).map(|()| true),
        None => Ok(false),
    }
}

/// The same with all records at once, and without a trace: it undoes an import.
pub(in super::super) fn remove_whole(work: &mut Work<'_>, key: &StreamKey) -> Result<(), Fault> {
    match hide(work, key)? {
        Some(leftover) => leftover.remove_whole(work),
        None => Ok(()),
    }
}

/// Takes a stream out of all lists; returns what is left of it.
fn hide(work: &mut Work<'_>, key: &StreamKey) -> Result<Option<Leftover>, Fault> {
    let connection = work.connection;
    let Some(stream) = number(connection, key)? else {
        return Ok(None);
    };
    queries::hide(connection, stream)?;
    let after = shared_upto(connection, stream)?;
    put_aside(connection, stream, after)?;
    if after == 0 {
        let_go(work, stream)?;
    }
    work.state.heads.forget(stream);
    work.state.rings.push(Wakeup::Removed(key.clone()));
    Leftover::behind(work, stream, after).map(Some)
}

fn number(connection: &Connection, key: &StreamKey) -> Result<Option<u64>, Fault> {
    let mut statement = connection.prepare_cached("SELECT id FROM streams WHERE key = ?1")?;
    let found = statement.query_row([key.as_str()], |row| uint(row, 0));
    Ok(found.optional()?)
}
