//! The rows of runs, and how lists find them.

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, ToSql};
use windlass_core::runs::{OutcomeStatus, RunStatus, RunSummary};

use super::super::error::Fault;
use super::super::numbers::{int, uint};
use super::super::spans::at;
use super::super::times::time;
use crate::runs::{KeptRun, PREFIX, RunFilter, newest_of, run_stream};

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
        client: row.get(9)?,
        epoch: uint(row, 10)?,
        stream: uint(row, 11)?,
    })
}

/// Finds a run by the name of its stream.
pub(super) fn get(connection: &Connection, run_id: &str) -> Result<Option<KeptRun>, Fault> {
    let mut statement = connection.prepare_cached(&format!(
        "{ROW} WHERE runs.position = (SELECT position FROM placed WHERE {} AND stream = \
         (SELECT id FROM streams WHERE key = ?1))",
        at!("1")
    ))?;
    Ok(statement
        .query_row([run_stream(run_id).as_str()], from_row)
        .optional()?)
}

/// Looks up one page for each status that is wanted, and takes the newest of them.
pub(super) fn list(
    reader: &Connection,
    filter: &RunFilter,
    limit: usize,
) -> Result<Vec<KeptRun>, Fault> {
    let before = filter.before.map_or(i64::MAX, int);
    let count = i64::try_from(limit).unwrap_or(i64::MAX);
    if filter.agent_id.is_none() && filter.status.is_none() {
        return select(reader, "runs.position < ?1", &[&before, &count]);
    }
    let mut found = Vec::new();
    for status in filter.statuses() {
        let status = status.as_str();
        found.extend(match &filter.agent_id {
            Some(agent) => select(
                reader,
                "agent = ?1 AND status = ?2 AND runs.position < ?3",
                &[agent, &status, &before, &count],
            )?,
            None => select(
                reader,
                "status = ?1 AND runs.position < ?2",
                &[&status, &before, &count],
            )?,
        });
    }
    Ok(newest_of(found, limit))
}

/// The last parameter is the limit.
fn select(
    reader: &Connection,
    condition: &str,
    parameters: &[&dyn ToSql],
) -> Result<Vec<KeptRun>, Fault> {
    let limit = parameters.len();
    let mut statement = reader.prepare_cached(&format!(
        "{ROW} WHERE {condition} ORDER BY runs.position DESC LIMIT ?{limit}"
    ))?;
    let rows = statement.query_map(parameters, from_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}
