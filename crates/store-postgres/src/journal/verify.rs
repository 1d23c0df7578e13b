//! The check of all records of a stream.

use windlass_store::durable::chain::hex;
use windlass_store::{ChainCheck, StreamKey};

use super::read::CHUNK;
use super::records::{Chunks, between};
use super::streams::find;
use super::walk::Walk;
use crate::error::DbResult;
use crate::store::{SharedState, snapshot};

/// Checks the records of a stream against the chain, and the row of the stream against its records.
pub(super) async fn verify(inner: &SharedState, key: &StreamKey) -> DbResult<ChainCheck> {
    let mut client = inner.database.client().await?;
    let transaction = snapshot(&mut client).await?;
    let mut check = ChainCheck::default();
    let Some(stream) = find(&transaction, key).await? else {
        check.findings.push((None, "it is missing".to_owned()));
        return Ok(check);
    };
    let mut walk = Walk::begin(&inner.chain, &stream.lineage);
    loop {
        let range = (walk.seq(), u64::MAX);
        let records = between(
            &transaction,
            &stream.lineage,
            range,
            Chunks::Included,
            CHUNK,
        );
        let mut records = records.await?;
        if records.rows.is_empty() {
            break;
        }
        for index in 0..records.rows.len() {
            let stored = records.stored(index);
            let (seq, link) = (stored.seq, stored.chain);
            let checked = walk.step(&stored);
            if let Err(error) = checked.and_then(|()| walk.event(&stored).map(drop)) {
                check.findings.push((Some(seq), error.to_string()));
                walk.resume(seq, link);
            }
        }
    }
    if walk.seq() != stream.head {
        let what = format!("the stream ends at {}, not at {}", walk.seq(), stream.head);
        check.findings.push((None, what));
    } else if walk.link().as_slice() != stream.chain {
        let what = "the chain of the stream's row differs from that of its records";
        check.findings.push((None, what.to_owned()));
    }
    check.head = walk.seq();
    check.chain = hex(walk.link());
    Ok(check)
}
