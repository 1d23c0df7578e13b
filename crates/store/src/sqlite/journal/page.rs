//! Reading a stream, with every record checked against the chain.
//!
//! A record that was changed, moved or removed does not follow from its predecessor, so reading stops with an error that contains its number. Pruned
//! records leave their digests, and the chain continues across the gap.

use std::ops::RangeInclusive;
use std::sync::Arc;

use rusqlite::Connection;
use windlass_core::events::Event;

use super::ancestry::Lineage;
use super::spans::{self, IN_ORDER, PLACED_COLUMNS, at, between};
use super::streams::find;
use crate::durable::chain::{Chain, Digest};
use crate::durable::record::{RecordBuffer, StoredRecord};
use crate::durable::trail::{Gap, Trail};
use crate::journal::{JournalError, Page, StreamKey};
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::DbResult;
use crate::sqlite::numbers::{first_value, int, uint};

/// A reader's position in a stream, with the chain up to there.
pub(crate) struct ChainWalk<'a> {
    reader: &'a Connection,
    chain: &'a Chain,
    lineage: Lineage,
    /// Index of the part that contains the last record.
    part: usize,
    trail: Trail,
    /// The gaps that were stepped over.
    pub(crate) pruned: Vec<RangeInclusive<u64>>,
    /// The digests of the records in the last gap, for an export or a copy.
    pub(crate) digests: Vec<u8>,
    /// Whether the last read ended because of its bounds.
    is_full: bool,
}

impl<'a> ChainWalk<'a> {
    /// Positions the walk in front of the first record.
    pub(crate) fn begin(reader: &'a Connection, chain: &'a Chain, lineage: Lineage) -> Self {
        Self {
            reader,
            chain,
            part: 0,
            trail: Trail::start(chain, &lineage.parts[0].key),
            lineage,
            pruned: Vec::new(),
            digests: Vec::new(),
            is_full: false,
        }
    }

    /// Positions the walk in front of the stream's first own record.
    pub(crate) fn own(
        reader: &'a Connection,
        chain: &'a Chain,
        lineage: Lineage,
    ) -> DbResult<Self> {
        let after = lineage.own().after;
        Self::after(reader, chain, lineage, after)
    }

    /// Positions the walk after a record, which may have been pruned.
    pub(crate) fn after(
        reader: &'a Connection,
        chain: &'a Chain,
        lineage: Lineage,
        after: u64,
    ) -> DbResult<Self> {
        let mut walk = Self::begin(reader, chain, lineage);
        if after == 0 {
            return Ok(walk);
        }
        walk.part = walk.lineage.index_of(after);
        let at = [int(walk.lineage.parts[walk.part].stream), int(after)];
        let record: Option<Digest> = reader.find_row(
            concat!("SELECT chain FROM placed WHERE stream = ?1 AND ", at!("?2")),
            at,
            first_value,
        )?;
        if let Some(link) = record {
            walk.trail = Trail { seq: after, link };
            return Ok(walk);
        }
        let gap: Option<(u64, Digest)> = reader.find_row(
            "SELECT last, chain FROM pruned WHERE stream = ?1 AND first <= ?2 AND last >= ?2",
            at,
            |row| Ok((uint(row, 0)?, row.get(1)?)),
        )?;
        let Some((last, link)) = gap else {
            return Err(walk.damaged(after, "it is missing").into());
        };
        if last > after {
            walk.note_gap(after + 1..=last);
        }
        walk.trail = Trail { seq: last, link };
        Ok(walk)
    }

    /// Enters the next part at the end of the current one. The last record of a part is never pruned, so no gap spans two parts.
    fn cross(&mut self) {
        if self.trail.seq == self.lineage.parts[self.part].last {
            self.part += 1;
            let key = &self.lineage.parts[self.part].key;
            self.trail = self.trail.into_fork(self.chain, key);
        }
    }

    /// Reads the next record: skips a gap before it, and checks that it follows.
    pub(crate) fn step(&mut self, stored: &StoredRecord<'_>) -> DbResult<()> {
        while self.trail.seq + 1 < stored.seq {
            self.step_over_gap()?;
        }
        self.cross();
        let followed = self.trail.follow(self.chain, stored);
        Ok(followed.map_err(|what| self.damaged(stored.seq, &what))?)
    }

    /// Steps over one stored gap; an error when none begins here.
    pub(crate) fn step_over_gap(&mut self) -> DbResult<()> {
        self.cross();
        let first = self.trail.seq + 1;
        let stream = self.lineage.parts[self.part].stream;
        let gap = self.reader.find_row(
            "SELECT last, chain, digests FROM pruned WHERE stream = ?1 AND first = ?2",
            [int(stream), int(first)],
            |row| {
                Ok(Gap {
                    last: uint(row, 0)?,
                    end: row.get(1)?,
                    digests: row.get(2)?,
                })
            },
        )?;
        let gap = gap.ok_or_else(|| self.damaged(first, "it is missing"))?;
        if !self.trail.step_over(self.chain, &gap) {
            let changed = "the digests of pruned records were changed";
            return Err(self.damaged(first, changed).into());
        }
        self.note_gap(first..=gap.last);
        self.digests = gap.digests;
        Ok(())
    }

