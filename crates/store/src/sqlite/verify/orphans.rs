//! Rows that are unreachable or inconsistent.

use rusqlite::Connection;

use super::verify_report::Finding;
use crate::sqlite::error::DbResult;
use crate::sqlite::journal::spans::newest_position;
use crate::sqlite::numbers::first_number;

/// A description, and a query that counts the rows.
type Orphans = (&'static str, &'static str);

/// The streams of the database, by row ID.
const STREAMS: &str = "SELECT id FROM streams";

/// Streams that exist, are retained for their forks, or are being deleted.
const ALL: &str = "SELECT id FROM streams UNION ALL SELECT stream FROM kept UNION ALL SELECT stream FROM removing";

const ORPHANS: [Orphans; 5] = [
    (
        "records belong to no stream",
        "SELECT count(*) FROM records WHERE stream NOT IN (SELECT id FROM streams)",
    ),
    (
        "records have no span in their stream",
        "SELECT count(*) FROM records WHERE NOT EXISTS \
         (SELECT 1 FROM spans AS span WHERE span.stream = records.stream \
         AND last BETWEEN seq AND 63 + seq AND last - count < seq AND last - seq = span.position - records.position)",
    ),
    (
        "spans refer to no record",
        "SELECT coalesce(sum(count - (SELECT count(*) FROM records \
         WHERE records.position BETWEEN span.position - count + 1 AND span.position \
         AND records.stream = span.stream AND last - seq = span.position - records.position)), 0) \
         FROM spans AS span",
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

const FORK_ORPHANS: [Orphans; 2] = [
    (
        "forks belong to no stream",
        "SELECT count(*) FROM forks WHERE stream NOT IN (SELECT id FROM streams)",
    ),
    (
        "removed streams are retained for no fork",
        "SELECT count(*) FROM kept WHERE stream NOT IN (SELECT parent FROM forks)",
    ),
];

/// Rows of the read model. Forks show the rows of turns of a removed stream, and no others.
const ROW_ORPHANS: [Orphans; 6] = [
    (
        "rows of turns belong to no stream",
        "SELECT count(*) FROM turns WHERE stream NOT IN (SELECT id FROM streams)",
    ),
    (
        "rows of threads belong to no stream",
        "SELECT count(*) FROM threads WHERE NOT EXISTS (SELECT 1 FROM streams WHERE id = stream)",
    ),
    (
        "records of threads belong to no thread",
        "SELECT count(*) FROM thread_records WHERE stream NOT IN (SELECT stream FROM threads)",
    ),
    (
        "rows of waits belong to no stream",
        "SELECT count(*) FROM waits WHERE NOT EXISTS (SELECT 1 FROM streams WHERE id = stream)",
    ),
    (
        "rows of runs belong to no run",
        "SELECT count(*) FROM runs WHERE NOT EXISTS (SELECT 1 FROM records JOIN streams ON id = records.stream \
         WHERE records.position = runs.position AND records.stream = runs.stream AND records.seq = 1)",
    ),
    (
        "streams that are listed as open do not exist",
        "SELECT count(*) FROM open_streams WHERE NOT EXISTS (SELECT 1 FROM streams WHERE id = stream)",
    ),
];

/// Impossible values in rows that are reachable.
const IMPOSSIBLE: [Orphans; 3] = [
    (
        "runs are in an impossible state",
        "SELECT count(*) FROM runs WHERE (status = 0) = (ended_at IS NOT NULL) OR (status = 1) = (outcome IS NULL)",
    ),
    (
        "turns are in an impossible state",
        "SELECT count(*) FROM turns WHERE (status = 0) = (ended_at IS NOT NULL) OR (status = 1) = (outcome IS NULL)",
    ),
    // The resume at startup would not find them.
    (
        "streams with an open turn are not listed as such; rebuild the store",
        concat!(
            "SELECT count(*) FROM streams CROSS JOIN records AS newest ON newest.position = ",
            newest_position!("streams.id"),
            " WHERE newest.open_from > 0 AND newest.position <= (SELECT folded FROM state) \
             AND id NOT IN (SELECT stream FROM open_streams)"
        ),
    ),
];

/// Removes unreachable rows of the read model.
pub(crate) fn remove_orphans(db: &Connection) -> DbResult<()> {
    for (_, query) in ROW_ORPHANS {
        let delete = query.replacen("SELECT count(*)", "DELETE", 1);
        db.execute(&delete.replace(STREAMS, ALL), [])?;
    }
    Ok(())
}

/// Finds unreachable rows.
pub(crate) fn orphans(reader: &Connection) -> DbResult<Vec<Finding>> {
    let log = ORPHANS.iter().chain(&FORK_ORPHANS);
    let mut findings = Vec::new();
    for (what, query) in log.chain(&ROW_ORPHANS).chain(&IMPOSSIBLE) {
        let query = query.replace(STREAMS, ALL);
        match reader.query_row(&query, [], first_number) {
            Ok(0) => {}
            Ok(count) => findings.push(Finding::general(format!("{count} {what}"))),
            Err(error) => findings.push(Finding::general(error.to_string())),
        }
    }
    Ok(findings)
}
