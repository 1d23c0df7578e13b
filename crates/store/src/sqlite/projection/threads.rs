//! Listing threads.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, Row};
use windlass_core::events::TokenUsage;
use windlass_core::items::TurnStatus;
use windlass_core::typed_id::TurnId;

use super::super::SqliteStore;
use super::super::error::{Fault, SqliteError};
use super::super::numbers::{int, uint};
use super::load::ready;
use super::page::{Listed, ThreadCursor, Window};
use super::rows::{THREAD_COLUMNS, ThreadRow, from_micros};
use crate::journal::StreamKey;

/// Which threads are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ThreadFilter {
    /// All that have a record.
    #[default]
    All,
    /// Those in which a turn runs or waits for somebody.
    Open,
    /// Those in which no turn is open.
    Idle,
}

/// One thread, as a list shows it. Counts and usage are those of the newest start or end of a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadEntry {
    /// Its stream.
    pub stream: StreamKey,
    /// Whether a turn is open.
    pub is_open: bool,
    /// Whether the open turn waits for somebody.
    pub is_waiting: bool,
    /// The turn that started last.
    pub latest_turn: Option<TurnId>,
    /// How far that turn is.
    pub latest_status: Option<TurnStatus>,
    /// When a turn last started, ended, or began or ceased to wait.
    pub activity: DateTime<Utc>,
    /// The number of the newest record.
    pub head: u64,
    /// When the newest record was written.
    pub newest_at: DateTime<Utc>,
    /// How many turns have started.
    pub turns: u64,
    /// How many items the ended turns have.
    pub items: u64,
    /// How many messages the transcript has.
    pub messages: u64,
    /// What the ended turns used.
    pub usage: Option<TokenUsage>,
    cursor: ThreadCursor,
}

impl ThreadEntry {
    /// Returns the open turn.
    #[must_use]
    pub fn open_turn(&self) -> Option<TurnId> {
        self.latest_turn.filter(|_| self.is_open)
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let thread = ThreadRow::read(row)?;
        let newest_at: i64 = row.get(18)?;
        Ok(Self {
            stream: StreamKey::new(row.get::<_, String>(15)?),
            is_open: thread.is_open,
            is_waiting: thread.is_waiting,
            latest_turn: thread.latest.map(|(turn, _)| turn),
            latest_status: thread.latest.map(|(_, status)| status),
            activity: from_micros(Some(thread.activity)).unwrap_or_default(),
            head: uint(row, 17)?,
            newest_at: DateTime::from_timestamp_millis(newest_at).unwrap_or_default(),
            turns: thread.now.turns,
            items: thread.now.items,
            messages: thread.now.messages,
            usage: thread.now.usage,
            cursor: ThreadCursor {
                activity: thread.activity,
                stream: uint(row, 16)?,
            },
        })
    }
}

impl SqliteStore {
    /// Lists threads, the one with the newest activity first.
    pub async fn threads(
        &self,
        filter: ThreadFilter,
        window: Window<ThreadCursor>,
    ) -> Result<Listed<ThreadEntry, ThreadCursor>, SqliteError> {
        let listed = self
            .inner
            .readers
            .read(move |reader| list(reader, filter, window));
        Ok(listed.await?)
    }
}

fn list(
    reader: &Connection,
    filter: ThreadFilter,
    window: Window<ThreadCursor>,
) -> Result<Listed<ThreadEntry, ThreadCursor>, Fault> {
    ready(reader)?;
    let transaction = reader.unchecked_transaction()?;
    let states: &[bool] = match filter {
        ThreadFilter::All => &[true, false],
        ThreadFilter::Open => &[true],
        ThreadFilter::Idle => &[false],
    };
    let mut entries = Vec::new();
    for is_open in states {
        entries.extend(of_state(&transaction, *is_open, &window)?);
    }
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.cursor));
    Ok(Listed::cut(entries, window.limit, |entry| entry.cursor))
}

/// The query of one state; each of its parts is found by an index.
pub(super) fn query() -> String {
    format!(
        "SELECT {THREAD_COLUMNS}, streams.key, threads.stream, newest.seq, newest.at FROM threads \
         JOIN streams ON streams.id = threads.stream \
         JOIN records AS newest ON newest.stream = threads.stream AND newest.seq = \
         (SELECT max(seq) FROM records WHERE stream = threads.stream) \
         WHERE is_open = ?1 AND (activity, threads.stream) < (?2, ?3) \
         ORDER BY activity DESC, threads.stream DESC LIMIT ?4"
    )
}

fn of_state(
    reader: &Connection,
    is_open: bool,
    window: &Window<ThreadCursor>,
) -> Result<Vec<ThreadEntry>, Fault> {
    let end = ThreadCursor {
        activity: i64::MAX,
        stream: u64::MAX,
    };
    let after = window.after.unwrap_or(end);
    let limit = int(window.limit as u64).saturating_add(1);
    let mut statement = reader.prepare_cached(&query())?;
    let parameters = (is_open, after.activity, int(after.stream), limit);
    let entries = statement.query_map(parameters, ThreadEntry::read)?;
    Ok(entries.collect::<Result<_, _>>()?)
}
