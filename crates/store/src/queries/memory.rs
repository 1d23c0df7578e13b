//! Queries in memory: each one scans the streams.

use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::runs::turn_of_run;
use windlass_core::typed_id::{ExecId, TurnId};

use super::usage::TurnUsage;
use super::{
    Counts, Listed, Order, Queries, QueryError, RunRow, ThreadDetail, ThreadOutline, ThreadQuery,
    ThreadRow, ThreadState, TurnDetail, TurnQuery, TurnRow, UsageQuery, UsageReport, WaitRow,
};
use crate::cursor::{CursorError, CursorKind};
use crate::journal::memory::stream::MemoryStream;
use crate::journal::{MemoryJournal, StreamKey};
use crate::runs::{MemoryRunLog, RunFilter, RunKind, newest_of};

/// Answers about a journal and a log of runs in memory.
#[derive(Debug, Clone)]
pub struct MemoryQueries {
    journal: Arc<MemoryJournal>,
    runs: Arc<MemoryRunLog>,
}

impl MemoryQueries {
    /// Answers about both.
    #[must_use]
    pub fn new(journal: Arc<MemoryJournal>, runs: Arc<MemoryRunLog>) -> Self {
        Self { journal, runs }
    }

    fn cursor(&self, list: CursorKind, key: (i64, u64)) -> String {
        let journal = &self.journal;
        journal.cursors().write(list, journal.position(), key)
    }

    fn decode_cursor(
        &self,
        list: CursorKind,
        cursor: Option<&String>,
    ) -> Result<Option<(i64, u64)>, CursorError> {
        let (journal, upto) = (&self.journal, self.journal.position());
        let read = |cursor: &String| journal.cursors().read(list, upto, cursor);
        cursor.map(read).transpose()
    }

    /// Collects something of each stream.
    fn collect<T>(&self, mut of: impl FnMut(u64, &mut MemoryStream, &mut Vec<T>)) -> Vec<T> {
        let mut found = Vec::new();
        let each = |number, stream: &mut MemoryStream| of(number, stream, &mut found);
        self.journal.each_stream(each);
        found
    }

    fn outline(&self, stream: &mut MemoryStream, newest: usize) -> Option<ThreadOutline> {
        let thread = stream.rows().thread().cloned()?;
        let mut turns = turns_of(stream);
        let older = turns.len().saturating_sub(newest);
        let turns = turns.split_off(older);
        let first = turns.first().map_or(thread.seq + 1, |row| row.first_seq);
        Some(ThreadOutline {
            older: (older > 0).then(|| self.cursor(CursorKind::Turns, (0, first))),
            thread,
            turns,
        })
    }

    fn turn_runs(&self, filter: &RunFilter) -> Vec<RunRow> {
        self.collect(|_, stream, found| {
            let turns = stream.rows().turns();
            let wanted = turns.filter(|turn| filter.wants_turn(turn));
            found.extend(wanted.map(|turn| RunRow::Turn(turn.run())));
        })
    }
}

/// Returns all turns that a stream shows, the oldest first.
fn turns_of(stream: &mut MemoryStream) -> Vec<TurnRow> {
    let mut turns = stream.shared_turns();
    turns.extend(stream.rows().turns().cloned());
    turns
}

#[async_trait]
impl Queries for MemoryQueries {
    async fn threads(&self, query: ThreadQuery) -> Result<Listed<ThreadRow>, QueryError> {
        let after = self.decode_cursor(CursorKind::Threads, query.after.as_ref())?;
        let key = |number, thread: &ThreadRow| (thread.updated_at.timestamp_micros(), number);
        let found = self.collect(|number, stream, found| {
            if let Some(thread) = stream.rows().thread()
                && query.matches(thread)
                && after.is_none_or(|after| key(number, thread) < after)
            {
                found.push((key(number, thread), thread.clone()));
            }
        });
        Ok(Listed::descending(found, query.limit, |key| {
            self.cursor(CursorKind::Threads, key)
        }))
    }

    async fn thread(&self, stream: &StreamKey) -> Result<Option<ThreadRow>, QueryError> {
        let thread = |stream: &mut MemoryStream| stream.rows().thread().cloned();
        Ok(self.journal.look_at(stream, thread).flatten())
    }

    async fn turns(&self, query: TurnQuery) -> Result<Listed<TurnRow>, QueryError> {
        let after = self.decode_cursor(CursorKind::Turns, query.after.as_ref())?;
        let found = self.journal.look_at(&query.stream, turns_of);
        let mut turns = found.unwrap_or_default();
        turns.retain(|turn| query.upto.is_none_or(|upto| turn.first_seq <= upto));
        if query.order == Order::NewestFirst {
            turns.reverse();
        }
        if let Some((_, after)) = after {
            turns.retain(|turn| match query.order {
                Order::NewestFirst => turn.first_seq < after,
                Order::OldestFirst => turn.first_seq > after,
            });
        }
        Ok(Listed::cut(turns, query.limit, |turn| {
            self.cursor(CursorKind::Turns, (0, turn.first_seq))
        }))
    }

