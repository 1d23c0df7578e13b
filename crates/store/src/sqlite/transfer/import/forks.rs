//! Forks among the imported streams.

use windlass_core::typed_id::SessionId;

use crate::durable::chain::hex;
use crate::sqlite::error::DbError;
use crate::sqlite::journal::ancestry::{Lineage, holder};
use crate::sqlite::journal::fork::{link_at, share};
use crate::sqlite::journal::shared_records::put_aside;
use crate::sqlite::queries;
use crate::sqlite::write::writer::WriteContext;

/// The result for a stream of the export.
#[derive(Debug, Clone, Copy)]
pub(super) enum ImportedStream {
    /// It was imported, with this ID.
    Taken(u64),
    /// One of its name was there before, with this number.
    There(u64),
    /// It was left out.
    LeftOut,
}

/// Where a fork begins.
pub(super) struct Beginning {
    pub(super) parent: ImportedStream,
    pub(super) seq: u64,
    pub(super) session: SessionId,
    pub(super) chain: String,
}

/// Makes a stream begin as a fork; returns the reason if it cannot.
pub(super) fn begin(
    work: &mut WriteContext<'_>,
    child: u64,
    beginning: &Beginning,
) -> Result<Result<(), &'static str>, DbError> {
    let (parent, must_fit) = match beginning.parent {
        ImportedStream::Taken(parent) => (parent, false),
        ImportedStream::There(parent) => (parent, true),
        ImportedStream::LeftOut => return Ok(Err("the stream that it begins with was left out")),
    };
    let Some(name) = holder(work.connection, parent)? else {
        return Ok(Err("the stream that it begins with was removed"));
    };
    let lineage = Lineage::load(work.connection, &name, parent)?;
    let link = link_at(work.connection, &lineage, beginning.seq)?;
    let Some(link) = link.filter(|_| beginning.seq > lineage.own().after) else {
        return Ok(Err("the record that it begins behind is missing"));
    };
    if must_fit && hex(&link) != beginning.chain {
        return Ok(Err("the stream that it begins with is another one here"));
    }
    share(work, child, &lineage, beginning.seq, beginning.session)?;
    Ok(Ok(()))
}

/// Hides a stream that was imported only for its forks.
pub(super) fn hide(work: &mut WriteContext<'_>, stream: u64) -> Result<(), DbError> {
    queries::hide(work.connection, stream)?;
    work.state.heads.forget(stream);
    put_aside(work.connection, stream, u64::MAX)
}
