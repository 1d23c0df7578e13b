//! Turns with their items: folded from the turn's records, between its first and its last one.

use windlass_core::items::TurnLog;
use windlass_core::typed_id::TurnId;

use super::QuerySnapshot;
use crate::cursor::CursorKind;
use crate::journal::StreamKey;
use crate::queries::{Order, ThreadDetail, ThreadOutline, TurnDetail, TurnRow};
use crate::sqlite::error::DbResult;
use crate::sqlite::journal::ancestry::Lineage;
use crate::sqlite::journal::{ChainWalk, PageBounds};

impl QuerySnapshot<'_> {
    pub(super) fn turn_detail(&self, key: &StreamKey, id: TurnId) -> DbResult<Option<TurnDetail>> {
        let Some(lineage) = self.lineage(key)? else {
            return Ok(None);
        };
        let found = self.find_turn(&lineage, id)?;
        found.map(|row| self.detail(&lineage, row)).transpose()
    }

    pub(super) fn thread_outline(
        &self,
        key: &StreamKey,
        newest: usize,
    ) -> DbResult<Option<ThreadOutline>> {
        let (Some(lineage), Some(thread)) = (self.lineage(key)?, self.thread(key)?) else {
            return Ok(None);
        };
        let wanted = newest.saturating_add(1);
        let mut turns = self.page(&lineage, Order::NewestFirst, None, wanted)?;
        let has_older = turns.len() > newest;
        turns.truncate(newest);
        turns.reverse();
        let first = turns.first().map_or(thread.seq + 1, |row| row.first_seq);
        Ok(Some(ThreadOutline {
            turns,
            older: has_older.then(|| self.cursor(CursorKind::Turns, (0, first))),
            thread,
        }))
    }

    pub(super) fn thread_detail(
        &self,
        key: &StreamKey,
        newest: usize,
    ) -> DbResult<Option<ThreadDetail>> {
        let (Some(lineage), Some(outline)) =
            (self.lineage(key)?, self.thread_outline(key, newest)?)
        else {
            return Ok(None);
        };
        let turns = outline.turns.into_iter();
        let turns = turns.map(|row| self.detail(&lineage, row));
        Ok(Some(ThreadDetail {
            turns: turns.collect::<Result<_, _>>()?,
            older: outline.older,
            thread: outline.thread,
        }))
    }

    /// Folds the records of a turn. Each is checked against the chain.
    fn detail(&self, lineage: &Lineage, row: TurnRow) -> DbResult<TurnDetail> {
        let last = row.last_seq.unwrap_or(u64::MAX);
        let mut walk = ChainWalk::after(&self.db, &self.chain, lineage.clone(), row.first_seq - 1)?;
        let events = walk.read(last, PageBounds::NONE)?;
        // Records at its end may have been pruned; missing ones are damage.
        while row.last_seq.is_some() && walk.seq() < last {
            walk.step_over_gap()?;
        }
        let mut pruned = std::mem::take(&mut walk.pruned);
        pruned.retain(|gap| *gap.start() <= last && *gap.end() >= row.first_seq);
        Ok(TurnDetail {
            log: TurnLog::fold(&events),
            pruned,
            row,
        })
    }
}