    async fn turn(
        &self,
        stream: &StreamKey,
        turn_id: TurnId,
    ) -> Result<Option<TurnRow>, QueryError> {
        let turns = self.journal.look_at(stream, turns_of).unwrap_or_default();
        let mut turns = turns.into_iter();
        Ok(turns.rfind(|turn| turn.view.id == turn_id))
    }

    async fn turn_detail(
        &self,
        stream: &StreamKey,
        turn_id: TurnId,
    ) -> Result<Option<TurnDetail>, QueryError> {
        let detail = |stream: &mut MemoryStream| {
            let mut turns = turns_of(stream).into_iter();
            let row = turns.rfind(|turn| turn.view.id == turn_id)?;
            Some(stream.detail(row))
        };
        Ok(self.journal.look_at(stream, detail).flatten())
    }

    async fn thread_detail(
        &self,
        stream: &StreamKey,
        newest: usize,
    ) -> Result<Option<ThreadDetail>, QueryError> {
        let detail = |stream: &mut MemoryStream| {
            let outline = self.outline(stream, newest)?;
            let details = outline.turns.into_iter().map(|row| stream.detail(row));
            Some(ThreadDetail {
                turns: details.collect(),
                thread: outline.thread,
                older: outline.older,
            })
        };
        Ok(self.journal.look_at(stream, detail).flatten())
    }

    async fn thread_outline(
        &self,
        stream: &StreamKey,
        newest: usize,
    ) -> Result<Option<ThreadOutline>, QueryError> {
        let outline = |stream: &mut MemoryStream| self.outline(stream, newest);
        Ok(self.journal.look_at(stream, outline).flatten())
    }

    async fn waits(&self, stream: Option<&StreamKey>) -> Result<Vec<WaitRow>, QueryError> {
        let mut found = self.collect(|number, it, found| {
            if stream.is_none_or(|stream| *stream == it.key) {
                let waits = it.rows().waits().values().filter(|wait| wait.is_open);
                found.extend(waits.map(|wait| (number, wait.clone())));
            }
        });
        found.sort_unstable_by_key(|(number, wait)| (*number, wait.seq));
        Ok(found.into_iter().map(|(_, wait)| wait).collect())
    }

    async fn wait(&self, exec_id: ExecId) -> Result<Option<WaitRow>, QueryError> {
        let found = self.collect(|_, stream, found| {
            found.extend(stream.rows().waits().get(&exec_id).cloned());
        });
        Ok(found.into_iter().next())
    }

    async fn usage(&self, query: UsageQuery) -> Result<UsageReport, QueryError> {
        let mut report = UsageReport::default();
        let add = |turn: &TurnUsage| report.add_turn(&query, turn);
        self.journal.each_usage(add);
        Ok(report)
    }

    async fn runs(&self, filter: RunFilter, limit: usize) -> Result<Vec<RunRow>, QueryError> {
        let mut runs = match filter.kind {
            Some(RunKind::Reported) => Vec::new(),
            _ => self.turn_runs(&filter),
        };
        if filter.kind != Some(RunKind::Turn) {
            let reported = self.runs.rows(&filter, limit).into_iter();
            runs.extend(reported.map(RunRow::Reported));
        }
        Ok(newest_of(runs, limit))
    }

    async fn run(&self, run_id: &str) -> Result<Option<RunRow>, QueryError> {
        if let Some(turn_id) = turn_of_run(run_id) {
            let found = self.collect(|_, stream, found| {
                let mut turns = stream.rows().turns();
                found.extend(
                    turns
                        .rfind(|turn| turn.view.id == turn_id)
                        .map(TurnRow::run),
                );
            });
            if let Some(turn) = found.into_iter().next() {
                return Ok(Some(RunRow::Turn(turn)));
            }
        }
        Ok(self.runs.find(run_id).map(RunRow::Reported))
    }

    async fn counts(&self) -> Result<Counts, QueryError> {
        let mut counts = Counts::default();
        self.journal.each_stream(|_, stream| {
            if let Some(thread) = stream.rows().thread() {
                counts.add(thread);
            }
        });
        Ok(counts)
    }
}

impl Counts {
    fn add(&mut self, thread: &ThreadRow) {
        let group = match (&thread.record, thread.is_archived()) {
            (None, _) => &mut self.unrecorded,
            (Some(_), true) => &mut self.archived,
            (Some(_), false) => &mut self.current,
        };
        *group += 1;
        self.open += u64::from(thread.state != ThreadState::Idle);
        self.waiting += u64::from(thread.state == ThreadState::Waiting);
    }
}
