//! Comparing what is stored with what the events fold to.

use std::collections::VecDeque;
use std::sync::Arc;

use rusqlite::Connection;
use windlass_core::events::Event;

use super::super::ancestry::Lineage;
use super::super::error::Fault;
use super::super::numbers::{int, uint};
use super::super::schema::{FORKS, version};
use super::super::spans::at;
use super::batches::{self, Batch, EVERYWHERE, Table};
use super::fold::Fold;
use super::forks::{fork_base, kept_row};
use super::load::thread;
use super::marks;
use super::rebuild::base;
use super::rows::{
    Base, ITEM_COLUMNS, ItemRow, MESSAGE_COLUMNS, Mark, MessageRow, Rows, TURN_COLUMNS, ThreadRow,
    TurnRow,
};
use super::sources::{Sources, range};

/// After how many events rows are compared and given up.
const COMPARE_AFTER: u64 = 1024;

/// A comparison of the rows of one stream, event by event. Rows whose records are gone are taken as they are.
pub(crate) struct Check<'a> {
    connection: &'a Connection,
    stream: u64,
    row: Option<ThreadRow>,
    fold: Fold,
    sources: Sources,
    /// The marks that are not compared yet, oldest first.
    marks: VecDeque<Base>,
    /// Where the fold begins.
    base: u64,
    /// Whether the end of the stored rows was reached.
    is_compared: bool,
    events: u64,
    differences: Vec<String>,
}

impl<'a> Check<'a> {
    pub(crate) fn begin(connection: &'a Connection, lineage: &Lineage) -> Result<Self, Fault> {
        let own = lineage.own();
        let stream = own.stream;
        let row = match thread(connection, stream)? {
            None => kept_row(connection, stream)?,
            row => row,
        };
        let fold = Fold::after(base(connection, lineage)?);
        let base = fold.taken().seq;
        let marks = match version(connection)? < FORKS {
            true => Vec::new(),
            false => marks::behind(connection, stream, base)?,
        };
        let mut differences = Vec::new();
        if lineage.is_fork() {
            let kept = marks::at(connection, stream, own.after)?;
            let is_right = match fork_base(connection, lineage) {
                Ok(base) => kept == Some(base),
                // What is wrong with the parent is told elsewhere.
                Err(Fault::Journal(_)) => true,
                Err(fault) => return Err(fault),
            };
            if !is_right {
                let what = "the row of where the fork begins is not what the journal says";
                differences.push(what.to_owned());
            }
        }
        let mut check = Self {
            connection,
            stream,
            row,
            base,
            fold,
            sources: Sources::of(connection, &own.key, stream)?,
            marks: marks.into(),
            is_compared: false,
            events: 0,
            differences,
        };
        check.reach()?;
        Ok(check)
    }

    /// Takes the next event of the stream.
    pub(crate) fn step(&mut self, event: &Arc<Event>) -> Result<(), Fault> {
        if event.seq() <= self.base || event.is_ephemeral() {
            return Ok(());
        }
        self.fold.apply(event);
        self.events += 1;
        if self.row.is_some_and(|row| row.now.seq == event.seq()) {
            self.compare_thread();
        }
        if let Some(mark) = self.marks.front().copied()
            && mark.mark.seq <= event.seq()
        {
            self.marks.pop_front();
            self.compare_mark(&mark);
        }
        self.reach()
    }

    fn compare_mark(&mut self, mark: &Base) {
        let folded = *self.fold.base();
        // What happened last is not known where its record is gone.
        let activity = match self.fold.changed() {
            0 => mark.activity,
            _ => folded.activity,
        };
        if *mark != (Base { activity, ..folded }) {
            let seq = mark.mark.seq;
            self.differences.push(format!(
                "the mark at record {seq} is not what the journal says"
            ));
        }
    }

    /// Compares rows once enough have come together, and all that are left where the stored ones end.
    fn reach(&mut self) -> Result<(), Fault> {
        let upto = self.row.map_or(0, |row| row.upto.seq);
        let settled = *self.fold.settled();
        // Records that are gone may reach beyond the rows, where only text chunks did.
        let is_end = settled.seq == upto || (settled.seq == self.base && upto < self.base);
        let is_enough = settled.seq < upto && self.events >= COMPARE_AFTER;
        if self.is_compared || !(is_end || is_enough) {
            return Ok(());
        }
        self.events = 0;
        let before = *self.fold.taken();
        let rows = self.fold.take();
        self.compare_rows(&before, &settled, &rows)?;
        if is_end {
            self.is_compared = true;
            let expected = Mark {
                seq: upto,
                ..settled
            };
            if self.row.is_some_and(|row| row.upto != expected) {
                let what = "the row of the thread says wrongly how much is listed";
                self.differences.push(what.to_owned());
            }
            self.find_extra(&settled)?;
        }
        Ok(())
    }

