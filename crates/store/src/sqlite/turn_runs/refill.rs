//! Making the rows anew.

use rusqlite::Connection;

use super::super::ancestry::is_kept;
use super::super::error::Fault;
use super::super::journal::{StreamInfo, names};
use super::super::numbers::uint;
use super::super::run_rows::{Rows, note_projected};
use super::rows::{owner, put, put_owner, remove};
use super::tail::collect;
use crate::journal::turn_runs::RunFold;
use crate::runs::is_run_stream;

/// Makes the rows of one stream anew. A session whose first records are gone belongs to whom it did.
pub(in super::super) fn refill(connection: &Connection, stream: &StreamInfo) -> Result<(), Fault> {
    let number = stream.stream;
    remove(connection, number, &(0..=i64::MAX as u64))?;
    // The runs of a session go with it, also where its records are kept for forks.
    if is_kept(connection, number)? {
        return Ok(());
    }
    let mut rows = Rows::new();
    let fold = RunFold::of(owner(connection, number)?);
    let fold = collect(connection, (number, &stream.key), 0, fold, &mut rows)?;
    put_owner(connection, number, fold.agent())?;
    put(connection, rows.into_values())
}

/// Fills the table of a database that has had none. A stream that cannot be read stays without.
pub(in super::super) fn fill(connection: &Connection) -> Result<(), Fault> {
    let (streams, trouble) = names(connection);
    trouble.map_or(Ok(()), Err)?;
    for stream in streams.iter().filter(|stream| !is_run_stream(&stream.key)) {
        match refill(connection, stream) {
            Err(Fault::Journal(_)) => {}
            done => done?,
        }
    }
    let mut statement =
        connection.prepare_cached("SELECT coalesce(max(position), 0) FROM records")?;
    let position = statement.query_row([], |row| uint(row, 0))?;
    note_projected(connection, position)
}
