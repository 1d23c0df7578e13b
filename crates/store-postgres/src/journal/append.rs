//! Appending: the records are encoded and chained here, and written by the queue.

use chrono::Utc;
use tokio::sync::oneshot;
use windlass_store::durable::chain::Chain;
use windlass_store::durable::record::{Encoded, encode};
use windlass_store::{Batch, Claim};

use super::heads::{StreamHead, load};
use super::queue::{AppendJob, AppendRow};
use crate::error::{DbResult, PostgresError};
use crate::store::SharedState;

pub(super) async fn append(inner: &SharedState, claim: &Claim, batch: Batch) -> DbResult<()> {
    let slot = inner.heads.slot(claim.stream);
    // One append per stream at a time: each link covers the one before.
    let mut slot = slot.lock_owned().await;
    if slot.as_ref().is_none_or(|head| head.epoch < claim.epoch) {
        *slot = None;
        *slot = Some(load(inner, claim.stream).await?);
    }
    let Some(head) = slot.as_ref() else {
        return Err(PostgresError::Closed.into());
    };
    let numbers = batch.records.iter().map(|record| record.sequence);
    claim.check_append((head.epoch, head.seq), batch.first_seq, numbers)?;
    let from = (claim.epoch, batch.first_seq);
    let mut window = inner.windows.lock().take(claim.stream, from);
    let records = encode(&batch.records, &mut window)?;
    let mut next = head.clone();
    let rows = rows(&inner.chain, &mut next, &records);
    let at = (batch.records.last()).map_or_else(Utc::now, |event| event.ts);
    let (answer, answered) = oneshot::channel();
    let last = next.seq;
    let has_records = !rows.is_empty();
    let job = AppendJob {
        stream: claim.stream,
        head: head.seq,
        first_seq: batch.first_seq,
        next,
        rows,
        puts: batch.puts,
        settlements: batch.settlements,
        at,
        slot,
        notifier: has_records.then(|| inner.notifier.clone()),
        answer,
    };
    inner.queue.send(job).await?;
    match answered.await {
        Ok(outcome) => outcome?,
        Err(_) => return Err(PostgresError::Closed.into()),
    }
    // Only after the commit: later records must not refer to an unwritten one.
    let next = (claim.epoch, last + 1);
    inner.windows.lock().put(claim.stream, window, next);
    Ok(())
}

/// Chains records after a head, and advances it.
pub(super) fn rows(chain: &Chain, head: &mut StreamHead, records: &[Encoded]) -> Vec<AppendRow> {
    let row = |record: &Encoded| {
        head.seq += 1;
        head.link = chain.link(&head.link, head.seq, &record.digest);
        head.open.apply(head.seq, record.turn);
        AppendRow::new(record, head)
    };
    records.iter().map(row).collect()
}
