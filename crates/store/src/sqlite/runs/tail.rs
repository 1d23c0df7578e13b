//! Following the records of runs that their rows do not have.

use rusqlite::{Connection, OptionalExtension};
use windlass_core::runs::{RunRecord, RunStarted, RunSummary};

use super::super::error::Fault;
use super::super::journal::named;
use super::super::numbers::{int, uint};
use super::super::record::Stored;
use super::super::run_rows::{Behind, Rows};
use super::super::spans::{IN_ORDER, PLACED_COLUMNS, from};
use super::decode;
use super::rows::{as_stored, place, stored};
use crate::journal::StreamKey;
use crate::runs::{KeptRun, is_run_stream};

/// Folds the rows of all runs that went on behind the position up to which the table is exact. A run that cannot be read has
/// none.
pub(in super::super) fn fold_tail(
    connection: &Connection,
    behind: &Behind,
) -> Result<Rows<KeptRun>, Fault> {
    let mut rows = Rows::new();
    for stream in behind.keys() {
        let Some(key) = named(connection, *stream)?.filter(is_run_stream) else {
            continue;
        };
        match current(connection, &key) {
            Ok(run) => rows.extend(run.map(|run| (run.position, run))),
            Err(Fault::Journal(_)) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(rows)
}

/// Returns a run as its records say. What its row has of them is not read again.
pub(super) fn current(connection: &Connection, key: &StreamKey) -> Result<Option<KeptRun>, Fault> {
    let Some((stream, position)) = place(connection, key)? else {
        return Ok(None);
    };
    follow(connection, (stream, key), stored(connection, position)?)
}

/// Follows the records of a run behind those that it has.
pub(super) fn follow(
    connection: &Connection,
    (stream, key): (u64, &StreamKey),
    mut run: Option<KeptRun>,
) -> Result<Option<KeptRun>, Fault> {
    let after = run.as_ref().map_or(0, KeptRun::head);
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {PLACED_COLUMNS} FROM placed WHERE stream = ?1 AND {} {IN_ORDER}",
        from!("?2 + 1")
    ))?;
    let mut rows = statement.query([int(stream), int(after)])?;
    let mut buffer = Vec::new();
    while let Some(row) = rows.next()? {
        let stored = Stored::from_row(connection, row, &mut buffer)?;
        match (&mut run, decode(&stored, key)?.1) {
            (None, RunRecord::Started(started)) => {
                run = Some(begun(connection, (stream, uint(row, 6)?), &started)?);
            }
            (Some(run), record) => run.summary.apply(&record),
            (None, _) => {}
        }
    }
    Ok(run.map(|run| KeptRun {
        summary: as_stored(run.summary),
        ..run
    }))
}

/// Returns a run as it was when it began, with the right to write to it as it is.
pub(super) fn begun(
    connection: &Connection,
    (stream, position): (u64, u64),
    started: &RunStarted,
) -> Result<KeptRun, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT epoch, client FROM streams WHERE id = ?1")?;
    let right = statement
        .query_row([int(stream)], |row| {
            Ok((uint(row, 0)?, row.get::<_, Option<String>>(1)?))
        })
        .optional()?;
    let (epoch, client) = right.unwrap_or_default();
    Ok(KeptRun {
        position,
        summary: RunSummary::of(started),
        client: client.unwrap_or_default(),
        epoch,
        stream,
    })
}
