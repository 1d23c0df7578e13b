//! Claims of streams.

use crate::journal::{Claim, StreamKey};
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::DbResult;
use crate::sqlite::numbers::uint;
use crate::sqlite::write::writer::WriteContext;

/// Raises the epoch of a stream. Creates the stream if it does not exist.
pub(crate) fn claim(work: &mut WriteContext<'_>, key: &StreamKey) -> DbResult<Claim> {
    let (stream, epoch): (u64, u64) = work.db.get_row(
        "INSERT INTO streams (key, epoch) VALUES (?1, 1) \
             ON CONFLICT (key) DO UPDATE SET epoch = epoch + 1 RETURNING id, epoch",
        [key.as_str()],
        |row| Ok((uint(row, 0)?, uint(row, 1)?)),
    )?;
    // The cached head has the old epoch.
    work.state.heads.forget(stream);
    let head = work.state.heads.get(work.db, stream)?.seq;
    Ok(Claim {
        stream,
        epoch,
        head,
    })
}
