//! The rows, as they are stored and as the fold makes them.

use chrono::{DateTime, Utc};
use rusqlite::Row;
use rusqlite::types::Type;
use uuid::Uuid;
use windlass_core::events::TokenUsage;
use windlass_core::items::{Item, ItemKind, ItemStatus, TurnStatus, TurnView};
use windlass_core::message::MessageRole;
use windlass_core::transcript::Placed;
use windlass_core::typed_id::{ExecId, ItemId, MessageId, SessionId, TurnId};

use super::super::numbers::uint;
use super::batches::Places;
use super::codes::Coded;
use super::detail::TurnDetail;

/// How much there is at a record.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Mark {
    pub(super) seq: u64,
    pub(super) turns: u64,
    pub(super) items: u64,
    pub(super) messages: u64,
    pub(super) usage: Option<TokenUsage>,
}

impl Mark {
    /// Returns the places behind all that there is.
    pub(super) fn places(&self) -> Places {
        Places([self.turns, self.items, self.messages])
    }
}

/// A place between turns from which a fold can go on.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Base {
    pub(super) mark: Mark,
    pub(super) latest: Option<(TurnId, TurnStatus)>,
    pub(super) activity: i64,
}

/// The row of a thread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ThreadRow {
    pub(super) is_open: bool,
    pub(super) is_waiting: bool,
    pub(super) activity: i64,
    pub(super) latest: Option<(TurnId, TurnStatus)>,
    /// As of the record for which the row was written.
    pub(super) now: Mark,
    /// How far the other tables reach.
    pub(super) upto: Mark,
}

/// The columns that [`ThreadRow::read`] reads.
pub(super) const THREAD_COLUMNS: &str = "is_open, is_waiting, activity, latest_turn, latest_status, seen, threads.turns, \
     threads.items, threads.messages, usage, upto, upto_turns, upto_items, upto_messages, upto_usage";

impl ThreadRow {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            is_open: row.get(0)?,
            is_waiting: row.get(1)?,
            activity: row.get(2)?,
            latest: latest(row, 3)?,
            now: mark(row, 5)?,
            upto: mark(row, 10)?,
        })
    }
}

/// The columns that [`Base::read`] reads.
pub(super) const BASE_COLUMNS: &str =
    "latest_turn, latest_status, key & 0xffffffff, turns, items, messages, usage, activity";

impl Base {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            latest: latest(row, 0)?,
            mark: mark(row, 2)?,
            activity: row.get(7)?,
        })
    }
}

/// Reads the turn that started last, and how far it is.
fn latest(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<(TurnId, TurnStatus)>> {
    Ok(match id(row, first)? {
        Some(turn) => Some((TurnId::from_uuid(turn), TurnStatus::read(row, first + 1)?)),
        None => None,
    })
}

fn mark(row: &Row<'_>, first: usize) -> rusqlite::Result<Mark> {
    let usage: Option<String> = row.get(first + 4)?;
    Ok(Mark {
        seq: uint(row, first)?,
        turns: uint(row, first + 1)?,
        items: uint(row, first + 2)?,
        messages: uint(row, first + 3)?,
        usage: usage.map(|text| json(&text, first + 4)).transpose()?,
    })
}

fn json<T: serde::de::DeserializeOwned>(text: &str, column: usize) -> rusqlite::Result<T> {
    serde_json::from_str(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
    })
}

/// Reads the bytes of an id.
fn id(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Uuid>> {
    let bytes: Option<[u8; 16]> = row.get(column)?;
    Ok(bytes.map(Uuid::from_bytes))
}

fn needed_id(row: &Row<'_>, column: usize) -> rusqlite::Result<Uuid> {
    row.get(column).map(Uuid::from_bytes)
}

fn micros(time: Option<DateTime<Utc>>) -> Option<i64> {
    time.map(|time| time.timestamp_micros())
}

pub(super) fn from_micros(micros: Option<i64>) -> Option<DateTime<Utc>> {
    micros.and_then(DateTime::from_timestamp_micros)
}

/// The row of a turn. Only one that has ended is stored.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TurnRow {
    pub(super) place: u64,
    pub(super) id: TurnId,
    pub(super) status: TurnStatus,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) started_at: Option<i64>,
    pub(super) ended_at: Option<i64>,
    pub(super) first_item: u64,
    pub(super) items: u64,
    pub(super) session: SessionId,
    pub(super) input: Option<MessageId>,
    pub(super) answer: Option<MessageId>,
    pub(super) detail: TurnDetail,
}

