//! Listing threads.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, Transaction};

use super::super::SqliteStore;
use super::super::error::{Fault, SqliteError};
use super::super::journal::find as find_stream;
use super::super::numbers::{int, uint};
use super::super::spans::{newest_position, newest_seq};
use super::load::{self, ready};
use super::newest::{Newest, ThreadRows, fold_newest, projected};
use super::rows::{THREAD_COLUMNS, ThreadRow, from_micros};
use crate::journal::{Listed, StreamKey, ThreadCursor, ThreadEntry, ThreadFilter, Window};

fn entry(stream: u64, thread: &ThreadRow, place: Place) -> ThreadEntry {
    ThreadEntry {
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

/// Finds the thread of one stream.
pub(in super::super) fn find(
    reader: &Connection,
    newest: Option<&Newest>,
    name: &StreamKey,
) -> Result<Option<ThreadEntry>, Fault> {
    ready(reader)?;
    loop {
        let generation = newest.map(Newest::generation);
        let transaction = reader.unchecked_transaction()?;
        let Some(stream) = find_stream(&transaction, name)? else {
            return Ok(None);
        };
        let stream = stream.stream;
        // Where not all rows are there, this one is folded; nobody waits for the others.
        let row = match newest.filter(|newest| newest.is_whole()) {
            Some(newest) => newest.row(stream),
            None => {
                let fold = load::fold(&transaction, name, stream)?;
                fold.is_begun().then(|| fold.thread())
            }
        };
        let row = match row {
            Some(row) => Some(row),
            None => load::thread(&transaction, stream)?,
        };
        if newest.map(Newest::generation) == generation {
            let both = row.zip(place(&transaction, stream)?);
            return Ok(both.map(|(row, place)| entry(stream, &row, place)));
        }
    }
}

pub(in super::super) fn list(
    reader: &Connection,
    newest: Option<&Newest>,
    filter: ThreadFilter,
    window: Window<ThreadCursor>,
) -> Result<Listed<ThreadEntry, ThreadCursor>, Fault> {
    ready(reader)?;
    let (transaction, newest) = begin(reader, newest)?;
    let after = window.after.unwrap_or(ThreadCursor::START);
    let mut found: Vec<(u64, ThreadRow)> = newest
        .iter()
        .filter(|(stream, row)| filter.takes(row.is_open) && cursor(**stream, row) < after)
        .map(|(stream, row)| (*stream, *row))
        .collect();
    let limit = window.limit.saturating_add(1);
    for is_open in [true, false]
        .into_iter()
        .filter(|is_open| filter.takes(*is_open))
    {
        let stored = of_state(
            &transaction,
            is_open,
            after,
            limit.saturating_add(newest.len()),
        )?;
        let stored = stored.into_iter();
        found.extend(stored.filter(|(stream, _)| !newest.contains_key(stream)));
    }
    found.sort_unstable_by_key(|(stream, row)| std::cmp::Reverse(cursor(*stream, row)));
    found.truncate(limit);
    let mut entries = Vec::with_capacity(found.len());
    for (stream, row) in found {
        if let Some(place) = place(&transaction, stream)? {
            entries.push(entry(stream, &row, place));
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
        let (rows, generation) = newest.rows()?;
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

pub(super) const PLACE_QUERY: &str = concat!(
    "SELECT streams.key, ",
    newest_seq!("?1"),
    " AS head, coalesce(newest.at, 0) FROM streams LEFT JOIN records AS newest ON newest.position = ",
    newest_position!("?1"),
    " WHERE streams.id = ?1 AND head IS NOT NULL"
);

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
