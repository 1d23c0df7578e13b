//! Where the rows of a stream lie: the first ones of a fork are those of the streams that it begins with.

use std::ops::Range;

use rusqlite::{Connection, Row};

use super::super::ancestry::Lineage;
use super::super::error::{Fault, SqliteError};
use super::batches::{EVERYWHERE, Places, Table, within};
use super::marks;
use super::rows::TurnRow;
use crate::journal::StreamKey;
use windlass_core::typed_id::SessionId;

/// The streams that hold rows of one stream, oldest first.
#[derive(Debug)]
pub(super) struct Sources {
    parts: Vec<Source>,
    session: Option<SessionId>,
}

#[derive(Debug)]
struct Source {
    stream: u64,
    /// Where its places begin.
    first: Places,
    /// Where they end.
    end: Places,
}

impl Source {
    /// Returns the places of a table that it holds.
    fn places(&self, table: Table) -> Range<u64> {
        self.first.of(table)..self.end.of(table)
    }
}

impl Sources {
    pub(super) fn of(
        connection: &Connection,
        name: &StreamKey,
        stream: u64,
    ) -> Result<Self, Fault> {
        let lineage = Lineage::of(connection, name, stream)?;
        let mut parts: Vec<Source> = Vec::with_capacity(lineage.parts().len());
        for part in lineage.parts() {
            let mut first = Places::default();
            if part.after > 0 {
                let base = marks::at(connection, part.stream, part.after)?;
                first = base.ok_or_else(|| no_mark(&part.key))?.mark.places();
                if let Some(before) = parts.last_mut() {
                    before.end = first;
                }
            }
            parts.push(Source {
                stream: part.stream,
                first,
                end: Places([EVERYWHERE.end; 3]),
            });
        }
        Ok(Self {
            parts,
            session: lineage.session(),
        })
    }

    /// Returns the keys of the rows of a table within places, batch by batch, newest first.
    pub(super) fn keys(
        &self,
        connection: &Connection,
        table: Table,
        places: Range<u64>,
    ) -> impl Iterator<Item = Result<[i64; 2], Fault>> {
        self.parts.iter().rev().flat_map(move |part| {
            let held = part.places(table);
            let held = held.start.max(places.start)..held.end.min(places.end);
            let batches = within(connection, part.stream, table, held.clone());
            batches.map(move |batch| Ok(batch?.keys(&held)))
        })
    }

    /// Returns the streams that hold rows, newest first, with the places of a table that they hold.
    pub(super) fn streams(&self, table: Table) -> impl Iterator<Item = (u64, Range<u64>)> {
        let parts = self.parts.iter().rev();
        parts.map(move |part| (part.stream, part.places(table)))
    }

    /// Shows the row of a turn as the stream's own.
    pub(super) fn show(&self, mut turn: TurnRow) -> TurnRow {
        let own = self
            .parts
            .last()
            .map_or(0, |own| own.first.of(Table::Turns));
        if let Some(session) = self.session.filter(|_| turn.place < own) {
            turn.session = session;
        }
        turn
    }
}

fn no_mark(stream: &StreamKey) -> SqliteError {
    SqliteError::DamagedRow {
        what: format!("row of where the fork {stream} begins"),
        why: "it is missing; rebuild the projections".to_owned(),
    }
}

pub(super) fn range_query(table: Table, columns: &str) -> String {
    let table = table.name();
    format!("SELECT {columns} FROM {table} WHERE key >= ?1 AND key < ?2 ORDER BY key")
}

/// Reads rows of a stream in a range of places, in their order.
pub(super) fn range<T>(
    connection: &Connection,
    (table, columns): (Table, &str),
    sources: &Sources,
    places: Range<u64>,
    mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, Fault> {
    let mut statement = connection.prepare_cached(&range_query(table, columns))?;
    let mut keys: Vec<_> = sources
        .keys(connection, table, places)
        .collect::<Result<_, _>>()?;
    keys.reverse();
    let mut found = Vec::new();
    for keys in keys {
        let rows = statement.query_map(keys, &mut read)?;
        for row in rows {
            found.push(row?);
        }
    }
    Ok(found)
}
