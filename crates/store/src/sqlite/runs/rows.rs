//! The rows of runs as they are stored, and how lists find them.

use std::borrow::Borrow;

use chrono::SubsecRound;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, ToSql};
use windlass_core::runs::{OutcomeStatus, RunStatus, RunSummary};

use super::super::error::Fault;
use super::super::numbers::{int, uint};
use super::super::run_rows::{self, NewestRuns, Part, Rows, behind};
use super::super::schema::{LATE_RUNS, version};
use super::super::spans::at;
use super::super::times::time;
use super::tail::{current, fold_tail};
use crate::journal::StreamKey;
use crate::runs::{KeptRun, PREFIX, RunFilter, run_stream};

/// `client` is a column of `streams`; in earlier versions it is one of `runs`.
const ROW: &str = "SELECT runs.position, streams.key, agent, intent, status, outcome, started_at, ended_at, turns, \
     client, streams.epoch, streams.id FROM runs JOIN streams ON streams.id = runs.stream";

fn from_row(row: &Row<'_>) -> rusqlite::Result<KeptRun> {
    let unknown = |column| {
        rusqlite::Error::InvalidColumnType(
            column,
            "a word that is not known".to_owned(),
            Type::Text,
        )
    };
    let key: String = row.get(1)?;
    let status = RunStatus::from_name(row.get_ref(4)?.as_str()?).ok_or_else(|| unknown(4))?;
    let outcome = match row.get_ref(5)?.as_str_or_null()? {
        Some(name) => Some(OutcomeStatus::from_name(name).ok_or_else(|| unknown(5))?),
        None => None,
    };
    let ended_at = match row.get::<_, Option<i64>>(7)? {
        Some(_) => Some(time(row, 7)?),
        None => None,
    };
    Ok(KeptRun {
        position: uint(row, 0)?,
        summary: RunSummary {
            run_id: key.strip_prefix(PREFIX).unwrap_or(&key).to_owned(),
            agent_id: row.get(2)?,
            intent: row.get(3)?,
            started_at: time(row, 6)?,
            ended_at,
            status,
            outcome,
            turn_count: uint(row, 8)?,
            session_id: None,
            waiting_for: Vec::new(),
        },
        client: row.get::<_, Option<String>>(9)?.unwrap_or_default(),
        epoch: uint(row, 10)?,
        stream: uint(row, 11)?,
    })
}

/// Rows keep times to the microsecond.
pub(super) fn as_stored(mut summary: RunSummary) -> RunSummary {
    summary.started_at = summary.started_at.trunc_subsecs(6);
    summary.ended_at = summary.ended_at.map(|at| at.trunc_subsecs(6));
    summary
}

/// Finds where a run begins: its stream, and the position of its first record.
pub(super) fn place(connection: &Connection, key: &StreamKey) -> Result<Option<(u64, u64)>, Fault> {
    let mut statement = connection.prepare_cached(concat!(
        "SELECT stream, position FROM placed WHERE ",
        at!("1"),
        " AND stream = (SELECT id FROM streams WHERE key = ?1)"
    ))?;
    let place = statement.query_row([key.as_str()], |row| Ok((uint(row, 0)?, uint(row, 1)?)));
    Ok(place.optional()?)
}

/// Reads the row at a position.
pub(super) fn stored(connection: &Connection, position: u64) -> Result<Option<KeptRun>, Fault> {
    let mut statement = connection.prepare_cached(&format!("{ROW} WHERE runs.position = ?1"))?;
    Ok(statement.query_row([int(position)], from_row).optional()?)
}

/// Reads the row of a run.
pub(super) fn written(connection: &Connection, key: &StreamKey) -> Result<Option<KeptRun>, Fault> {
    let place = place(connection, key)?;
    place.map_or(Ok(None), |(_, position)| stored(connection, position))
}

/// Finds a run.
pub(super) fn get(
    reader: &Connection,
    newest: Option<&NewestRuns<KeptRun>>,
    run_id: &str,
) -> Result<Option<KeptRun>, Fault> {
    let key = run_stream(run_id);
    let Some(newest) = newest else {
        let transaction = reader.unchecked_transaction()?;
        return match version(&transaction)? < LATE_RUNS {
            true => written(&transaction, &key),
            false => current(&transaction, &key),
        };
    };
    loop {
        let generation = newest.generation();
        let transaction = reader.unchecked_transaction()?;
        let position = place(&transaction, &key)?.map(|(_, position)| position);
        let found = match position.and_then(|position| newest.at(position)) {
            Some(run) => Some(run),
            None => position.map_or(Ok(None), |at| stored(&transaction, at))?,
        };
        if newest.generation() == generation {
            return Ok(found);
        }
    }
}

/// Lists runs, the newest first.
pub(super) fn list(
    reader: &Connection,
    newest: Option<&NewestRuns<KeptRun>>,
    filter: &RunFilter,
    limit: usize,
) -> Result<Vec<KeptRun>, Fault> {
    let tail = |reader: &Connection| match version(reader)? < LATE_RUNS {
        true => Ok(Rows::new()),
        false => fold_tail(reader, &behind(reader)?),
    };
    let agent = filter.agent_id.as_deref();
    let page = |reader: &Connection, part: &Part| page(reader, agent, part);
    let (_, runs) = run_rows::list(reader, newest, tail, (filter, limit), page)?;
    Ok(runs)
}

/// What a page is asked for, beside its beginning and its length.
const CONDITIONS: [&str; 3] = [
    "runs.position < ?1",
    "status = ?3 AND runs.position < ?1",
    "agent = ?4 AND status = ?3 AND runs.position < ?1",
];

fn page(reader: &Connection, agent: Option<&str>, part: &Part) -> Result<Vec<KeptRun>, Fault> {
    let limit = i64::try_from(part.limit).unwrap_or(i64::MAX);
    let status = part.status.map(|status| status.as_str());
    let all: [&dyn ToSql; 4] = [&part.before, &limit, &status, &agent];
    let used = match (agent, status) {
        (Some(_), _) => 4,
        (None, Some(_)) => 3,
        (None, None) => 2,
    };
    let mut statement = reader.prepare_cached(&format!(
        "{ROW} WHERE {} ORDER BY runs.position DESC LIMIT ?2",
        CONDITIONS[used - 2]
    ))?;
    let rows = statement.query_map(&all[..used], from_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Adds rows, or changes what can change in those that are there. Most are new, unlike those of turns, which come while their turns
/// go on.
pub(in super::super) fn put(
    connection: &Connection,
    runs: impl IntoIterator<Item = impl Borrow<KeptRun>>,
) -> Result<(), Fault> {
    let mut add = connection.prepare_cached(
        "INSERT OR IGNORE INTO runs (position, turns, status, outcome, ended_at, stream, agent, intent, started_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    let mut change = connection.prepare_cached(
        "UPDATE runs SET turns = ?2, status = ?3, outcome = ?4, ended_at = ?5 WHERE position = ?1",
    )?;
    for run in runs {
        let run = run.borrow();
        let summary = &run.summary;
        // What can change comes first.
        let values: [&dyn ToSql; 9] = [
            &int(run.position),
            &int(summary.turn_count),
            &summary.status.as_str(),
            &summary.outcome.map(|outcome| outcome.as_str()),
            &summary.ended_at.map(|at| at.timestamp_micros()),
            &int(run.stream),
            &summary.agent_id,
            &summary.intent,
            &summary.started_at.timestamp_micros(),
        ];
        if add.execute(&values[..])? == 0 {
            change.execute(&values[..5])?;
        }
    }
    Ok(())
}
