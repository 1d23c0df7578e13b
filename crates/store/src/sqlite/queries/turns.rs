//! Turns of a thread. A fork shows those of the streams that it shares records with, and then its own.

use windlass_core::typed_id::TurnId;

use super::QuerySnapshot;
use super::load::{open_waits, set_waits};
use super::tables::{TURN, turns_of};
use crate::cursor::CursorKind;
use crate::journal::StreamKey;
use crate::queries::{Listed, Order, TurnQuery, TurnRow};
use crate::sqlite::error::DbResult;
use crate::sqlite::journal::ancestry::{Lineage, LineagePart};
use crate::sqlite::numbers::int;

/// The turns of one stream that begin between two records.
pub(super) fn between(order: Order) -> String {
    let order = match order {
        Order::NewestFirst => "DESC",
        Order::OldestFirst => "ASC",
    };
    format!(
        "SELECT {TURN} FROM turns INDEXED BY turns_by_stream WHERE stream = ?1 AND first BETWEEN ?2 AND ?3 \
         ORDER BY first {order} LIMIT ?4"
    )
}

/// The turns of one stream by their id.
pub(super) const BY_ID: &str = "turns INDEXED BY turns_by_turn WHERE turn = ?1 AND stream = ?2";

impl QuerySnapshot<'_> {
    pub(super) fn turns(&self, query: &TurnQuery) -> DbResult<Listed<TurnRow>> {
        let after = self.decode_cursor(CursorKind::Turns, query.after.as_ref())?;
        let after = after.map(|(_, first)| first);
        let after = match (query.order, query.upto) {
            (Order::NewestFirst, Some(upto)) => {
                Some(after.unwrap_or(u64::MAX).min(upto.saturating_add(1)))
            }
            _ => after,
        };
        let Some(lineage) = self.lineage(&query.stream)? else {
            return Ok(Listed {
                entries: Vec::new(),
                next: None,
            });
        };
        let wanted = query.limit.saturating_add(1);
        let mut turns = self.page(&lineage, query.order, after, wanted)?;
        turns.retain(|turn| query.upto.is_none_or(|upto| turn.first_seq <= upto));
        Ok(Listed::cut(turns, query.limit, |turn| {
            self.cursor(CursorKind::Turns, (0, turn.first_seq))
        }))
    }

    /// Returns turns after the one that begins at a record.
    pub(super) fn page(
        &self,
        lineage: &Lineage,
        order: Order,
        after: Option<u64>,
        limit: usize,
    ) -> DbResult<Vec<TurnRow>> {
        let (first, last) = match (order, after) {
            (_, None) => (1, u64::MAX),
            (Order::NewestFirst, Some(after)) => (1, after.saturating_sub(1)),
            (Order::OldestFirst, Some(after)) => (after.saturating_add(1), u64::MAX),
        };
        let mut turns = Vec::new();
        let parts = lineage.parts.iter();
        let parts: Vec<&LineagePart> = match order {
            Order::OldestFirst => parts.collect(),
            Order::NewestFirst => parts.rev().collect(),
        };
        for part in parts {
            let range = (first.max(part.after + 1), last.min(part.last));
            if turns.len() < limit && range.0 <= range.1 {
                let left = limit - turns.len();
                turns.extend(self.part(lineage, part, range, (order, left))?);
            }
        }
        Ok(turns)
    }

    /// Returns turns of one part.
    fn part(
        &self,
        lineage: &Lineage,
        part: &LineagePart,
        (first, last): (u64, u64),
        (order, limit): (Order, usize),
    ) -> DbResult<Vec<TurnRow>> {
        let newer = &self.newer.turns;
        let is_here = |turn: &TurnRow| (first..=last).contains(&turn.first_seq);
        let fresh = newer.values().filter(|(of, _)| *of == part.stream);
        let fresh = fresh.map(|(_, turn)| turn).filter(|turn| is_here(turn));
        let mut turns: Vec<TurnRow> = fresh.map(|turn| (**turn).clone()).collect();
        // Some of them may be older than their newer form.
        let fetched = limit.saturating_add(turns.len());
        let fetched = i64::try_from(fetched).unwrap_or(i64::MAX);
        let range = [int(part.stream), int(first), int(last), fetched];
        let stored = turns_of(&self.db, &between(order), range, &part.key)?;
        let is_old = |turn: &TurnRow| !newer.contains_key(&turn.position);
        turns.extend(stored.into_iter().filter(is_old));
        turns.sort_unstable_by_key(|turn| turn.first_seq);
        if order == Order::NewestFirst {
            turns.reverse();
        }
        turns.truncate(limit);
        for turn in &mut turns {
            self.show(lineage, turn)?;
        }
        Ok(turns)
    }

    /// Converts a turn into one of the requested thread, with its waits.
    pub(super) fn show(&self, lineage: &Lineage, turn: &mut TurnRow) -> DbResult<()> {
        let own = lineage.own();
        if turn.last_seq.is_none() {
            let waits = open_waits(&self.db, &self.newer, own.stream, &own.key)?;
            set_waits(std::slice::from_mut(turn), &waits);
        }
        turn.stream = own.key.clone();
        if let Some(session) = lineage.session
            && turn.first_seq <= own.after
        {
            turn.is_shared = true;
            turn.view.session_id = session;
        }
        Ok(())
    }

    pub(super) fn turn(&self, key: &StreamKey, id: TurnId) -> DbResult<Option<TurnRow>> {
        match self.lineage(key)? {
            Some(lineage) => self.find_turn(&lineage, id),
            None => Ok(None),
        }
    }

    /// Finds a turn by its ID; of several with the same ID, the latest.
    pub(super) fn find_turn(&self, lineage: &Lineage, id: TurnId) -> DbResult<Option<TurnRow>> {
        for part in lineage.parts.iter().rev() {
            let fresh = self.newer.turns.values().rev();
            let mut fresh = fresh.filter(|(of, turn)| *of == part.stream && turn.view.id == id);
            let found = match fresh.find(|(_, turn)| turn.first_seq <= part.last) {
                Some((_, turn)) => Some((**turn).clone()),
                None => self.stored_turn(part, id)?,
            };
            if let Some(mut turn) = found {
                self.show(lineage, &mut turn)?;
                return Ok(Some(turn));
            }
        }
        Ok(None)
    }

    fn stored_turn(&self, part: &LineagePart, id: TurnId) -> DbResult<Option<TurnRow>> {
        let query =
            format!("SELECT {TURN} FROM {BY_ID} AND first <= ?3 ORDER BY place DESC LIMIT 1");
        let parameters = (id.uuid().into_bytes(), int(part.stream), int(part.last));
        let found = turns_of(&self.db, &query, parameters, &part.key)?;
        Ok(found.into_iter().next())
    }
}
