//! Where the rows of a stream lie: the first ones of a fork are those of the streams that it begins with.

use std::ops::Range;

use rusqlite::{Connection, Row};

use super::super::ancestry::Lineage;
use super::super::error::{Fault, SqliteError};
use super::marks;
use super::rows::TurnRow;
use super::write::{TABLES, key};
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
    /// Where its places of turns, items and messages begin and end.
    places: [Range<u64>; 3],
}

const ALL: Range<u64> = 0..1 << 32;

impl Sources {
    pub(super) fn of(
        connection: &Connection,
        name: &StreamKey,
        stream: u64,
    ) -> Result<Self, Fault> {
        let lineage = Lineage::of(connection, name, stream)?;
        let mut parts: Vec<Source> = Vec::with_capacity(lineage.parts().len());
        for part in lineage.parts() {
            let mut places = [ALL; 3];
            if part.after > 0 {
                let base = marks::at(connection, part.stream, part.after)?;
                let mark = base.ok_or_else(|| no_mark(&part.key))?.mark;
                let starts = [mark.turns, mark.items, mark.messages];
                for (place, start) in starts.into_iter().enumerate() {
                    places[place].start = start;
                    if let Some(before) = parts.last_mut() {
                        before.places[place].end = start;
                    }
                }
            }
            parts.push(Source {
                stream: part.stream,
                places,
            });
        }
        Ok(Self {
            parts,
            session: lineage.session(),
        })
    }

    /// Returns the streams that hold rows of a table within places, oldest first, with the keys of those rows.
    pub(super) fn keys(
        &self,
        table: &str,
        places: &Range<u64>,
    ) -> impl DoubleEndedIterator<Item = (u64, [i64; 2])> {
        let table = TABLES.iter().position(|name| *name == table);
        let keys = self.parts.iter().filter_map(move |part| {
            let held = &part.places[table?];
            let held = held.start.max(places.start)..held.end.min(places.end);
            let keys = [held.start, held.end].map(|place| key(part.stream, place));
            (!held.is_empty()).then_some((part.stream, keys))
        });
        keys.collect::<Vec<_>>().into_iter()
    }

    /// Shows the row of a turn as the stream's own.
    pub(super) fn show(&self, mut turn: TurnRow) -> TurnRow {
        let own = self.parts.last().map_or(0, |own| own.places[0].start);
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

pub(super) fn range_query(table: &str, columns: &str) -> String {
    format!("SELECT {columns} FROM {table} WHERE key >= ?1 AND key < ?2 ORDER BY key")
}

/// Reads rows of a stream in a range of places, in their order.
pub(super) fn range<T>(
    connection: &Connection,
    (table, columns): (&str, &str),
    sources: &Sources,
    places: Range<u64>,
    mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, Fault> {
    let mut statement = connection.prepare_cached(&range_query(table, columns))?;
    let mut found = Vec::new();
    for (_, keys) in sources.keys(table, &places) {
        let rows = statement.query_map(keys, &mut read)?;
        for row in rows {
            found.push(row?);
        }
    }
    Ok(found)
}