    /// Returns whether records in a gap that was stepped over belonged to turns.
    pub(crate) fn has_turns(&self, gap: &RangeInclusive<u64>) -> DbResult<bool> {
        let query =
            "SELECT 1 FROM pruned WHERE stream = ?1 AND first BETWEEN ?2 AND ?3 AND turns = 1";
        let stream = self.lineage.parts[self.part].stream;
        Ok(self
            .reader
            .has_rows(query, [int(stream), int(*gap.start()), int(*gap.end())])?)
    }

    /// Checks that nothing is missing at the end: the newest record is never pruned.
    pub(crate) fn end(&self) -> DbResult<()> {
        if self.trail.seq < spans::newest(self.reader, self.lineage.own().stream)? {
            Err(self.damaged(self.trail.seq + 1, "it is missing").into())
        } else {
            Ok(())
        }
    }

    /// Adds a gap, and joins it with an adjacent one.
    fn note_gap(&mut self, gap: RangeInclusive<u64>) {
        match self.pruned.last_mut() {
            Some(before) if *before.end() + 1 == *gap.start() => {
                *before = *before.start()..=*gap.end();
            }
            _ => self.pruned.push(gap),
        }
    }

    pub(crate) fn damaged(&self, seq: u64, what: &str) -> JournalError {
        JournalError::damaged(self.key(), seq, what)
    }

    /// Continues after a record that breaks the chain, as if it were valid.
    pub(crate) fn resume(&mut self, stored: &StoredRecord<'_>) {
        self.part = self.lineage.index_of(stored.seq);
        self.trail = Trail {
            seq: stored.seq,
            link: stored.chain,
        };
    }

    /// Decodes the event of a checked record, as the stream shows it.
    pub(crate) fn event(&self, stored: &StoredRecord<'_>) -> Result<Arc<Event>, JournalError> {
        Ok(self.lineage.show(stored.decode(self.key())?))
    }

    pub(crate) fn key(&self) -> &StreamKey {
        &self.lineage.own().key
    }

    /// The parts after the last record, starting with the one that contains the next record.
    fn ahead(&self) -> Vec<(u64, u64)> {
        let parts = &self.lineage.parts[self.lineage.index_of(self.trail.seq + 1)..];
        parts.iter().map(|part| (part.stream, part.last)).collect()
    }

    /// Reads records up to a number, within bounds, and returns their events.
    pub(crate) fn read(&mut self, upto: u64, bounds: PageBounds) -> DbResult<Vec<Arc<Event>>> {
        self.read_with(upto, bounds, Self::event)
    }

    /// Reads records up to a number, within bounds, and decodes them.
    pub(crate) fn read_with<T>(
        &mut self,
        upto: u64,
        PageBounds { records, bytes }: PageBounds,
        decode: impl Fn(&Self, &StoredRecord<'_>) -> Result<T, JournalError>,
    ) -> DbResult<Vec<T>> {
        let mut decoded = Vec::with_capacity(records.min(256));
        let mut read_bytes = 0;
        let mut statement = self.reader.prepare_cached(&format!(
            "SELECT {PLACED_COLUMNS} FROM placed WHERE stream = ?1 AND {} {IN_ORDER} LIMIT ?3",
            between!("?2 + 1", "?4")
        ))?;
        for (stream, last) in self.ahead() {
            let left = records - decoded.len();
            if left == 0 || self.trail.seq >= upto {
                break;
            }
            let left = i64::try_from(left).unwrap_or(i64::MAX);
            let last = int(last.min(upto));
            let mut rows = statement.query([int(stream), int(self.trail.seq), left, last])?;
            let mut buffer = RecordBuffer::default();
            while let Some(row) = rows.next()? {
                let stored = StoredRecord::from_row(self.reader, row, &mut buffer)?;
                self.step(&stored)?;
                decoded.push(decode(self, &stored)?);
                read_bytes += stored.size();
                if decoded.len() >= records || read_bytes >= bytes {
                    self.is_full = true;
                    return Ok(decoded);
                }
            }
        }
        Ok(decoded)
    }

    pub(crate) fn seq(&self) -> u64 {
        self.trail.seq
    }

    pub(crate) fn link(&self) -> &Digest {
        &self.trail.link
    }
}

/// The limits of a read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageBounds {
    pub(crate) records: usize,
    /// Reading stops after the record that reaches it.
    pub(crate) bytes: usize,
}

impl PageBounds {
    pub(crate) const NONE: Self = Self {
        records: usize::MAX,
        bytes: usize::MAX,
    };
}

pub(crate) fn read_page(
    reader: &Connection,
    chain: &Chain,
    key: &StreamKey,
    after: u64,
    bounds: PageBounds,
) -> DbResult<Page> {
    // All queries of a page must see the same state.
    let transaction = reader.unchecked_transaction()?;
    let Some(stream) = find(&transaction, key)? else {
        return Ok(Page::default());
    };
    let head = stream.head;
    if after >= head || bounds.records == 0 {
        return Ok(Page {
            head,
            ..Page::default()
        });
    }
    let lineage = Lineage::load(&transaction, key, stream.stream)?;
    let mut walk = ChainWalk::after(&transaction, chain, lineage, after)?;
    let events = walk.read(u64::MAX, bounds)?;
    if !walk.is_full && walk.seq() < head {
        walk.end()?;
    }
    Ok(Page {
        pruned: walk.pruned,
        events,
        head,
    })
}
