//! Rows that nobody can reach, or that cannot be.

use rusqlite::Connection;

use super::error::Fault;
use super::findings::Finding;
use super::numbers::uint;
use super::schema::{FORKS, OPEN_STREAMS, PROJECTIONS, RUNS, TURN_RUNS, VERSION, version};
use super::spans::newest_position;

/// What is wrong, and how many rows of it there are.
type Orphans = (&'static str, &'static str);

/// Streams that are there.
const STREAMS: &str = "SELECT id FROM streams";

/// Streams that are there, or are kept for their forks.
const ALL: &str = "SELECT id FROM streams UNION ALL SELECT stream FROM kept";

/// The same with those that are being taken out.
const ALL_AND_LEFTOVERS: &str = "SELECT id FROM streams UNION ALL SELECT stream FROM kept UNION ALL SELECT stream FROM removing";

/// Returns a query as it must be for a database of a version.
fn of_version(query: &str, version: u32) -> String {
    let query = match version {
        ..FORKS => query.to_owned(),
        FORKS..OPEN_STREAMS => query.replace(STREAMS, ALL),
        _ => query.replace(STREAMS, ALL_AND_LEFTOVERS),
    };
    match version < OPEN_STREAMS {
        true => query.replace(NOT_REMOVED, "1"),
        false => query,
    }
}

/// Rows of streams that are being taken out are no orphans.
const NOT_REMOVED: &str = "stream NOT IN (SELECT stream FROM removing)";

const ORPHANS: [Orphans; 5] = [
    (
        "records belong to no stream",
        "SELECT count(*) FROM records WHERE stream NOT IN (SELECT id FROM streams)",
    ),
    (
        "records have no place in their stream",
        "SELECT count(*) FROM records WHERE NOT EXISTS \
         (SELECT 1 FROM spans AS span WHERE span.stream = records.stream \
         AND last BETWEEN seq AND 63 + seq AND last - count < seq AND last - seq = span.position - records.position) \
         AND NOT EXISTS (SELECT 1 FROM recent_spans AS span WHERE span.stream = records.stream \
         AND last BETWEEN seq AND 63 + seq AND last - count < seq AND last - seq = span.position - records.position)",
    ),
    (
        "places in streams are those of no record",
        "SELECT coalesce(sum(count - (SELECT count(*) FROM records \
         WHERE records.position BETWEEN span.position - count + 1 AND span.position \
         AND records.stream = span.stream AND last - seq = span.position - records.position)), 0) \
         FROM (SELECT * FROM spans UNION ALL SELECT * FROM recent_spans) AS span",
    ),
    (
        "pruned ranges belong to no stream",
        "SELECT count(*) FROM pruned WHERE stream NOT IN (SELECT id FROM streams)",
    ),
    (
        "blobs are named by no record",
        "SELECT count(*) FROM blobs WHERE NOT EXISTS \
         (SELECT 1 FROM records WHERE form = 1 AND body = blobs.hash)",
    ),
];

const PROJECTION_ORPHANS: [Orphans; 5] = [
    (
        "rows of threads belong to no stream",
        "SELECT count(*) FROM threads WHERE stream NOT IN (SELECT id FROM streams)",
    ),
    (
        "batches of rows belong to no stream",
        "SELECT count(*) FROM batches WHERE stream NOT IN (SELECT id FROM streams)",
    ),
    (
        "rows of turns belong to no batch",
        "SELECT count(*) FROM turns WHERE key >> 32 NOT IN (SELECT batch FROM batches)",
    ),
    (
        "rows of items belong to no batch",
        "SELECT count(*) FROM items WHERE key >> 32 NOT IN (SELECT batch FROM batches)",
    ),
    (
        "rows of messages belong to no batch",
        "SELECT count(*) FROM messages WHERE key >> 32 NOT IN (SELECT batch FROM batches)",
    ),
];

