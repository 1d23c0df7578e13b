//! Forks among the imported streams.

use windlass_core::typed_id::SessionId;

use crate::durable::chain::hex;
use crate::sqlite::error::DbResult;
use crate::sqlite::journal::ancestry::{Lineage, holder};
use crate::sqlite::journal::fork::{link_at, share};
use crate::sqlite::journal::shared_records::put_aside;
use crate::sqlite::queries;
use crate::sqlite::write::writer::WriteContext;

/// The result for a stream of the export.
#[derive(Debug, Clone, Copy)]
pub(super) enum ImportedStream {
    /// The stream was imported, with this number.
    Imported(u64),
    /// A stream of that name existed, with this number.
    Existing(u64),
    Omitted,
}

/// The origin of a fork.
pub(super) struct ForkOrigin {
    pub(super) parent: ImportedStream,
    pub(super) seq: u64,
    pub(super) session: SessionId,
    pub(super) chain: String,
}

/// Makes a stream share the records of its parent; returns the reason if it cannot.
pub(super) fn begin(
    work: &mut WriteContext<'_>,
    child: u64,
    origin: &ForkOrigin,
) -> DbResult<Result<(), &'static str>> {
    let (parent, must_match) = match origin.parent {
        ImportedStream::Imported(parent) => (parent, false),
        ImportedStream::Existing(parent) => (parent, true),
        ImportedStream::Omitted => return Ok(Err("its parent was omitted")),
    };
    let Some(name) = holder(work.db, parent)? else {
        return Ok(Err("its parent was removed"));
    };
    let lineage = Lineage::load(work.db, &name, parent)?;
    let link = link_at(work.db, &lineage, origin.seq)?;
    let Some(link) = link.filter(|_| origin.seq > lineage.own().after) else {
        return Ok(Err("the last record that it shares is missing"));
    };
    if must_match && hex(&link) != origin.chain {
        return Ok(Err(
            "the existing stream of its parent's name has other records",
        ));
    }
    share(work, child, &lineage, origin.seq, origin.session)?;
    Ok(Ok(()))
}

/// Hides a stream that was imported only for its forks.
pub(super) fn hide(work: &mut WriteContext<'_>, stream: u64) -> DbResult<()> {
    queries::hide(work.db, stream)?;
    work.state.heads.forget(stream);
    put_aside(work.db, stream, u64::MAX)
}
