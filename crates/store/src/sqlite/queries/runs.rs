//! Lists of runs of both kinds.

use rusqlite::ToSql;
use windlass_core::runs::{OWN_AGENT, RunStatus, turn_of_run};
use windlass_core::typed_id::TurnId;

use super::load::run_now;
use super::tables::{RUN, TURN, code, run, turn};
use crate::journal::StreamKey;
use crate::queries::{QueryError, RunRow, TurnRow};
use crate::runs::{RunFilter, RunKind, StoredRun, newest_of, run_stream};
use crate::sqlite::error::DbResult;
use crate::sqlite::numbers::int;
use crate::sqlite::queries::{QuerySnapshot, SqliteQueries};
use crate::sqlite::stores::runs::writer;

/// The table with the name of a turn's stream, which follows the turn's columns.
const TURNS: &str = "CROSS JOIN streams ON streams.id = turns.stream";

/// A part of a page: the newest rows of a status after a position. `?1` is the position, `?2` the limit, `?3` the status, `?4` the agent.
pub(super) fn page(kind: RunKind, by_agent: bool) -> String {
    let (index, condition) = if by_agent {
        ("by_agent", "agent = ?4 AND status = ?3")
    } else {
        ("by_status", "status = ?3")
    };
    match kind {
        RunKind::Turn => format!(
            "SELECT {TURN}, streams.key FROM turns INDEXED BY turns_{index} {TURNS} WHERE {condition} AND pruned = 0 \
             AND place < ?1 ORDER BY place DESC LIMIT ?2"
        ),
        RunKind::Reported => {
            let rows = RUN.replacen(
                "FROM runs",
                &format!("FROM runs INDEXED BY runs_{index}"),
                1,
            );
            format!(
                "SELECT {rows} WHERE {condition} AND position < ?1 ORDER BY position DESC LIMIT ?2"
            )
        }
    }
}