const FORK_ORPHANS: [Orphans; 3] = [
    (
        "forks belong to no stream",
        "SELECT count(*) FROM forks WHERE stream NOT IN (SELECT id FROM streams)",
    ),
    (
        "removed streams are kept for no fork",
        "SELECT count(*) FROM kept WHERE stream NOT IN (SELECT parent FROM forks)",
    ),
    (
        "marks belong to no stream",
        "SELECT count(*) FROM marks WHERE key >> 32 NOT IN (SELECT id FROM streams)",
    ),
];

const RUN_ORPHANS: [Orphans; 2] = [
    (
        "rows of runs belong to no run",
        "SELECT count(*) FROM runs WHERE NOT EXISTS (SELECT 1 FROM records JOIN streams ON id = records.stream \
         WHERE records.position = runs.position AND records.stream = runs.stream AND records.seq = 1)",
    ),
    (
        "runs are in a state that cannot be",
        "SELECT count(*) FROM runs WHERE (status = 'in_progress') = (ended_at IS NOT NULL) \
         OR (status = 'completed') = (outcome IS NULL)",
    ),
];

const TURN_RUN_ORPHANS: [Orphans; 3] = [
    (
        "rows of turns as runs belong to no record",
        "SELECT count(*) FROM turn_runs WHERE stream NOT IN (SELECT stream FROM removing) \
         AND NOT EXISTS (SELECT 1 FROM records JOIN streams ON id = records.stream \
         WHERE records.position = turn_runs.position AND records.stream = turn_runs.stream AND records.seq = first)",
    ),
    (
        "turns as runs are in a state that cannot be",
        "SELECT count(*) FROM turn_runs WHERE (status = 0) = (ended_at IS NOT NULL) \
         OR (status = 1) = (outcome IS NULL)",
    ),
    (
        "rows of owners belong to no stream",
        "SELECT count(*) FROM owners WHERE stream NOT IN (SELECT id FROM streams)",
    ),
];

/// Whoever goes on after a start would not find them.
const UNKNOWN_AS_OPEN: Orphans = (
    "streams with an open turn are not listed as such; rebuild the store",
    concat!(
        "SELECT count(*) FROM streams CROSS JOIN records AS newest ON newest.position = ",
        newest_position!("streams.id"),
        " WHERE newest.open_from > 0 AND id NOT IN (SELECT stream FROM open_streams) \
         AND id NOT IN (SELECT stream FROM recent_spans)"
    ),
);

/// Removes rows of projections that belong to nothing.
pub(super) fn remove_orphans(connection: &Connection) -> Result<(), Fault> {
    let of_runs = [&RUN_ORPHANS[0], &TURN_RUN_ORPHANS[0], &TURN_RUN_ORPHANS[2]];
    for (_, query) in PROJECTION_ORPHANS.iter().chain(of_runs) {
        let delete = query.replacen("SELECT count(*)", "DELETE", 1);
        connection.execute(&of_version(&delete, VERSION), [])?;
    }
    Ok(())
}

/// Looks for rows that nobody can reach.
pub(super) fn orphans(reader: &Connection) -> Result<Vec<Finding>, Fault> {
    let version = version(reader)?;
    let mut queries = ORPHANS.to_vec();
    if version >= PROJECTIONS {
        queries.extend(PROJECTION_ORPHANS);
    }
    if version >= RUNS {
        queries.extend(RUN_ORPHANS);
    }
    if version >= FORKS {
        queries.extend(FORK_ORPHANS);
    }
    if version >= TURN_RUNS {
        queries.extend(TURN_RUN_ORPHANS);
    }
    if version >= OPEN_STREAMS {
        queries.push(UNKNOWN_AS_OPEN);
    }
    let mut findings = Vec::new();
    for (what, query) in queries {
        let query = of_version(query, version);
        match reader.query_row(&query, [], |row| uint(row, 0)) {
            Ok(0) => {}
            Ok(count) => findings.push(Finding::general(format!("{count} {what}"))),
            Err(error) => findings.push(Finding::general(error.to_string())),
        }
    }
    Ok(findings)
}
