//! Claims of streams.

use windlass_store::journal::open_turns::OpenTurns;
use windlass_store::{Claim, StreamKey};

use super::heads::StreamHead;
use crate::error::DbResult;
use crate::notify::key_hash;
use crate::numbers::uint;
use crate::store::SharedState;

/// Raises the epoch of a stream. Creates the stream if it does not exist.
pub(super) async fn claim(inner: &SharedState, key: &StreamKey) -> DbResult<Claim> {
    let client = inner.database.client().await?;
    let sql = "INSERT INTO streams (key_hash, key, epoch, head, chain) VALUES ($1, $2, 1, 0, $3) \
        ON CONFLICT (key_hash) DO UPDATE SET epoch = streams.epoch + 1 \
        RETURNING id, epoch, head, chain, open_from";
    let statement = client.prepare_cached(sql).await?;
    let (hash, start) = (key_hash(key), inner.chain.start(key));
    let row = client
        .query_one(
            &statement,
            &[
                &hash.as_slice(),
                &key.as_str().as_bytes(),
                &start.as_slice(),
            ],
        )
        .await?;
    let claim = Claim {
        stream: uint(row.try_get(0)?),
        epoch: uint(row.try_get(1)?),
        head: uint(row.try_get(2)?),
    };
    let link: &[u8] = row.try_get(3)?;
    let head = StreamHead {
        key: key.clone(),
        epoch: claim.epoch,
        seq: claim.head,
        link: link.try_into().unwrap_or_default(),
        open: OpenTurns::default(),
    };
    // The open turns of a stream are read only before its first append.
    let is_idle = row.try_get::<_, Option<i64>>(4)?.is_none();
    inner.heads.replace(claim.stream, is_idle.then_some(head));
    Ok(claim)
}
