//! Compares the rows of a thread with a new fold of its events.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;

use rusqlite::Connection;
use windlass_core::events::Event;
use windlass_core::typed_id::ExecId;

use super::load::{open_waits, set_waits};
use super::rebuild::base;
use super::tables::{TURN, WAIT, find_thread, turns_of, wait};
use super::tail::{ReadModelRows, folded};
use crate::journal::StreamKey;
use crate::queries::fold::{Changed, ThreadFold};
use crate::queries::{ThreadRow, TurnRow, WaitRow};
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::{DbError, DbResult, SqliteError};
use crate::sqlite::journal::ancestry::is_retained;
use crate::sqlite::numbers::{int, uint};

/// A comparison of one thread, event by event.
pub(crate) struct ThreadRowCheck<'a> {
    db: &'a Connection,
    key: StreamKey,
    stream: u64,
    is_retained: bool,
    /// Up to this position the rows must be exact.
    folded: u64,
    fold: Option<ThreadFold>,
    thread: Option<ThreadRow>,
    /// By position, without those whose records were pruned.
    turns: BTreeMap<u64, TurnRow>,
    waits: HashMap<ExecId, WaitRow>,
    /// The waits according to the events, and the number of the last event about each.
    known_waits: HashMap<ExecId, (WaitRow, u64)>,
    /// Pruned ranges of whole turns.
    gone: Vec<RangeInclusive<u64>>,
    /// The newest record of the thread up to that position.
    exact: u64,
    differences: Vec<String>,
}

impl<'a> ThreadRowCheck<'a> {
    pub(crate) fn begin(db: &'a Connection, key: &StreamKey, stream: u64) -> DbResult<Self> {
        let mut check = Self {
            db,
            key: key.clone(),
            stream,
            is_retained: is_retained(db, stream)?,
            folded: folded(db)?,
            fold: None,
            thread: None,
            turns: BTreeMap::new(),
            waits: HashMap::new(),
            known_waits: HashMap::new(),
            gone: Vec::new(),
            exact: 0,
            differences: Vec::new(),
        };
        match check.read() {
            Ok(()) => {}
            Err(DbError::Store(error @ SqliteError::DamagedRow { .. })) => {
                check.differences.push(error.to_string());
            }
            Err(DbError::Sql(error)) => {
                let what = format!("its rows cannot be read: {error}");
                check.differences.push(what);
            }
            Err(error) => return Err(error),
        }
        Ok(check)
    }

    fn read(&mut self) -> DbResult<()> {
        self.thread = find_thread(self.db, self.stream)?;
        self.fold = base(self.db, (self.stream, &self.key), self.thread.as_ref())?;
        let query = format!("SELECT {TURN} FROM turns WHERE stream = ?1 AND pruned = 0");
        let mut turns = turns_of(self.db, &query, [int(self.stream)], &self.key)?;
        let waits = open_waits(self.db, &ReadModelRows::default(), self.stream, &self.key)?;
        set_waits(&mut turns, &waits);
        self.turns = turns
            .into_iter()
            .map(|turn| (turn.position, turn))
            .collect();
        let query = format!("SELECT {WAIT} FROM waits WHERE stream = ?1");
        let mut statement = self.db.prepare_cached(&query)?;
        let found = statement.query_map([int(self.stream)], |row| wait(row, &self.key))?;
        for wait in found {
            let wait = wait?;
            self.waits.insert(wait.exec_id, wait);
        }
        let query = "SELECT first, last FROM pruned WHERE stream = ?1 AND turns = 1";
        self.gone = self.db.list_rows(query, [int(self.stream)], |row| {
            Ok(uint(row, 0)?..=uint(row, 1)?)
        })?;
        Ok(())
    }

