//! Removal of a stream and of all records that no other stream shares.

use super::ancestry::shared_upto;
use super::shared_records::{let_go, put_aside};
use super::streams::number;
use crate::journal::StreamKey;
use crate::runs::is_run_stream;
use crate::sqlite::error::DbResult;
use crate::sqlite::queries;
use crate::sqlite::retention::deferred_delete::Leftover;
use crate::sqlite::write::stream_notifier::Wakeup;
use crate::sqlite::write::writer::WriteContext;

/// Removes a stream. The records of a long one are deleted later.
pub(crate) fn remove(work: &mut WriteContext<'_>, key: &StreamKey) -> DbResult<bool> {
    if !is_run_stream(key)
        && let Some(stream) = number(work.db, key)?
    {
        queries::retain_stream(work.db, (stream, key))?;
    }
    match hide(work, key)? {
        Some(leftover) => leftover.begin_to_remove(work).map(|()| true),
        None => Ok(false),
    }
}

/// The same with all records at once, and without a trace: it undoes an import.
pub(crate) fn remove_whole(work: &mut WriteContext<'_>, key: &StreamKey) -> DbResult<()> {
    match hide(work, key)? {
        Some(leftover) => leftover.remove_whole(work),
        None => Ok(()),
    }
}

/// Removes a stream from all lists; returns its remaining rows.
fn hide(work: &mut WriteContext<'_>, key: &StreamKey) -> DbResult<Option<Leftover>> {
    let db = work.db;
    let Some(stream) = number(db, key)? else {
        return Ok(None);
    };
    queries::hide(db, stream)?;
    let after = shared_upto(db, stream)?;
    put_aside(db, stream, after)?;
    if after == 0 {
        let_go(work, stream)?;
    }
    work.state.heads.forget(stream);
    work.state.wakeups.push(Wakeup::Removed(key.clone()));
    Leftover::after(work, stream, after).map(Some)
}
