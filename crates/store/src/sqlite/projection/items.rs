//! Listing the items of a turn.

use chrono::{DateTime, Utc};
use rusqlite::Connection;
use windlass_core::items::{ItemKind, ItemStatus};
use windlass_core::typed_id::{ExecId, ItemId, TurnId};

use super::super::SqliteStore;
use super::super::error::{Fault, SqliteError};
use super::super::journal::find;
use super::batches::Table;
use super::load::{fold, ready};
use super::rows::{ITEM_COLUMNS, ItemRow, from_micros};
use super::sources::{Sources, range};
use super::turns::stored;
use crate::journal::StreamKey;

/// One item of a turn, in short. The events that began and ended it hold the whole.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemEntry {
    /// The item.
    pub id: ItemId,
    /// Its turn.
    pub turn_id: TurnId,
    /// The step that it shows, if it is not the user's.
    pub exec_id: Option<ExecId>,
    /// What it is.
    pub kind: ItemKind,
    /// How far it is.
    pub status: ItemStatus,
    /// When it began.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
    /// A stable code of what went wrong.
    pub error_code: Option<String>,
    /// The beginning of its text; empty while the text streams.
    pub summary: String,
    /// The number of the event that began it.
    pub first_seq: u64,
    /// The number of the event that ended it; the same where it came whole, or has not ended.
    pub last_seq: u64,
}

impl ItemEntry {
    fn new(row: ItemRow, turn_id: TurnId) -> Self {
        Self {
            id: row.id,
            turn_id,
            exec_id: row.exec_id,
            kind: row.kind,
            status: row.status,
            started_at: from_micros(row.started_at),
            ended_at: from_micros(row.ended_at),
            error_code: row.error_code,
            summary: row.summary,
            first_seq: row.first,
            last_seq: row.last,
        }
    }
}

impl SqliteStore {
    /// Lists the items of a turn in the order in which they began; `None` if the stream has no such turn.
    pub async fn items(
        &self,
        stream: &StreamKey,
        turn: TurnId,
    ) -> Result<Option<Vec<ItemEntry>>, SqliteError> {
        let key = stream.clone();
        let listed = self
            .inner
            .readers
            .read(move |reader| list(reader, &key, turn));
        Ok(listed.await?)
    }
}

fn list(
    reader: &Connection,
    name: &StreamKey,
    turn: TurnId,
) -> Result<Option<Vec<ItemEntry>>, Fault> {
    ready(reader)?;
    let transaction = reader.unchecked_transaction()?;
    let Some(stream) = find(&transaction, name)? else {
        return Ok(None);
    };
    let stream = stream.stream;
    let sources = Sources::of(&transaction, name, stream)?;
    let items = match stored(&transaction, &sources, turn)? {
        Some(row) => {
            let items = (Table::Items, ITEM_COLUMNS);
            let places = row.first_item..row.first_item + row.items;
            range(&transaction, items, &sources, places, ItemRow::read)?
        }
        None => {
            let rows = fold(&transaction, name, stream)?.into_rows();
            let mut turns = rows.turns.iter();
            let Some(row) = turns.find(|row| row.id == turn) else {
                return Ok(None);
            };
            let places = row.first_item..row.first_item + row.items;
            let items = rows.items.into_iter();
            items.filter(|item| places.contains(&item.place)).collect()
        }
    };
    let entries = items.into_iter().map(|item| ItemEntry::new(item, turn));
    Ok(Some(entries.collect()))
}