    /// Folds the next event, and compares the rows that are exact up to it.
    pub(crate) fn step(&mut self, event: &Event, position: u64) {
        if !self.differences.is_empty() {
            return;
        }
        if position <= self.folded {
            self.exact = event.seq();
        }
        let mut changed = Changed::default();
        let begin = || ThreadFold::begin(&self.key, event.ts);
        let fold = self.fold.get_or_insert_with(begin);
        fold.apply(event, position, &mut changed);
        if let Some(row) = &self.thread
            && row.seq == event.seq()
            && !is_same(row, &fold.row)
        {
            let what = "the row of the thread differs from its events";
            self.differences.push(what.to_owned());
        }
        let open = fold.open.iter().filter(|turn| turn.seq == event.seq());
        for turn in changed.ended.iter().chain(open) {
            let stored = self.turns.get(&turn.position);
            let what = match stored {
                Some(stored) if stored.seq != turn.seq => continue,
                Some(stored) if is_same_turn(stored, turn) => continue,
                None if turn.position > self.folded => continue,
                Some(_) => "differs from its events",
                None => "is missing",
            };
            let id = turn.view.id;
            self.differences
                .push(format!("the row of turn {id} {what}"));
        }
        for turn in changed.ended {
            // A row that lags behind its ended turn is reported here; a correct one needs no further check.
            let stored = self.turns.remove(&turn.position);
            if stored.is_some_and(|row| row.seq < turn.seq) && position <= self.folded {
                let what = format!("the row of turn {} lags behind its events", turn.view.id);
                self.differences.push(what);
            }
        }
        for wait in changed.waits {
            self.known_waits.insert(wait.exec_id, (wait, position));
        }
    }

    /// Compares waits with their rows. A row may lag behind events after the position up to which all are exact.
    fn compare_waits(&mut self) {
        for (wait, position) in self.known_waits.values() {
            let is_right = match self.waits.remove(&wait.exec_id) {
                None => *position > self.folded,
                Some(stored) if *position > self.folded => stored.turn_id == wait.turn_id,
                Some(stored) => stored == *wait,
            };
            if !is_right {
                let what = format!("the row of the wait of {} is wrong", wait.exec_id);
                self.differences.push(what);
            }
        }
        // Waits of pruned turns outlive them.
        let is_gone = |wait: &WaitRow| self.gone.iter().any(|gone| gone.contains(&wait.seq));
        self.waits.retain(|_, wait| !is_gone(wait));
        if !self.waits.is_empty() {
            let what = format!("{} rows of waits belong to no call of it", self.waits.len());
            self.differences.push(what);
        }
    }

    /// Returns the differences.
    pub(crate) fn end(mut self) -> Vec<String> {
        if !self.differences.is_empty() {
            return self.differences;
        }
        if !self.is_retained {
            self.compare_waits();
        }
        let newest = self.fold.as_ref().map_or(0, |fold| fold.row.seq);
        let row = self.thread.as_ref().map(|row| row.seq);
        let what = match (row, self.is_retained) {
            (None, false) if self.exact > 0 => Some("the row of the thread is missing"),
            (Some(seq), false) if seq < self.exact => {
                Some("the row of the thread lags behind its events")
            }
            (Some(seq), false) if seq > newest => {
                Some("the row of the thread is ahead of its events")
            }
            (Some(_), true) => Some("a removed stream has a row of a thread"),
            _ => None,
        };
        self.differences.extend(what.map(str::to_owned));
        let fold = self.fold.as_ref();
        for turn in fold.into_iter().flat_map(|fold| &fold.open) {
            let stored = self.turns.remove(&turn.position);
            let is_behind = stored.is_none_or(|stored| stored.seq < turn.seq);
            if is_behind && turn.seq <= self.exact {
                let what = format!("the row of turn {} lags behind its events", turn.view.id);
                self.differences.push(what);
            }
        }
        if !self.turns.is_empty() {
            let what = format!("{} rows of turns belong to no turn of it", self.turns.len());
            self.differences.push(what);
        }
        self.differences
    }
}

/// Sums of prices depend on their order in the last digit.
fn is_same(stored: &ThreadRow, row: &ThreadRow) -> bool {
    let usage = |row: &ThreadRow| {
        row.usage.map(|mut usage| {
            let round = |cost: &mut f64| *cost = (*cost * 1e9).round();
            usage.actual_cost_usd.iter_mut().for_each(round);
            usage.estimated_cost_usd.iter_mut().for_each(round);
            usage
        })
    };
    let plain = |row: &ThreadRow| ThreadRow {
        usage: None,
        ..row.clone()
    };
    usage(stored) == usage(row) && plain(stored) == plain(row)
}

fn is_same_turn(stored: &TurnRow, turn: &TurnRow) -> bool {
    // The waits of an ended turn are in other rows, and the waits of an open turn may have changed since.
    let plain = |turn: &TurnRow| TurnRow {
        waits: Vec::new(),
        ..turn.clone()
    };
    plain(stored) == plain(turn)
}
