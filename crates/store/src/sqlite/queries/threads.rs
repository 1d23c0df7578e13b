//! Lists of threads.

use rusqlite::ToSql;

use super::QuerySnapshot;
use super::tables::{
    ARCHIVED, CURRENT, THREAD, THREADS, UNRECORDED, find_thread, is_damaged, thread,
};
use crate::cursor::{CursorKind, Key};
use crate::journal::StreamKey;
use crate::queries::{Include, Listed, ThreadQuery, ThreadRow, ThreadState};
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::{DbResult, SqliteError};
use crate::sqlite::journal::find;
use crate::sqlite::numbers::{int, uint};

/// A key before the whole list.
const START: Key = (i64::MAX, i64::MAX as u64);

fn key(stream: u64, thread: &ThreadRow) -> Key {
    (thread.updated_at.timestamp_micros(), stream)
}

/// Returns the kinds of rows that a query includes.
fn kinds(include: Include) -> &'static [i64] {
    match include {
        Include::Current => &[CURRENT],
        Include::Archived => &[ARCHIVED],
        Include::Recorded => &[CURRENT, ARCHIVED],
        Include::All => &[CURRENT, ARCHIVED, UNRECORDED],
    }
}

/// Returns the rows of one kind after a position, in their order: `?1` is the kind, `?2` and `?3` the position, `?4` the agent.
pub(super) fn walk(query: &ThreadQuery) -> String {
    let is_open_only = !query.states.is_empty() && !query.states.contains(&ThreadState::Idle);
    let (index, condition) = match (&query.agent, is_open_only) {
        (Some(_), _) => ("threads_by_agent", "agent = ?4 AND kind = ?1"),
        (None, true) => ("threads_open", "kind = ?1 AND state > 0"),
        (None, false) => ("threads_by_time", "kind = ?1"),
    };
    let threads = THREADS.replacen("threads", &format!("threads INDEXED BY {index}"), 1);
    format!(
        "SELECT {THREAD} FROM {threads} WHERE {condition} AND (updated_at, threads.stream) < (?2, ?3) \
         ORDER BY updated_at DESC, threads.stream DESC"
    )
}

impl QuerySnapshot<'_> {
    pub(super) fn threads(&self, query: &ThreadQuery) -> DbResult<Listed<ThreadRow>> {
        let after = self.decode_cursor(CursorKind::Threads, query.after.as_ref())?;
        let after = after.unwrap_or(START);
        let wanted = query.limit.saturating_add(1);
        let mut found = Vec::new();
        for (stream, row) in &self.newer.threads {
            if key(*stream, row) < after && query.matches(row) && self.exists(*stream)? {
                found.push((key(*stream, row), (**row).clone()));
            }
        }
        for kind in kinds(query.include) {
            self.walk(query, *kind, after, wanted, &mut found)?;
        }
        Ok(Listed::descending(found, query.limit, |key| {
            self.cursor(CursorKind::Threads, key)
        }))
    }

    /// Adds the first rows of a kind that are wanted.
    fn walk(
        &self,
        query: &ThreadQuery,
        kind: i64,
        after: Key,
        wanted: usize,
        found: &mut Vec<(Key, ThreadRow)>,
    ) -> DbResult<()> {
        let mut statement = self.db.prepare_cached(&walk(query))?;
        let stream_after = int(after.1);
        let parameters: [&dyn ToSql; 4] = [&kind, &after.0, &stream_after, &query.agent];
        let count = statement.parameter_count();
        let mut rows = statement.query(&parameters[..count])?;
        let mut left = wanted;
        while left > 0
            && let Some(row) = rows.next()?
        {
            let stream = uint(row, 0)?;
            if self.newer.threads.contains_key(&stream) {
                continue;
            }
            let thread = match thread(row) {
                // A damaged row does not hide others.
                Err(error) if is_damaged(&error) => {
                    let error = SqliteError::from(error);
                    tracing::warn!(%error, "a thread is not listed; rebuild its rows (`windlass store rebuild`)");
                    continue;
                }
                thread => thread?,
            };
            if query.matches(&thread) {
                found.push((key(stream, &thread), thread));
                left -= 1;
            }
        }
        Ok(())
    }

    pub(super) fn thread(&self, key: &StreamKey) -> DbResult<Option<ThreadRow>> {
        let Some(found) = find(&self.db, key)? else {
            return Ok(None);
        };
        match self.newer.threads.get(&found.stream) {
            Some(thread) => Ok(Some((**thread).clone())),
            None => find_thread(&self.db, found.stream),
        }
    }

    /// Returns whether a folded stream still exists.
    pub(super) fn exists(&self, stream: u64) -> DbResult<bool> {
        Ok(self
            .db
            .has_rows("SELECT 1 FROM streams WHERE id = ?1", [int(stream)])?)
    }
}
