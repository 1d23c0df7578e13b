//! Listing turns as runs.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, ToSql};
use windlass_core::runs::RunStatus;
use windlass_core::typed_id::TurnId;

use super::super::error::Fault;
use super::super::journal::named;
use super::super::run_rows::{self, NewestRuns, Part, behind};
use super::super::schema::{TURN_RUNS, version};
use super::rows::{COLUMNS, code, read, stored_agent};
use super::tail::fold_tail;
use crate::journal::TurnRun;
use crate::journal::turn_runs::RunRow;
use crate::runs::RunFilter;

/// Lists turns, the one that began last first. A database of an earlier version that is only read has none.
pub(in super::super) fn list(
    reader: &Connection,
    newest: Option<&NewestRuns<RunRow>>,
    filter: &RunFilter,
    limit: usize,
) -> Result<Vec<TurnRun>, Fault> {
    if version(reader)? < TURN_RUNS {
        return Ok(Vec::new());
    }
    let agent = filter.agent_id.as_deref();
    let (transaction, rows) = run_rows::list(
        reader,
        newest,
        |reader| fold_tail(reader, &behind(reader)?),
        (filter, limit),
        |reader, part| page(reader, agent, part),
    )?;
    let mut runs = Vec::with_capacity(rows.len());
    for row in rows {
        runs.extend(run_of(&transaction, row)?);
    }
    Ok(runs)
}

fn run_of(reader: &Connection, row: RunRow) -> Result<Option<TurnRun>, Fault> {
    let name = named(reader, row.stream)?;
    Ok(name.map(|name| row.into_run(name)))
}

pub(super) fn page_query(condition: &str) -> String {
    format!("SELECT {COLUMNS} FROM turn_runs WHERE {condition} ORDER BY position DESC LIMIT ?2")
}

/// What a page is asked for, beside its beginning and its length.
pub(super) const CONDITIONS: [&str; 3] = [
    "position < ?1",
    "status = ?3 AND position < ?1",
    "agent = ?4 AND status = ?3 AND position < ?1",
];

fn page(reader: &Connection, agent: Option<&str>, part: &Part) -> Result<Vec<RunRow>, Fault> {
    let limit = i64::try_from(part.limit).unwrap_or(i64::MAX);
    let status = (part.status).map(|status| code(&RunStatus::ALL, &status));
    let agent = agent.map(stored_agent);
    let all: [&dyn ToSql; 4] = [&part.before, &limit, &status, &agent];
    let used = match (agent, status) {
        (Some(_), _) => 4,
        (None, Some(_)) => 3,
        (None, None) => 2,
    };
    let mut statement = reader.prepare_cached(&page_query(CONDITIONS[used - 2]))?;
    let rows = statement.query_map(&all[..used], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn turn_query() -> String {
    format!("SELECT {COLUMNS} FROM turn_runs WHERE turn = ?1")
}

/// Finds the run of a turn.
pub(in super::super) fn find(
    reader: &Connection,
    newest: Option<&NewestRuns<RunRow>>,
    turn: TurnId,
) -> Result<Option<TurnRun>, Fault> {
    if version(reader)? < TURN_RUNS {
        return Ok(None);
    }
    loop {
        let (found, generation) = match newest {
            Some(newest) => newest.find(|row| row.turn == turn),
            None => (None, 0),
        };
        let transaction = reader.unchecked_transaction()?;
        let stored = match &found {
            Some(_) => None,
            None => stored(&transaction, turn)?,
        };
        // Whoever only reads folds what is newer, unless the turn has ended: then it stays as it is.
        let is_final = |row: &RunRow| row.status != RunStatus::InProgress;
        let found = match (newest, found.or(stored)) {
            (None, stored) if !stored.as_ref().is_some_and(is_final) => {
                let rows = fold_tail(&transaction, &behind(&transaction)?)?;
                let newer = rows.into_values().rfind(|row| row.turn == turn);
                newer.map(Arc::unwrap_or_clone).or(stored)
            }
            (_, found) => found,
        };
        if newest.is_none_or(|newest| newest.generation() == generation) {
            return match found {
                Some(row) => run_of(&transaction, row),
                None => Ok(None),
            };
        }
    }
}

fn stored(reader: &Connection, turn: TurnId) -> Result<Option<RunRow>, Fault> {
    let mut statement = reader.prepare_cached(&turn_query())?;
    Ok(statement
        .query_row([turn.uuid().as_bytes()], read)
        .optional()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database with 10,000 turns of two agents, as SQLite knows it.
    fn database() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        for step in [
            include_str!("../schema/1.sql"),
            include_str!("../schema/7.sql"),
            "CREATE TEMP TABLE n AS WITH RECURSIVE n (x) AS \
             (SELECT 0 UNION ALL SELECT x + 1 FROM n WHERE x < 9999) SELECT x FROM n;
             INSERT INTO turn_runs SELECT x + 1, x % 100, CAST(x AS BLOB), 1, \
             CASE x % 2 WHEN 0 THEN '' ELSE 'a' END, 'i', x % 4, 0, 0, 0, 0, 1 FROM n;
             ANALYZE;",
        ] {
            connection.execute_batch(step).unwrap();
        }
        connection
    }

    #[test]
    fn no_query_scans_and_none_sorts() {
        let connection = database();
        let pages = CONDITIONS.map(page_query).into_iter();
        for query in pages.chain([turn_query()]) {
            let mut statement = connection
                .prepare(&format!("EXPLAIN QUERY PLAN {query}"))
                .unwrap();
            let nothing = vec![rusqlite::types::Null; statement.parameter_count()];
            let lines = statement
                .query_map(rusqlite::params_from_iter(nothing), |row| row.get(3))
                .unwrap();
            let plan: Vec<String> = lines.map(Result::unwrap).collect();
            let is_bad = |line: &String| line.contains("SCAN") || line.contains("TEMP B-TREE");
            assert!(
                !plan.is_empty() && !plan.iter().any(is_bad),
                "{query}: {plan:#?}"
            );
        }
    }
}
