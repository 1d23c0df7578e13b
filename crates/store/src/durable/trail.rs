//! Following the chain of a stream: record by record, over gaps, and from a parent into its fork.

use super::chain::{Chain, Digest};
use super::record::StoredRecord;
use crate::journal::StreamKey;

/// The position of a reader in a stream: its last record, and the chain up to there.
#[derive(Debug, Clone, Copy)]
pub struct Trail {
    pub seq: u64,
    pub link: Digest,
}

/// A range of pruned records.
pub struct Gap {
    /// The last of them.
    pub last: u64,
    /// The chain at its end.
    pub end: Digest,
    /// Their digests, one after the other; empty if only the link is left.
    pub digests: Vec<u8>,
}

impl Trail {
    /// Positions the trail in front of the first record.
    pub fn start(chain: &Chain, stream: &StreamKey) -> Self {
        Self {
            seq: 0,
            link: chain.start(stream),
        }
    }

    /// Continues from the last shared record into a fork.
    pub fn into_fork(self, chain: &Chain, stream: &StreamKey) -> Self {
        Self {
            link: chain.fork(&self.link, stream),
            ..self
        }
    }

    /// Checks the next record; returns the reason if it does not follow.
    pub fn follow(&mut self, chain: &Chain, stored: &StoredRecord<'_>) -> Result<(), String> {
        let (_, digest) = stored.checked_bytes()?;
        let link = chain.link(&self.link, stored.seq, &digest);
        if link != stored.chain {
            return Err("it was changed".to_owned());
        }
        (self.seq, self.link) = (stored.seq, link);
        Ok(())
    }

    /// Skips a gap that begins with the next record. Returns false if the chain does not fit the gap.
    pub fn step_over(&mut self, chain: &Chain, gap: &Gap) -> bool {
        let (digests, _) = gap.digests.as_chunks::<32>();
        if !digests.is_empty() {
            let (first, mut link) = (self.seq + 1, self.link);
            for (seq, digest) in (first..).zip(digests) {
                link = chain.link(&link, seq, digest);
            }
            if link != gap.end || first + digests.len() as u64 != gap.last + 1 {
                return false;
            }
        }
        (self.seq, self.link) = (gap.last, gap.end);
        true
    }
}
