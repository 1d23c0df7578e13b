//! Streams with a turn that has not ended, for whoever takes them up at a start.
//!
//! Whether a turn is open follows from a stream's newest record. A row that follows it would cost each turn two more pages, so the
//! table is brought up to date only when the newest spans go to the large table, for the streams that have some. What is open is
//! thus in the table or has a span in the small one, and to find it costs as much as that is, however many streams there are.

use rusqlite::Connection;

use super::error::Fault;
use super::numbers::int;
use super::schema::{OPEN_STREAMS, version};
use super::spans::newest_position;
use crate::journal::StreamKey;

/// Brings the table up to date with the spans that are about to go to the large table.
pub(super) fn settle(connection: &Connection) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "DELETE FROM open_streams WHERE stream IN (SELECT stream FROM recent_spans)",
        )?
        .execute([])?;
    // The position is that of the row with the greatest number.
    connection
        .prepare_cached(
            "INSERT INTO open_streams SELECT newest.stream \
             FROM (SELECT stream, max(last), position FROM recent_spans GROUP BY stream) AS newest \
             CROSS JOIN records ON records.position = newest.position WHERE records.open_from > 0",
        )?
        .execute([])?;
    Ok(())
}

/// Makes the table anew.
pub(super) fn fill(connection: &Connection) -> Result<(), Fault> {
    connection.execute_batch(concat!(
        "DELETE FROM open_streams; INSERT INTO open_streams SELECT streams.id FROM streams \
         CROSS JOIN records AS newest ON newest.position = ",
        newest_position!("streams.id"),
        " WHERE newest.open_from > 0"
    ))?;
    Ok(())
}

/// Forgets a stream.
pub(super) fn remove(connection: &Connection, stream: u64) -> Result<(), Fault> {
    connection
        .prepare_cached("DELETE FROM open_streams WHERE stream = ?1")?
        .execute([int(stream)])?;
    Ok(())
}

const LIST: &str = concat!(
    "SELECT streams.key FROM (SELECT stream FROM open_streams UNION SELECT stream FROM recent_spans) AS known \
     CROSS JOIN streams ON streams.id = known.stream CROSS JOIN records AS newest ON newest.position = ",
    newest_position!("known.stream"),
    " WHERE newest.open_from > 0 ORDER BY streams.key"
);

/// The same for a database of an earlier version, which is only read.
const LIST_EARLIER: &str = concat!(
    "SELECT streams.key FROM streams CROSS JOIN records AS newest ON newest.position = ",
    newest_position!("streams.id"),
    " WHERE newest.open_from > 0 ORDER BY streams.key"
);

/// Lists the streams with a turn that has not ended.
pub(super) fn list(reader: &Connection) -> Result<Vec<StreamKey>, Fault> {
    let query = match version(reader)? < OPEN_STREAMS {
        true => LIST_EARLIER,
        false => LIST,
    };
    let mut statement = reader.prepare_cached(query)?;
    let names = statement.query_map([], |row| Ok(StreamKey::new(row.get::<_, String>(0)?)))?;
    Ok(names.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::super::connect::Location;
    use super::super::owner::Owner;
    use super::super::schema;
    use super::*;

    #[test]
    fn the_list_of_open_streams_looks_at_no_other_streams() {
        let directory = tempfile::tempdir().unwrap();
        let location = Location {
            directory: directory.path().to_owned(),
        };
        let _owner = Owner::take(&location).unwrap();
        let mut connection = location.connect_to_write(None).unwrap();
        schema::migrate(&mut connection, &location).unwrap();
        let mut statement = connection
            .prepare(&format!("EXPLAIN QUERY PLAN {LIST}"))
            .unwrap();
        let plan: Vec<String> = statement
            .query_map([], |row| row.get(3))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        for table in ["streams", "newest"] {
            let scan = format!("SCAN {table}");
            assert!(!plan.contains(&scan), "{plan:#?}");
        }
        let search = "SEARCH streams USING INTEGER PRIMARY KEY (rowid=?)".to_owned();
        assert!(plan.contains(&search), "{plan:#?}");
    }
}