/// What a turn is found by.
pub(super) struct TurnKey {
    pub(super) id: TurnId,
    pub(super) status: TurnStatus,
    pub(super) started_at: Option<DateTime<Utc>>,
    pub(super) ended_at: Option<DateTime<Utc>>,
    pub(super) session: SessionId,
    pub(super) input: Option<MessageId>,
    pub(super) answer: Option<MessageId>,
    pub(super) item_ids: Vec<ItemId>,
}

/// The columns that [`TurnRow::read`] reads.
pub(super) const TURN_COLUMNS: &str = "key & 0xffffffff, id, status, first, last, started_at, ended_at, first_item, items, session, input, answer, detail";

impl TurnRow {
    pub(super) fn new(view: &TurnView, place: u64, (first, last): (u64, u64)) -> Self {
        Self {
            place,
            id: view.id,
            status: view.status,
            first,
            last,
            started_at: micros(view.outline.started_at),
            ended_at: micros(view.ended_at),
            first_item: 0,
            items: 0,
            session: view.session_id,
            input: view.input_message_id,
            answer: view.final_message_id,
            detail: TurnDetail::of(view),
        }
    }

    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            place: uint(row, 0)?,
            id: TurnId::from_uuid(needed_id(row, 1)?),
            status: TurnStatus::read(row, 2)?,
            first: uint(row, 3)?,
            last: uint(row, 4)?,
            started_at: row.get(5)?,
            ended_at: row.get(6)?,
            first_item: uint(row, 7)?,
            items: uint(row, 8)?,
            session: SessionId::from_uuid(needed_id(row, 9)?),
            input: id(row, 10)?.map(MessageId::from_uuid),
            answer: id(row, 11)?.map(MessageId::from_uuid),
            detail: json(row.get_ref(12)?.as_str()?, 12)?,
        })
    }

    pub(super) fn into_view(self, item_ids: Vec<ItemId>) -> TurnView {
        self.detail.into_view(TurnKey {
            id: self.id,
            status: self.status,
            started_at: from_micros(self.started_at),
            ended_at: from_micros(self.ended_at),
            session: self.session,
            input: self.input,
            answer: self.answer,
            item_ids,
        })
    }
}

/// The row of an item. Only one whose turn has ended is stored.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ItemRow {
    pub(super) place: u64,
    pub(super) id: ItemId,
    pub(super) exec_id: Option<ExecId>,
    pub(super) kind: ItemKind,
    pub(super) status: ItemStatus,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) started_at: Option<i64>,
    pub(super) ended_at: Option<i64>,
    pub(super) error_code: Option<String>,
    pub(super) summary: String,
}

/// The columns that [`ItemRow::read`] reads.
pub(super) const ITEM_COLUMNS: &str = "key & 0xffffffff, id, exec, kind, status, first, last, started_at, ended_at, error_code, summary";

impl ItemRow {
    pub(super) fn new(item: &Item<'_>, place: u64, (first, last): (u64, Option<u64>)) -> Self {
        Self {
            place,
            id: item.id,
            exec_id: item.exec_id,
            kind: item.kind,
            status: item.status,
            first,
            last: last.unwrap_or(first),
            started_at: micros(item.started_at),
            ended_at: micros(item.ended_at),
            error_code: item.error_code.map(str::to_owned),
            summary: item.summary().into_owned(),
        }
    }

    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            place: uint(row, 0)?,
            id: ItemId::from_uuid(needed_id(row, 1)?),
            exec_id: id(row, 2)?.map(ExecId::from_uuid),
            kind: ItemKind::read(row, 3)?,
            status: ItemStatus::read(row, 4)?,
            first: uint(row, 5)?,
            last: uint(row, 6)?,
            started_at: row.get(7)?,
            ended_at: row.get(8)?,
            error_code: row.get(9)?,
            summary: row.get(10)?,
        })
    }
}

/// The row of a message: where it stands and which record holds it, never its text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MessageRow {
    pub(super) place: u64,
    pub(super) id: MessageId,
    pub(super) role: MessageRole,
    pub(super) seq: u64,
}

/// The columns that [`MessageRow::read`] reads.
pub(super) const MESSAGE_COLUMNS: &str = "key & 0xffffffff, id, role, seq";

impl MessageRow {
    pub(super) fn new(placed: Placed, place: u64) -> Self {
        Self {
            place,
            id: placed.message_id,
            role: placed.role,
            seq: placed.seq,
        }
    }

    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            place: uint(row, 0)?,
            id: MessageId::from_uuid(needed_id(row, 1)?),
            role: MessageRole::read(row, 2)?,
            seq: uint(row, 3)?,
        })
    }
}

/// Rows that the fold has made.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Rows {
    pub(super) turns: Vec<TurnRow>,
    pub(super) items: Vec<ItemRow>,
    pub(super) messages: Vec<MessageRow>,
}

impl Rows {
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty() && self.items.is_empty() && self.messages.is_empty()
    }
}
