//! Every query that lists is answered by an index.

use rusqlite::Connection;

use super::batches::Table;
use super::rows::{ITEM_COLUMNS, MESSAGE_COLUMNS};
use super::{batches, load, marks, sources, threads, turns};

/// A database with 10,000 turns of 100 threads, as SQLite knows it.
fn database() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    for step in [
        include_str!("../schema/1.sql"),
        include_str!("../schema/2.sql"),
        include_str!("../schema/3.sql"),
        include_str!("../schema/4.sql"),
        include_str!("../schema/5.sql"),
        include_str!("../schema/6.sql"),
        include_str!("../schema/7.sql"),
        include_str!("../schema/8.sql"),
        include_str!("../schema/9.sql"),
    ] {
        connection.execute_batch(step).unwrap();
    }
    connection
        .execute_batch(
            "CREATE TEMP TABLE n AS WITH RECURSIVE n (x) AS \
             (SELECT 0 UNION ALL SELECT x + 1 FROM n WHERE x < 9999) SELECT x FROM n;
             INSERT INTO streams (id, key, epoch) SELECT x, 's' || x, 1 FROM n WHERE x < 100;
             INSERT INTO threads (stream, is_open, is_waiting, activity, seen, turns, items, messages, \
             upto, upto_turns, upto_items, upto_messages) \
             SELECT x, x % 10 = 0, 0, x, 1, 1, 1, 1, 1, 1, 1, 1 FROM n WHERE x < 100;
             INSERT INTO batches SELECT x, x % 100, x / 100, x / 100, x / 100 FROM n;
             INSERT INTO turns (key, id, status, first, last, first_item, items, session, detail, stream) \
             SELECT (x << 32) + x / 100, CAST(x AS BLOB), 1, 1, 1, 1, 1, x'00', '{}', x % 100 FROM n;
             INSERT INTO items (key, id, kind, status, first, last, summary) \
             SELECT (x << 32) + x / 100, CAST(x AS BLOB), 1, 1, 1, 1, '' FROM n;
             INSERT INTO messages (key, id, role, seq) \
             SELECT (x << 32) + x / 100, CAST(x AS BLOB), 1, 1 FROM n;
             INSERT INTO records SELECT x + 1, x % 100, x / 100 + 1, 1, 0, 0, 0, 0, 1, x'00', x'00' FROM n;
             INSERT INTO spans SELECT stream, seq, position, 1 FROM records WHERE seq < 90;
             INSERT INTO recent_spans SELECT stream, seq, position, 1 FROM records WHERE seq >= 90;
             ANALYZE;",
        )
        .unwrap();
    connection
}

fn plan(connection: &Connection, query: &str) -> Vec<String> {
    let mut statement = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {query}"))
        .unwrap();
    let given = statement.parameter_count();
    let nothing = vec![rusqlite::types::Null; given];
    let nothing = rusqlite::params_from_iter(nothing);
    let lines = statement.query_map(nothing, |row| row.get(3)).unwrap();
    lines.map(Result::unwrap).collect()
}

#[test]
fn no_query_scans_and_none_sorts() {
    let connection = database();
    for query in [
        threads::query(),
        threads::PLACE_QUERY.to_owned(),
        turns::older_query(),
        turns::turn_query(),
        marks::last_query(),
        batches::UPTO_QUERY.to_owned(),
        load::thread_query(),
        load::replay_query(),
        sources::range_query(Table::Items, ITEM_COLUMNS),
        sources::range_query(Table::Items, turns::ITEM_ID_COLUMNS),
        sources::range_query(Table::Messages, MESSAGE_COLUMNS),
    ] {
        let plan = plan(&connection, &query);
        let is_bad = |line: &String| line.contains("SCAN") || line.contains("TEMP B-TREE");
        assert!(
            !plan.is_empty() && !plan.iter().any(is_bad),
            "{query}: {plan:#?}"
        );
    }
}

#[test]
fn threads_are_found_by_their_activity() {
    let plan = plan(&database(), &threads::query());
    let by_activity = "threads_by_activity (is_open=? AND activity<?)";
    assert!(
        plan.iter().any(|line| line.contains(by_activity)),
        "{plan:#?}"
    );
}