impl QuerySnapshot<'_> {
    pub(super) fn runs(&self, filter: &RunFilter, limit: usize) -> DbResult<Vec<RunRow>> {
        let mut found = Vec::new();
        if filter.kind != Some(RunKind::Reported) {
            self.add_turns(filter, limit, &mut found)?;
        }
        if filter.kind != Some(RunKind::Turn) {
            self.add_reported(filter, limit, &mut found)?;
        }
        Ok(newest_of(found, limit))
    }

    fn add_turns(&self, filter: &RunFilter, limit: usize, found: &mut Vec<RunRow>) -> DbResult<()> {
        let newer = &self.newer.turns;
        for (stream, turn) in newer.values() {
            if filter.wants_turn(turn) && self.exists(*stream)? {
                found.push(RunRow::Turn(turn.run()));
            }
        }
        // Turns of sessions without an agent have an empty name in the table.
        let agent = filter.agent_id.as_deref();
        let agent = agent.map(|agent| if agent == OWN_AGENT { "" } else { agent });
        let fetched = limit.saturating_add(newer.len());
        self.pages((RunKind::Turn, filter, agent), fetched, |row| {
            let key = StreamKey::new(row.get::<_, String>(13)?);
            let turn = turn(row, &key)?;
            if !newer.contains_key(&turn.position) {
                found.push(RunRow::Turn(turn.run()));
            }
            Ok(())
        })
    }

    fn add_reported(
        &self,
        filter: &RunFilter,
        limit: usize,
        found: &mut Vec<RunRow>,
    ) -> DbResult<()> {
        let newer = &self.newer.runs;
        for stored in newer.values() {
            let summary = &stored.summary;
            let is_wanted = filter.wants(stored.position, &summary.agent_id, summary.status);
            if is_wanted && self.exists(stored.stream)? {
                found.push(RunRow::Reported(self.with_writer(stored)?));
            }
        }
        let agent = filter.agent_id.as_deref();
        let fetched = limit.saturating_add(newer.len());
        self.pages((RunKind::Reported, filter, agent), fetched, |row| {
            let stored = run(row)?;
            if !newer.contains_key(&stored.stream) {
                found.push(RunRow::Reported(stored));
            }
            Ok(())
        })
    }

    /// Visits the newest rows of each requested status.
    fn pages(
        &self,
        (kind, filter, agent): (RunKind, &RunFilter, Option<&str>),
        limit: usize,
        mut each: impl FnMut(&rusqlite::Row<'_>) -> DbResult<()>,
    ) -> DbResult<()> {
        let before = filter.before.map_or(i64::MAX, int);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        for status in filter.statuses() {
            let query = page(kind, agent.is_some());
            let status = code(&RunStatus::ALL, &status);
            let all: [&dyn ToSql; 4] = [&before, &limit, &status, &agent];
            let mut statement = self.db.prepare_cached(&query)?;
            let count = statement.parameter_count();
            let mut rows = statement.query(&all[..count])?;
            while let Some(row) = rows.next()? {
                each(row)?;
            }
        }
        Ok(())
    }

    /// Returns a run with its current writer, which may have changed since the newest record.
    fn with_writer(&self, stored: &StoredRun) -> DbResult<StoredRun> {
        let (epoch, client) = writer(&self.db, stored.stream)?;
        Ok(StoredRun {
            epoch,
            client,
            ..stored.clone()
        })
    }

    pub(super) fn run(&self, run_id: &str) -> DbResult<Option<RunRow>> {
        if let Some(id) = turn_of_run(run_id)
            && let Some(turn) = self.run_of_turn(id)?
        {
            return Ok(Some(RunRow::Turn(turn.run())));
        }
        let found = run_now(&self.db, &self.newer, &run_stream(run_id))?;
        let found = found.map(|stored| self.with_writer(&stored)).transpose()?;
        Ok(found.map(RunRow::Reported))
    }

    fn run_of_turn(&self, id: TurnId) -> DbResult<Option<TurnRow>> {
        let fresh = self.newer.turns.values().rev();
        for (stream, turn) in fresh.filter(|(_, turn)| turn.view.id == id) {
            if self.exists(*stream)? {
                return Ok(Some((**turn).clone()));
            }
        }
        let mut statement = self.db.prepare_cached(&format!(
            "SELECT {TURN}, streams.key FROM turns INDEXED BY turns_by_turn {TURNS} WHERE turn = ?1 AND pruned = 0 \
             ORDER BY place DESC LIMIT 1"
        ))?;
        let mut rows = statement.query([id.uuid().into_bytes()])?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        let key = StreamKey::new(row.get::<_, String>(13)?);
        turn(row, &key).map(Some)
    }
}

impl SqliteQueries {
    /// Returns externally reported runs that ended before a time, the oldest first.
    pub(crate) async fn old_runs(
        &self,
        before: i64,
        limit: usize,
    ) -> Result<Vec<StreamKey>, QueryError> {
        self.ask(move |look| look.old_runs(before, limit)).await
    }
}

impl QuerySnapshot<'_> {
    fn old_runs(&self, before: i64, limit: usize) -> DbResult<Vec<StreamKey>> {
        let mut old = Vec::new();
        for stored in self.newer.runs.values() {
            let ended_at = stored.summary.ended_at.map(|at| at.timestamp_micros());
            if let Some(at) = ended_at.filter(|at| *at < before)
                && self.exists(stored.stream)?
            {
                old.push((at, run_stream(&stored.summary.run_id)));
            }
        }
        let mut statement = self.db.prepare_cached(OLD)?;
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map((before, most), |row| {
            Ok((row.get(0)?, StreamKey::new(row.get::<_, String>(1)?)))
        })?;
        for row in rows {
            old.push(row?);
        }
        // One that was just written may be in both.
        old.sort_unstable();
        old.dedup();
        old.truncate(limit);
        Ok(old.into_iter().map(|(_, key)| key).collect())
    }
}

pub(super) const OLD: &str = "SELECT ended_at, streams.key FROM runs INDEXED BY runs_by_end \
     CROSS JOIN streams ON streams.id = runs.stream WHERE ended_at < ?1 ORDER BY ended_at LIMIT ?2";
