//! Taking the right to append.

use super::super::error::Fault;
use super::super::numbers::uint;
use super::super::writer::Work;
use crate::journal::{Claim, StreamKey};

/// Raises the epoch of a stream, and makes the stream if it is not there.
pub(in super::super) fn claim(work: &mut Work<'_>, key: &StreamKey) -> Result<Claim, Fault> {
    let (stream, epoch): (u64, u64) = work
        .connection
        .prepare_cached(
            "INSERT INTO streams (key, epoch) VALUES (?1, 1) \
             ON CONFLICT (key) DO UPDATE SET epoch = epoch + 1 RETURNING id, epoch",
        )?
        .query_row([key.as_str()], |row| Ok((uint(row, 0)?, uint(row, 1)?)))?;
    // What is remembered has the old epoch.
    work.state.heads.forget(stream);
    let head = work.state.heads.get(work.connection, stream)?.seq;
    Ok(Claim {
        stream,
        epoch,
        head,
    })
}
