//! Reading a stream with every record checked against the chain.

use std::sync::Arc;

use deadpool_postgres::GenericClient;
use windlass_core::events::Event;
use windlass_store::durable::chain::{Chain, Digest};
use windlass_store::durable::lineage::Lineage;
use windlass_store::durable::record::StoredRecord;
use windlass_store::durable::trail::Trail;
use windlass_store::{JournalError, StreamKey};

use crate::error::DbResult;
use crate::numbers::{int, uint};

/// A reader's position in a stream, with the chain up to there.
pub(super) struct Walk<'a> {
    chain: &'a Chain,
    lineage: &'a Lineage,
    /// Index of the part that contains the last record.
    part: usize,
    trail: Trail,
}

impl<'a> Walk<'a> {
    /// Positions the walk in front of the first record.
    pub(super) fn begin(chain: &'a Chain, lineage: &'a Lineage) -> Self {
        Self {
            chain,
            part: 0,
            trail: Trail::start(chain, &lineage.parts[0].key),
            lineage,
        }
    }

    /// Positions the walk after a record.
    pub(super) async fn after(
        client: &impl GenericClient,
        chain: &'a Chain,
        lineage: &'a Lineage,
        after: u64,
    ) -> DbResult<Self> {
        let mut walk = Self::begin(chain, lineage);
        if after == 0 {
            return Ok(walk);
        }
        let link = link_at(client, lineage, after).await?;
        let (link, _) = link.ok_or_else(|| walk.damaged(after, "it is missing"))?;
        walk.part = lineage.index_of(after);
        walk.trail = Trail { seq: after, link };
        Ok(walk)
    }

    /// Checks that a record is the next one and follows.
    pub(super) fn step(&mut self, stored: &StoredRecord<'_>) -> Result<(), JournalError> {
        let next = self.trail.seq + 1;
        if stored.seq != next {
            return Err(self.damaged(next, "it is missing"));
        }
        if self.trail.seq == self.lineage.parts[self.part].last {
            self.part += 1;
            let key = &self.lineage.parts[self.part].key;
            self.trail = self.trail.into_fork(self.chain, key);
        }
        let followed = self.trail.follow(self.chain, stored);
        followed.map_err(|what| self.damaged(stored.seq, &what))
    }

    /// Continues after a record that breaks the chain, as if it were valid.
    pub(super) fn resume(&mut self, seq: u64, link: Digest) {
        self.part = self.lineage.index_of(seq);
        self.trail = Trail { seq, link };
    }

    /// Decodes the event of a checked record, as the stream shows it.
    pub(super) fn event(&self, stored: &StoredRecord<'_>) -> Result<Arc<Event>, JournalError> {
        Ok(self.lineage.show(stored.decode(self.key())?))
    }

    pub(super) fn key(&self) -> &StreamKey {
        &self.lineage.own().key
    }

    pub(super) fn seq(&self) -> u64 {
        self.trail.seq
    }

    pub(super) fn link(&self) -> &Digest {
        &self.trail.link
    }

    pub(super) fn damaged(&self, seq: u64, what: &str) -> JournalError {
        JournalError::damaged(self.key(), seq, what)
    }
}

/// Looks up the link of a record, and the first record of the oldest turn that is open there.
pub(super) async fn link_at(
    client: &impl GenericClient,
    lineage: &Lineage,
    seq: u64,
) -> DbResult<Option<(Digest, Option<u64>)>> {
    let sql = "SELECT chain, open_from FROM records WHERE stream = $1 AND seq = $2";
    let statement = client.prepare_cached(sql).await?;
    let stream = int(lineage.part_of(seq).stream);
    let row = client.query_opt(&statement, &[&stream, &int(seq)]).await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let chain: &[u8] = row.try_get(0)?;
    let open_from = Some(uint(row.try_get(1)?)).filter(|from| *from > 0);
    Ok(Some((chain.try_into().unwrap_or_default(), open_from)))
}
