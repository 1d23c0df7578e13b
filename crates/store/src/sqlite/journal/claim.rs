//! Taking the right to append.

use crate::journal::{Claim, StreamKey};
use crate::sqlite::error::Fault;
use crate::sqlite::numbers::uint;
use crate::sqlite::write::writer::Work;

/// Raises the epoch of a stream. Creates the stream if it does not exist.
pub(in super::super) fn claim(work: &mut Work<'_>, key: &StreamKey) -> Result<Claim, Fault> {
    let (stream, epoch): (u64, u64) = work
        .connection
        .prepare_cached(
            "INSERT INTO streams (key, epoch) VALUES (?1, 1) \
             ON CONFLICT (key) DO UPDATE SET epoch = epoch + 1 RETURNING id, epoch",
        )?
        .query_row([key.as_str()], |row| Ok((uint(row, 0)?, uint(row, 1)?)))?;
    // The cached head has the old epoch.
    work.state.heads.forget(stream);
    let head = work.state.heads.get(work.connection, stream)?.seq;
    Ok(Claim {
        stream,
        epoch,
        head,
    })
}
