//! Reading a table together with the rows that are newer.

use std::cmp::Reverse;

use rusqlite::{Connection, Transaction};
use windlass_core::runs::RunStatus;

use super::super::error::Fault;
use super::super::numbers::int;
use super::newest::{Listed, NewestRuns, Rows, Selection};
use super::projected;
use crate::runs::RunFilter;

/// Which part of a table a list asks for: rows of a status, if it says one, before a position, and how many.
pub(crate) struct Part {
    pub(crate) status: Option<RunStatus>,
    pub(crate) before: i64,
    pub(crate) limit: usize,
}

/// Lists runs, the one that began last first. `part` reads the table; `tail` folds what is newer, where nobody remembers it.
/// Returns with the rows the state in which they were read.
pub(crate) fn list<'a, R: Listed>(
    reader: &'a Connection,
    newest: Option<&NewestRuns<R>>,
    tail: impl FnOnce(&Connection) -> Result<Rows<R>, Fault>,
    (filter, limit): (&RunFilter, usize),
    mut part: impl FnMut(&Connection, &Part) -> Result<Vec<R>, Fault>,
) -> Result<(Transaction<'a>, Vec<R>), Fault> {
    let (transaction, selection) = begin(reader, newest, tail, (filter, limit))?;
    let Selection {
        wanted: mut found,
        positions,
    } = selection;
    let statuses = match (&filter.agent_id, filter.status) {
        (_, Some(status)) => vec![Some(status)],
        (None, None) => vec![None],
        (Some(_), None) => RunStatus::ALL.map(Some).to_vec(),
    };
    for status in statuses {
        let mut next = Part {
            status,
            before: filter.before.map_or(i64::MAX, int),
            limit,
        };
        while next.limit > 0 {
            let rows = part(&transaction, &next)?;
            let is_last = rows.len() < next.limit;
            next.before = rows.last().map_or(0, |row| int(row.position()));
            let known = found.len();
            let rows = rows.into_iter();
            found.extend(rows.filter(|row| !positions.contains(&row.position())));
            next.limit -= found.len() - known;
            if is_last {
                break;
            }
        }
    }
    found.sort_unstable_by_key(|row| Reverse(row.position()));
    found.truncate(limit);
    Ok((transaction, found))
}

/// Begins to read a state of the table together with the rows that are newer.
fn begin<'a, R: Listed>(
    reader: &'a Connection,
    newest: Option<&NewestRuns<R>>,
    tail: impl FnOnce(&Connection) -> Result<Rows<R>, Fault>,
    (filter, limit): (&RunFilter, usize),
) -> Result<(Transaction<'a>, Selection<R>), Fault> {
    let Some(newest) = newest else {
        let transaction = reader.unchecked_transaction()?;
        let rows = tail(&transaction)?;
        return Ok((transaction, Selection::of(&rows, filter, limit)));
    };
    loop {
        let (selection, generation) = newest.select(filter, limit);
        let transaction = reader.unchecked_transaction()?;
        // The state that is read is that of the first query.
        projected(&transaction)?;
        if newest.generation() == generation {
            return Ok((transaction, selection));
        }
    }
}
