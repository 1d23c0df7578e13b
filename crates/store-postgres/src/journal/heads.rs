//! The cache of the ends of streams that this process appends to.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use windlass_core::events::Event;
use windlass_store::durable::chain::Digest;
use windlass_store::durable::lineage::Lineage;
use windlass_store::journal::open_turns::{OpenTurns, TurnChange};
use windlass_store::{JournalError, RecentlyUsed, StreamKey};

use super::read::replay;
use crate::error::DbResult;
use crate::numbers::{int, uint};
use crate::store::{SharedState, snapshot};

/// The maximum number of cached streams; another look-up is cheap.
const MAX_REMEMBERED: usize = 4096;

/// The end of a stream.
#[derive(Debug, Clone)]
pub(crate) struct StreamHead {
    pub(crate) key: StreamKey,
    pub(crate) epoch: u64,
    pub(crate) seq: u64,
    pub(crate) link: Digest,
    pub(crate) open: OpenTurns,
}

/// The end of one stream, if known. An append holds the lock until it is durable or has failed.
pub(crate) type HeadSlot = Arc<AsyncMutex<Option<StreamHead>>>;

/// The ends of the streams that were used last.
#[derive(Debug, Default)]
pub(crate) struct Heads(Mutex<RecentlyUsed<u64, HeadSlot>>);

impl Heads {
    pub(super) fn slot(&self, stream: u64) -> HeadSlot {
        let mut heads = self.0.lock();
        if let Some(slot) = heads.get(stream) {
            return Arc::clone(slot);
        }
        let slot = HeadSlot::default();
        heads.insert(stream, Arc::clone(&slot));
        if heads.count() > MAX_REMEMBERED {
            heads.remove_oldest();
        }
        slot
    }

    /// Replaces the end of a stream after a claim or a removal. A running append retains the previous slot, which no later one uses.
    pub(super) fn replace(&self, stream: u64, head: Option<StreamHead>) {
        let mut heads = self.0.lock();
        match head {
            Some(head) => heads.insert(stream, Arc::new(AsyncMutex::new(Some(head)))),
            None => drop(heads.remove(stream)),
        }
    }
}

/// Reads the end of a stream.
pub(super) async fn load(inner: &SharedState, stream: u64) -> DbResult<StreamHead> {
    let mut client = inner.database.client().await?;
    let transaction = snapshot(&mut client).await?;
    let sql =
        "SELECT key, epoch, head, chain, open_from FROM streams WHERE id = $1 AND NOT removed";
    let statement = transaction.prepare_cached(sql).await?;
    let row = transaction.query_opt(&statement, &[&int(stream)]).await?;
    let row = row.ok_or(JournalError::Removed(stream))?;
    let key = StreamKey::new(String::from_utf8_lossy(row.try_get(0)?));
    let seq = uint(row.try_get(2)?);
    let mut open = OpenTurns::default();
    if let Some(from) = row.try_get::<_, Option<i64>>(4)? {
        let own = Lineage::alone(&key, stream);
        let apply = |event: &Arc<Event>| open.apply(event.seq(), TurnChange::of(event));
        replay(&transaction, &own, (uint(from) - 1, seq), apply).await?;
    }
    Ok(StreamHead {
        key,
        epoch: uint(row.try_get(1)?),
        seq,
        link: (row.try_get::<_, &[u8]>(3)?).try_into().unwrap_or_default(),
        open,
    })
}
