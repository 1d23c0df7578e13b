//! The index from streams to the positions of their records.
//!
//! The table of records grows only at its end. Records that are appended together are adjacent there, and one row refers to them: a span. So an
//! append writes one small row for many records. An index of all records would be many times as large.
//!
//! The view `placed` shows the records of spans. A query for a part of a stream uses [`from`], [`between`] or [`at`], so that SQLite reads only the
//! spans that can contain it. It sorts by [`IN_ORDER`], the order of the spans, and must select the columns that it sorts by ([`PLACED_COLUMNS`]).

use rusqlite::{CachedStatement, Connection};

use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::DbResult;
use crate::sqlite::numbers::{first_number, int, uint};
use crate::sqlite::write::writer::WriteContext;

/// The maximum number of records per span, so that few spans can contain a given number. The queries below depend on it.
const MAX_COUNT: u64 = 64;

/// The order of records in a stream.
pub(crate) const IN_ORDER: &str = "ORDER BY last, position";

/// The order of records in a stream, the newest first.
pub(crate) const NEWEST_FIRST: &str = "ORDER BY last DESC, position DESC";

/// The columns of `placed` that [`StoredRecord::from_row`](super::record::StoredRecord::from_row) reads, then the sort columns 5 (`last`) and
/// 6 (`position`), and the stream that contains the record.
pub(crate) const PLACED_COLUMNS: &str = "seq, version, form, chain, body, last, position, stream";

/// Names the records of `placed` from one number on.
macro_rules! from {
    ($first:literal) => {
        concat!("last >= ", $first, " AND seq >= ", $first)
    };
}

/// Names the records of `placed` from one number to another.
macro_rules! between {
    ($first:literal, $last:literal) => {
        concat!(
            "last BETWEEN ",
            $first,
            " AND 63 + ",
            $last,
            " AND first <= ",
            $last,
            " AND seq BETWEEN ",
            $first,
            " AND ",
            $last
        )
    };
}

/// Names the record of `placed` with a number.
macro_rules! at {
    ($seq:literal) => {
        $crate::sqlite::journal::spans::between!($seq, $seq)
    };
}

/// Names the position of a stream's newest record in a query; `$stream` is the stream there.
macro_rules! newest_position {
    ($stream:literal) => {
        concat!(
            "(SELECT position FROM spans WHERE stream = ",
            $stream,
            " ORDER BY last DESC LIMIT 1)"
        )
    };
}

/// Names the number of a stream's newest record in a query; it is NULL where there is none.
macro_rules! newest_seq {
    ($stream:literal) => {
        concat!("(SELECT max(last) FROM spans WHERE stream = ", $stream, ")")
    };
}

pub(crate) use {at, between, from, newest_position, newest_seq};

/// Adjacent records of one stream, at most [`MAX_COUNT`].
#[derive(Debug, Clone, Copy)]
struct Span {
    stream: u64,
    last: u64,
    position: u64,
    count: u64,
}

/// Writes the spans of new, consecutive records.
pub(crate) struct SpanWriter<'a> {
    insert: CachedStatement<'a>,
    /// The span that is not written yet.
    open: Option<Span>,
}

impl<'a> SpanWriter<'a> {
    pub(crate) fn new(db: &'a Connection) -> DbResult<Self> {
        let insert = "INSERT INTO spans (stream, last, position, count) VALUES (?1, ?2, ?3, ?4)";
        Ok(Self {
            insert: db.prepare_cached(insert)?,
            open: None,
        })
    }

    /// Adds the next record. It can be read once the span is [ended](Self::end).
    pub(crate) fn add(&mut self, (stream, seq): (u64, u64), position: u64) -> DbResult<()> {
        match &mut self.open {
            Some(span) if span.is_followed_by(stream, seq, position) => {
                (span.last, span.position) = (seq, position);
                span.count += 1;
            }
            _ => {
                self.end()?;
                self.open = Some(Span {
                    stream,
                    last: seq,
                    position,
                    count: 1,
                });
            }
        }
        Ok(())
    }

