//! Listing threads.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, Transaction};
use windlass_core::events::TokenUsage;
use windlass_core::items::TurnStatus;
use windlass_core::typed_id::TurnId;

use super::super::SqliteStore;
use super::super::error::{Fault, SqliteError};
use super::super::numbers::{int, uint};
use super::load::ready;
use super::newest::{Newest, ThreadRows, fold_newest, projected};
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

    fn new(stream: u64, thread: &ThreadRow, place: Place) -> Self {
        Self {
            stream: place.name,
            is_open: thread.is_open,
            is_waiting: thread.is_waiting,
            latest_turn: thread.latest.map(|(turn, _)| turn),
            latest_status: thread.latest.map(|(_, status)| status),
            activity: from_micros(Some(thread.activity)).unwrap_or_default(),
            head: place.head,
            newest_at: place.newest_at,
            turns: thread.now.turns,
            items: thread.now.items,
            messages: thread.now.messages,
            usage: thread.now.usage,
            cursor: cursor(stream, thread),
        }
    }
}

fn cursor(stream: u64, thread: &ThreadRow) -> ThreadCursor {
    ThreadCursor {
        activity: thread.activity,
        stream,
    }
}

impl SqliteStore {
    /// Lists threads, the one with the newest activity first.
    pub async fn threads(
        &self,
        filter: ThreadFilter,
        window: Window<ThreadCursor>,
    ) -> Result<Listed<ThreadEntry, ThreadCursor>, SqliteError> {
        let newest = self.inner.newest.clone();
        let readers = &self.inner.readers;
        let listed = readers.read(move |reader| list(reader, newest.as_deref(), filter, window));
        Ok(listed.await?)
    }
}

fn list(
    reader: &Connection,
    newest: Option<&Newest>,
    filter: ThreadFilter,
    window: Window<ThreadCursor>,
) -> Result<Listed<ThreadEntry, ThreadCursor>, Fault> {
    ready(reader)?;
    let (transaction, newest) = begin(reader, newest)?;
    let is_wanted = |row: &ThreadRow| match filter {
        ThreadFilter::All => true,
        ThreadFilter::Open => row.is_open,
        ThreadFilter::Idle => !row.is_open,
    };
    let after = window.after.unwrap_or(ThreadCursor::END);
    let mut found: Vec<(u64, ThreadRow)> = newest
        .iter()
        .filter(|(stream, row)| is_wanted(row) && cursor(**stream, row) < after)
        .map(|(stream, row)| (*stream, *row))
        .collect();
    let limit = window.limit.saturating_add(1);
    for is_open in [true, false] {
        if filter
            != (if is_open {
                ThreadFilter::Idle
            } else {
                ThreadFilter::Open
            })
        {
            let stored = of_state(&transaction, is_open, after, limit + newest.len())?;
            let stored = stored.into_iter();
            found.extend(stored.filter(|(stream, _)| !newest.contains_key(stream)));
        }
    }
    found.sort_unstable_by_key(|(stream, row)| std::cmp::Reverse(cursor(*stream, row)));
    found.truncate(limit);
    let mut entries = Vec::with_capacity(found.len());
    for (stream, row) in found {
        if let Some(place) = place(&transaction, stream)? {
            entries.push(ThreadEntry::new(stream, &row, place));
        }
    }
    Ok(Listed::cut(entries, window.limit, |entry| entry.cursor))
}

/// Begins to read a state of the tables together with the rows that are newer.
fn begin<'a>(
    reader: &'a Connection,
    newest: Option<&Newest>,
) -> Result<(Transaction<'a>, ThreadRows), Fault> {
    let Some(newest) = newest else {
        let transaction = reader.unchecked_transaction()?;
        let rows = fold_newest(&transaction)?;
        return Ok((transaction, rows));
    };
    loop {
        let (rows, generation) = newest.rows();
        let transaction = reader.unchecked_transaction()?;
        // The state that is read is that of the first query.
        projected(&transaction)?;
        if newest.generation() == generation {
            return Ok((transaction, rows));
        }
    }
}

/// The query of one state; an index finds and orders what it returns.
pub(super) fn query() -> String {
    format!(
        "SELECT {THREAD_COLUMNS}, stream FROM threads \
         WHERE is_open = ?1 AND (activity, stream) < (?2, ?3) \
         ORDER BY activity DESC, stream DESC LIMIT ?4"
    )
}

fn of_state(
    reader: &Connection,
    is_open: bool,
    after: ThreadCursor,
    limit: usize,
) -> Result<Vec<(u64, ThreadRow)>, Fault> {
    let mut statement = reader.prepare_cached(&query())?;
    let parameters = (
        is_open,
        after.activity,
        int(after.stream),
        int(limit as u64),
    );
    let rows = statement.query_map(parameters, |row| {
        Ok((uint(row, 15)?, ThreadRow::read(row)?))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// What the records say about a stream that is listed.
struct Place {
    name: StreamKey,
    head: u64,
    newest_at: DateTime<Utc>,
}

pub(super) const PLACE_QUERY: &str = "SELECT streams.key, newest.seq, newest.at FROM streams \
     JOIN records AS newest ON newest.stream = streams.id AND newest.seq = \
     (SELECT max(seq) FROM records WHERE stream = ?1) WHERE streams.id = ?1";

fn place(reader: &Connection, stream: u64) -> Result<Option<Place>, Fault> {
    let mut statement = reader.prepare_cached(PLACE_QUERY)?;
    let place = statement.query_row([int(stream)], |row| {
        Ok(Place {
            name: StreamKey::new(row.get::<_, String>(0)?),
            head: uint(row, 1)?,
            newest_at: DateTime::from_timestamp_millis(row.get(2)?).unwrap_or_default(),
        })
    });
    Ok(place.optional()?)
}
