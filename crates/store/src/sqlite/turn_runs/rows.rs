//! The rows, as they are stored.

use std::ops::RangeInclusive;
use std::sync::Arc;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, ToSql};
use uuid::Uuid;
use windlass_core::runs::{OWN_AGENT, OutcomeStatus, RunStatus};
use windlass_core::typed_id::TurnId;

use super::super::error::Fault;
use super::super::numbers::{int, uint};
use super::super::spans::between;
use crate::journal::turn_runs::{RunRow, Waiting};

/// The columns that [`read`] reads.
pub(super) const COLUMNS: &str = "turn_runs.position, turn_runs.stream, turn, first, agent, intent, status, outcome, \
     waiting, started_at, ended_at, turns";

/// Returns the place of a word in its list. A place that was given out keeps its meaning: new words come at the end.
pub(super) fn code<T: PartialEq>(all: &[T], word: &T) -> i64 {
    let place = all.iter().position(|known| known == word);
    place.map_or(-1, |place| place as i64)
}

fn word<T: Copy>(all: &[T], code: i64, column: usize) -> rusqlite::Result<T> {
    let word = usize::try_from(code).ok().and_then(|at| all.get(at));
    word.copied().ok_or_else(|| {
        let why = format!("{code} stands for nothing");
        rusqlite::Error::FromSqlConversionFailure(column, Type::Integer, why.into())
    })
}

/// Returns how the agent of a list is stored.
pub(super) fn stored_agent(agent: &str) -> &str {
    match agent == OWN_AGENT {
        true => "",
        false => agent,
    }
}

pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    let agent = row.get_ref(4)?.as_str()?;
    let outcome: Option<i64> = row.get(7)?;
    Ok(RunRow {
        position: uint(row, 0)?,
        stream: uint(row, 1)?,
        turn: TurnId::from_uuid(row.get(2).map(Uuid::from_bytes)?),
        first: uint(row, 3)?,
        agent: (!agent.is_empty()).then(|| Arc::from(agent)),
        intent: Arc::from(row.get_ref(5)?.as_str()?),
        status: word(&RunStatus::ALL, row.get(6)?, 6)?,
        outcome: outcome
            .map(|code| word(&OutcomeStatus::ALL, code, 7))
            .transpose()?,
        waiting: Waiting(row.get(8)?),
        started_at: row.get(9)?,
        ended_at: row.get(10)?,
        turns: uint(row, 11)?,
    })
}

/// Adds rows, or changes what can change in those that are there. `REPLACE` would do both, but keep a copy of every page in
/// case that it fails half-way.
pub(in super::super) fn put(
    connection: &Connection,
    rows: impl IntoIterator<Item = Arc<RunRow>>,
) -> Result<(), Fault> {
    let mut change = connection.prepare_cached(
        "UPDATE turn_runs SET agent = ?2, intent = ?3, status = ?4, outcome = ?5, waiting = ?6, started_at = ?7, \
         ended_at = ?8, turns = ?9 WHERE position = ?1",
    )?;
    let mut add = connection.prepare_cached(
        "INSERT INTO turn_runs (position, agent, intent, status, outcome, waiting, started_at, ended_at, turns, \
         stream, turn, first) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?;
    for row in rows {
        let outcome = row
            .outcome
            .map(|outcome| code(&OutcomeStatus::ALL, &outcome));
        let turn = row.turn.uuid();
        // What can change comes first.
        let values: [&dyn ToSql; 12] = [
            &int(row.position),
            &row.agent.as_deref().unwrap_or_default(),
            &row.intent,
            &code(&RunStatus::ALL, &row.status),
            &outcome,
            &row.waiting.0,
            &row.started_at,
            &row.ended_at,
            &int(row.turns),
            &int(row.stream),
            turn.as_bytes(),
            &int(row.first),
        ];
        if change.execute(&values[..9])? == 0 {
            add.execute(&values[..])?;
        }
    }
    Ok(())
}

/// Removes the rows of turns that began with one of these records, which must still be there.
pub(in super::super) fn remove(
    connection: &Connection,
    stream: u64,
    records: &RangeInclusive<u64>,
) -> Result<(), Fault> {
    connection
        .prepare_cached(concat!(
            "DELETE FROM turn_runs WHERE position IN (SELECT position FROM placed WHERE stream = ?1 AND ",
            between!("?2", "?3"),
            ")"
        ))?
        .execute([int(stream), int(*records.start()), int(*records.end())])?;
    Ok(())
}

/// Returns the agent that the session of a stream belongs to.
pub(super) fn owner(connection: &Connection, stream: u64) -> Result<Option<Arc<str>>, Fault> {
    let mut statement = connection.prepare_cached("SELECT agent FROM owners WHERE stream = ?1")?;
    let agent = statement.query_row([int(stream)], |row| {
        Ok(Arc::from(row.get_ref(0)?.as_str()?))
    });
    Ok(agent.optional()?)
}

pub(super) fn put_owner(
    connection: &Connection,
    stream: u64,
    agent: Option<&str>,
) -> Result<(), Fault> {
    let Some(agent) = agent else {
        return remove_owner(connection, stream);
    };
    connection
        .prepare_cached("REPLACE INTO owners (stream, agent) VALUES (?1, ?2)")?
        .execute((int(stream), agent))?;
    Ok(())
}

pub(in super::super) fn remove_owner(connection: &Connection, stream: u64) -> Result<(), Fault> {
    connection
        .prepare_cached("DELETE FROM owners WHERE stream = ?1")?
        .execute([int(stream)])?;
    Ok(())
}