    fn compare_thread(&mut self) {
        let Some(row) = self.row else { return };
        let folded = self.fold.thread();
        // What happened last is not known where its record is gone.
        let activity = match self.fold.changed() {
            0 => row.activity,
            _ => folded.activity,
        };
        let upto = row.upto;
        let expected = ThreadRow {
            activity,
            upto,
            ..folded
        };
        if row != expected {
            let what = "the row of the thread is not what the journal says";
            self.differences.push(what.to_owned());
        }
    }

    fn compare_rows(&mut self, from: &Mark, to: &Mark, rows: &Rows) -> Result<(), Fault> {
        let (connection, sources) = (self.connection, &self.sources);
        let turns = (Table::Turns, TURN_COLUMNS);
        let stored = range(
            connection,
            turns,
            sources,
            from.turns..to.turns,
            TurnRow::read,
        );
        let items = (Table::Items, ITEM_COLUMNS);
        let stored_items = range(
            connection,
            items,
            sources,
            from.items..to.items,
            ItemRow::read,
        );
        let messages = (Table::Messages, MESSAGE_COLUMNS);
        let places = from.messages..to.messages;
        let stored_messages = range(connection, messages, sources, places, MessageRow::read);
        self.compare("turn", from.turns, stored, &rows.turns)?;
        self.compare("item", from.items, stored_items, &rows.items)?;
        self.compare("message", from.messages, stored_messages, &rows.messages)
    }

    /// Names the first row that differs: where one is missing, all behind it do.
    fn compare<T: PartialEq>(
        &mut self,
        what: &str,
        first: u64,
        stored: Result<Vec<T>, Fault>,
        folded: &[T],
    ) -> Result<(), Fault> {
        let stored = match stored {
            Ok(stored) => stored,
            Err(Fault::Sql(error)) => {
                let what = format!("the row of a {what} cannot be read: {error}");
                self.differences.push(what);
                return Ok(());
            }
            Err(fault) => return Err(fault),
        };
        let longest = stored.len().max(folded.len());
        let differs = (0..longest).find(|at| stored.get(*at) != folded.get(*at));
        if let Some(at) = differs {
            let why = match stored.get(at) {
                Some(_) => "is not what the journal says",
                None => "is missing",
            };
            let place = first + at as u64;
            self.differences
                .push(format!("the row of {what} {place} {why}"));
        }
        Ok(())
    }

    /// Looks for rows that nobody shows: each batch ends where the next one begins.
    fn find_extra(&mut self, end: &Mark) -> Result<(), Fault> {
        let connection = self.connection;
        let batches = batches::all(connection, self.stream)?;
        for table in Table::ALL {
            let mut extra = 0;
            for (at, batch) in batches.iter().enumerate() {
                let next = batches.get(at + 1).map(|next| next.first);
                let shown = batch.first.of(table)..next.unwrap_or(end.places()).of(table);
                let all = batches::count(connection, table, batch.keys(&EVERYWHERE))?;
                let shown = batches::count(connection, table, batch.keys(&shown))?;
                extra += all.saturating_sub(shown);
            }
            if extra > 0 {
                let table = table.name();
                self.differences
                    .push(format!("{extra} rows of {table} are too many"));
            }
        }
        self.find_strays(&batches)
    }

    /// Looks for turns that are not found by their ids.
    fn find_strays(&mut self, batches: &[Batch]) -> Result<(), Fault> {
        let mut statement = self.connection.prepare_cached(
            "SELECT count(*) FROM turns WHERE key >= ?1 AND key < ?2 AND stream <> ?3",
        )?;
        let mut strays = 0;
        for batch in batches {
            let [from, to] = batch.keys(&EVERYWHERE);
            strays += statement.query_row([from, to, int(self.stream)], |row| uint(row, 0))?;
        }
        if strays > 0 {
            self.differences
                .push(format!("{strays} rows of turns name another stream"));
        }
        Ok(())
    }

    /// Tells whether the rows of threads must know a record.
    fn is_projected(&self, seq: u64) -> Result<bool, Fault> {
        let mut statement = self.connection.prepare_cached(concat!(
            "SELECT EXISTS (SELECT 1 FROM placed WHERE stream = ?1 AND ",
            at!("?2"),
            " AND position <= (SELECT projected FROM state))"
        ))?;
        Ok(statement.query_row([int(self.stream), int(seq)], |row| row.get(0))?)
    }

    /// Returns what is wrong.
    pub(crate) fn end(mut self) -> Result<Vec<String>, Fault> {
        let changed = self.fold.changed();
        let seen = self.row.map_or(0, |row| row.now.seq);
        if seen < changed && self.is_projected(changed)? {
            let what = format!("the row of the thread does not know record {changed}");
            self.differences.push(what);
        }
        if let Some(mark) = self.marks.pop_front() {
            let seq = mark.mark.seq;
            self.differences
                .push(format!("the mark at record {seq} lies behind the last one"));
        }
        if !self.is_compared {
            let what = "the row of the thread names no place between turns";
            self.differences.push(what.to_owned());
        }
        Ok(self.differences)
    }
}