    /// Writes the span of the last records.
    pub(crate) fn end(&mut self) -> DbResult<()> {
        if let Some(span) = self.open.take() {
            let row = [span.stream, span.last, span.position, span.count];
            self.insert.execute(row.map(int))?;
        }
        Ok(())
    }
}

impl Span {
    fn is_followed_by(&self, stream: u64, seq: u64, position: u64) -> bool {
        let next = (self.stream, self.last + 1, self.position + 1);
        next == (stream, seq, position) && self.count < MAX_COUNT
    }
}

/// Returns the number of a stream's newest record; 0 where it has none.
pub(crate) fn newest(db: &Connection, stream: u64) -> DbResult<u64> {
    Ok(db.get_row(
        concat!("SELECT coalesce(", newest_seq!("?1"), ", 0)"),
        [int(stream)],
        first_number,
    )?)
}

/// Removes a range of records of a stream.
pub(crate) fn remove(db: &Connection, stream: u64, first: u64, last: u64) -> DbResult<()> {
    if last < first {
        return Ok(());
    }
    let range = [int(stream), int(first), int(last)];
    db
        .execute_cached(concat!(
            "DELETE FROM records WHERE position IN (SELECT position FROM placed WHERE stream = ?1 AND ",
            between!("?2", "?3"),
            ")"
        ), range)?;
    // The part of a span before the range becomes a separate span, the part after the range stays, and the rest is removed.
    let sql = "INSERT INTO spans SELECT stream, ?2 - 1, position - (last - ?2 + 1), count - (last - ?2 + 1) \
             FROM spans WHERE stream = ?1 AND last BETWEEN ?2 AND 63 + ?2 AND last - count + 1 < ?2";
    db.execute_cached(sql, [range[0], range[1]])?;
    let sql = "UPDATE spans SET count = last - ?2 \
             WHERE stream = ?1 AND last > ?2 AND last <= 63 + ?2 AND last - count + 1 <= ?2";
    db.execute_cached(sql, [range[0], range[2]])?;
    db.execute_cached(
        "DELETE FROM spans WHERE stream = ?1 AND last BETWEEN ?2 AND ?3",
        range,
    )?;
    Ok(())
}

/// Rebuilds the spans of all records.
pub(crate) fn rebuild(work: &mut WriteContext<'_>) -> DbResult<()> {
    work.state.heads.forget_all();
    fill(work.db)
}

/// Builds the spans in the order of the records. Of two records with the same number, the second gets no span; `verify` reports it.
fn fill(db: &Connection) -> DbResult<()> {
    db.execute("DELETE FROM spans", [])?;
    let mut spans = SpanWriter::new(db)?;
    // The current stream, and its highest number with a span: only lower numbers need a look-up.
    let (mut current, mut highest) = (None, 0);
    let mut statement =
        db.prepare("SELECT stream, seq, position FROM records ORDER BY position")?;
    let mut records = statement.query([])?;
    while let Some(record) = records.next()? {
        // A record that was changed to an impossible number gets no span.
        let (Ok(stream), Ok(seq)) = (uint(record, 0), uint(record, 1)) else {
            continue;
        };
        let position = uint(record, 2)?;
        if current != Some(stream) {
            spans.end()?;
            (current, highest) = (Some(stream), newest(db, stream)?);
        }
        if seq <= highest {
            spans.end()?;
            if has_span(db, stream, seq)? {
                continue;
            }
        }
        spans.add((stream, seq), position)?;
        highest = highest.max(seq);
    }
    spans.end()
}

fn has_span(db: &Connection, stream: u64, seq: u64) -> DbResult<bool> {
    let sql = "SELECT 1 FROM spans WHERE stream = ?1 AND last BETWEEN ?2 AND 63 + ?2 AND last - count < ?2";
    Ok(db.has_rows(sql, [int(stream), int(seq)])?)
}

#[cfg(test)]
mod tests;
