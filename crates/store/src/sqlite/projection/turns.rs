//! Listing turns.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;
use windlass_core::items::{TurnStatus, TurnView};
use windlass_core::typed_id::{ItemId, TurnId};

use super::super::SqliteStore;
use super::super::error::{Fault, SqliteError};
use super::super::journal::find;
use super::super::numbers::{int, uint};
use super::batches::Table;
use super::load::{fold, ready};
use super::rows::{ItemRow, TURN_COLUMNS, TurnRow};
use super::sources::{Sources, range};
use crate::journal::{Listed, StreamKey, Window};

/// One turn of a thread.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnEntry {
    /// Its place in the thread, counted from 0 in the order in which turns start.
    pub place: u64,
    /// The number of the event that started it.
    pub first_seq: u64,
    /// The number of the event that ended it; of an open turn, the newest one.
    pub last_seq: u64,
    /// The turn, with the ids of its items.
    pub turn: TurnView,
}

impl TurnEntry {
    fn new(row: TurnRow, item_ids: Vec<ItemId>) -> Self {
        Self {
            place: row.place,
            first_seq: row.first,
            last_seq: row.last,
            turn: row.into_view(item_ids),
        }
    }
}

impl SqliteStore {
    /// Lists the turns of a thread, the one that started last first. A stream that is not there has none.
    pub async fn turns(
        &self,
        stream: &StreamKey,
        window: Window<u64>,
    ) -> Result<Listed<TurnEntry, u64>, SqliteError> {
        let key = stream.clone();
        let listed = self
            .inner
            .readers
            .read(move |reader| list(reader, &key, window));
        Ok(listed.await?)
    }
}

fn list(
    reader: &Connection,
    name: &StreamKey,
    window: Window<u64>,
) -> Result<Listed<TurnEntry, u64>, Fault> {
    ready(reader)?;
    let transaction = reader.unchecked_transaction()?;
    let mut entries = Vec::new();
    if let Some(stream) = find(&transaction, name)? {
        let stream = stream.stream;
        let wanted = window.limit.saturating_add(1);
        let fold = fold(&transaction, name, stream)?;
        let stored = fold.taken().turns;
        let sources = Sources::of(&transaction, name, stream)?;
        let rows = fold.into_rows();
        let before = window.after.unwrap_or(u64::MAX);
        let newest = rows.turns.into_iter().rev();
        let newest = newest.filter(|row| row.place < before).take(wanted);
        entries.extend(newest.map(|row| {
            let of_turn = |item: &&ItemRow| {
                (row.first_item..row.first_item + row.items).contains(&item.place)
            };
            let ids = rows.items.iter().filter(of_turn).map(|item| item.id);
            let ids = ids.collect();
            TurnEntry::new(row, ids)
        }));
        let left = wanted - entries.len();
        let rows = older(&transaction, &sources, before.min(stored), left)?;
        let ids = item_ids(&transaction, &sources, &rows)?;
        entries.extend(rows.into_iter().map(|row| {
            let of_turn = row.first_item..row.first_item + row.items;
            let ids = ids.range(of_turn).map(|(_, id)| *id).collect();
            TurnEntry::new(row, ids)
        }));
    }
    Ok(Listed::cut(entries, window.limit, |entry| entry.place))
}

pub(super) fn older_query() -> String {
    format!(
        "SELECT {TURN_COLUMNS} FROM turns WHERE key >= ?1 AND key < ?2 ORDER BY key DESC LIMIT ?3"
    )
}

fn older(
    reader: &Connection,
    sources: &Sources,
    before: u64,
    limit: usize,
) -> Result<Vec<TurnRow>, Fault> {
    let mut statement = reader.prepare_cached(&older_query())?;
    let mut found = Vec::new();
    for keys in sources.keys(reader, Table::Turns, 0..before) {
        let ([from, to], left) = (keys?, limit - found.len());
        let rows = statement.query_map((from, to, int(left as u64)), TurnRow::read)?;
        for row in rows {
            found.push(sources.show(row?));
        }
        if found.len() == limit {
            break;
        }
    }
    Ok(found)
}

/// Returns the items of turns by their places. Mostly turns that follow each other have items that do; those of turns that overlapped
/// may lie far apart.
fn item_ids(
    reader: &Connection,
    sources: &Sources,
    turns: &[TurnRow],
) -> Result<BTreeMap<u64, ItemId>, Fault> {
    let places = turns.iter().filter(|turn| turn.items > 0);
    let mut places: Vec<_> = places
        .map(|turn| (turn.first_item, turn.first_item + turn.items))
        .collect();
    places.sort_unstable();
    let mut ids = BTreeMap::new();
    for together in places.chunk_by(|before, behind| before.1 == behind.0) {
        let places = together[0].0..together[together.len() - 1].1;
        let items = (Table::Items, ITEM_ID_COLUMNS);
        ids.extend(range(reader, items, sources, places, |row| {
            let id: [u8; 16] = row.get(1)?;
            Ok((uint(row, 0)?, ItemId::from_uuid(Uuid::from_bytes(id))))
        })?);
    }
    Ok(ids)
}

pub(super) const ITEM_ID_COLUMNS: &str = "key & 0xffffffff, id";

pub(super) fn turn_query() -> String {
    format!("SELECT {TURN_COLUMNS} FROM turns WHERE stream = ?1 AND id = ?2")
}

/// Looks up the stored row of a turn.
pub(super) fn stored(
    reader: &Connection,
    sources: &Sources,
    turn: TurnId,
) -> Result<Option<TurnRow>, Fault> {
    let mut statement = reader.prepare_cached(&turn_query())?;
    for (stream, shown) in sources.streams(Table::Turns) {
        let parameters = (int(stream), turn.uuid().into_bytes());
        let found = statement.query_row(parameters, TurnRow::read).optional()?;
        if let Some(row) = found.filter(|row| shown.contains(&row.place)) {
            return Ok(Some(sources.show(row)));
        }
    }
    Ok(None)
}

/// Returns the number of the record that ended a turn.
pub(in super::super) fn end(
    reader: &Connection,
    name: &StreamKey,
    turn: TurnId,
) -> Result<Option<u64>, Fault> {
    ready(reader)?;
    let transaction = reader.unchecked_transaction()?;
    let Some(stream) = find(&transaction, name)? else {
        return Ok(None);
    };
    let sources = Sources::of(&transaction, name, stream.stream)?;
    if let Some(row) = stored(&transaction, &sources, turn)? {
        return Ok(Some(row.last));
    }
    let rows = fold(&transaction, name, stream.stream)?.into_rows();
    let is_it = |row: &&TurnRow| row.id == turn && row.status != TurnStatus::InProgress;
    Ok(rows.turns.iter().find(is_it).map(|row| row.last))
}
