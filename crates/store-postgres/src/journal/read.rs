//! Pages and the status of a stream.

use std::sync::Arc;

use deadpool_postgres::GenericClient;
use windlass_core::events::Event;
use windlass_store::durable::lineage::Lineage;
use windlass_store::journal::fork::OpenInputs;
use windlass_store::{Page, StreamKey, StreamStatus};

use super::records::{Chunks, between};
use super::streams::find;
use super::walk::Walk;
use crate::error::DbResult;
use crate::store::{SharedState, snapshot};

/// How many records a query returns.
pub(super) const CHUNK: usize = 512;

/// Reads a page of at most a number of records; it ends with the record that reaches the number of bytes.
pub(super) async fn read_page(
    inner: &SharedState,
    key: &StreamKey,
    after: u64,
    (limit, max_bytes): (usize, usize),
) -> DbResult<Page> {
    let mut client = inner.database.client().await?;
    let transaction = snapshot(&mut client).await?;
    let Some(stream) = find(&transaction, key).await? else {
        return Ok(Page::default());
    };
    let mut page = Page {
        head: stream.head,
        ..Page::default()
    };
    if after >= stream.head || limit == 0 {
        return Ok(page);
    }
    let mut walk = Walk::after(&transaction, &inner.chain, &stream.lineage, after).await?;
    let mut bytes = 0;
    while walk.seq() < stream.head && page.events.len() < limit && bytes < max_bytes {
        let count = CHUNK.min(limit - page.events.len());
        let range = (walk.seq(), stream.head);
        let records = between(
            &transaction,
            &stream.lineage,
            range,
            Chunks::Included,
            count,
        );
        let mut records = records.await?;
        if records.rows.is_empty() {
            return Err(walk.damaged(walk.seq() + 1, "it is missing").into());
        }
        for index in 0..records.rows.len() {
            let stored = records.stored(index);
            walk.step(&stored)?;
            page.events.push(walk.event(&stored)?);
            bytes += stored.size();
            if bytes >= max_bytes {
                break;
            }
        }
    }
    Ok(page)
}

/// Returns the head of a stream and its open turns.
pub(super) async fn status(inner: &SharedState, key: &StreamKey) -> DbResult<StreamStatus> {
    let mut client = inner.database.client().await?;
    let transaction = snapshot(&mut client).await?;
    let Some(stream) = find(&transaction, key).await? else {
        return Ok(StreamStatus::default());
    };
    let open = open_inputs(&transaction, &stream.lineage, stream.open_from, stream.head);
    Ok(StreamStatus {
        head: stream.head,
        open: open.await?.turns(),
    })
}

/// Returns the open turn and the waiting inputs at a record.
pub(super) async fn open_inputs(
    client: &impl GenericClient,
    lineage: &Lineage,
    open_from: Option<u64>,
    upto: u64,
) -> DbResult<OpenInputs> {
    let mut open = OpenInputs::default();
    if let Some(from) = open_from {
        let apply = |event: &Arc<Event>| open.apply(&event.data);
        replay(client, lineage, (from - 1, upto), apply).await?;
    }
    Ok(open)
}

/// Replays events of a stream without text chunks.
pub(super) async fn replay(
    client: &impl GenericClient,
    lineage: &Lineage,
    (mut after, upto): (u64, u64),
    mut each: impl FnMut(&Arc<Event>),
) -> DbResult<()> {
    loop {
        let records = between(client, lineage, (after, upto), Chunks::Omitted, CHUNK);
        let mut records = records.await?;
        for index in 0..records.rows.len() {
            let stored = records.stored(index);
            each(&lineage.show(stored.decode(&lineage.own().key)?));
        }
        match records.rows.last() {
            Some(last) if records.rows.len() == CHUNK => after = last.seq,
            _ => return Ok(()),
        }
    }
}
