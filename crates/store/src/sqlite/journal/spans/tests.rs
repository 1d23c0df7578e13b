use rusqlite::Connection;

use crate::sqlite::journal::spans::*;

/// An empty database.
fn empty() -> Connection {
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch(include_str!("../../open/schema/1.sql"))
        .unwrap();
    db
}

/// Streams that take turns, with spans of 1, 2, 3 and 64 records.
fn database() -> Connection {
    let db = empty();
    let (mut position, mut heads) = (0, [0; 2]);
    for count in [1, 2, 3, 64] {
        for stream in [1, 2] {
            let mut spans = SpanWriter::new(&db).unwrap();
            for _ in 0..count {
                position += 1;
                heads[stream - 1] += 1;
                let record = (stream as u64, heads[stream - 1]);
                insert(&db, record, position);
                spans.add(record, position).unwrap();
            }
            spans.end().unwrap();
        }
    }
    db
}

fn insert(db: &Connection, (stream, seq): (u64, u64), position: u64) {
    let row = "INSERT INTO records VALUES (?1, ?2, ?3, 1, 0, 0, 0, 0, 1, x'00', x'00')";
    let row = db.execute(row, [position, stream, seq].map(int));
    assert_eq!(row.unwrap(), 1);
}

fn numbers(db: &Connection, query: &str, range: [u64; 3]) -> Vec<u64> {
    let mut statement = db.prepare(query).unwrap();
    let parameters = statement.parameter_count();
    let range = rusqlite::params_from_iter(range.into_iter().map(int).take(parameters));
    let rows = statement.query_map(range, |row| uint(row, 0)).unwrap();
    rows.map(Result::unwrap).collect()
}

fn rows(db: &Connection) -> Vec<u64> {
    let query = "SELECT count FROM spans WHERE stream = ?1 ORDER BY last";
    numbers(db, query, [1, 0, 0])
}

/// Numbers at and around every edge of a span.
const EDGES: [u64; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 38, 69, 70, 71];

#[test]
fn adjacent_records_are_one_span() {
    let db = database();
    assert_eq!(rows(&db), [1, 2, 3, 64]);
    let mut spans = SpanWriter::new(&db).unwrap();
    for (seq, position) in [(71, 200), (72, 201), (74, 202), (75, 300)] {
        spans.add((1, seq), position).unwrap();
    }
    for n in 0..65 {
        spans.add((1, 76 + n), 301 + n).unwrap();
    }
    spans.end().unwrap();
    assert_eq!(
        rows(&db)[3..],
        [64, 2, 1, 64, 2],
        "gaps end a span, and so does its size"
    );
}

#[test]
fn queries_find_their_records() {
    let db = database();
    let select = |which: &str, order: &str| {
        format!("SELECT seq, last, position FROM placed WHERE stream = ?1 AND {which} {order}")
    };
    for first in EDGES {
        let found = numbers(&db, &select(from!("?2"), IN_ORDER), [2, first, 0]);
        assert_eq!(found, (first..=70).collect::<Vec<_>>());
        for last in EDGES {
            let (query, range) = (between!("?2", "?3"), [2, first, last]);
            let expected: Vec<_> = (first..=last.min(70)).collect();
            let found = numbers(&db, &select(query, IN_ORDER), range);
            assert_eq!(found, expected, "{first} to {last}");
            let found = numbers(&db, &select(query, NEWEST_FIRST), range);
            assert!(found.iter().rev().eq(&expected), "{first} to {last}");
        }
        let found = numbers(&db, &select(at!("?2"), IN_ORDER), [2, first, 0]);
        assert_eq!(found, (first..=first.min(70)).collect::<Vec<_>>());
    }
    let all = between!("1", "9223372036854775807");
    let found = numbers(&db, &select(all, IN_ORDER), [1, 0, 0]);
    assert_eq!(found.len(), 70);
}

#[test]
fn queries_neither_scan_nor_sort() {
    let db = database();
    for which in [from!("?2 + 1"), between!("?2 + 1", "?3"), at!("?2")] {
        for order in [IN_ORDER, NEWEST_FIRST] {
            let query = format!(
                "EXPLAIN QUERY PLAN SELECT {PLACED_COLUMNS} FROM placed \
                 WHERE stream = ?1 AND {which} AND chunk = 0 {order} LIMIT 9"
            );
            let mut statement = db.prepare(&query).unwrap();
            let parameters = vec![0; statement.parameter_count()];
            let plan =
                statement.query_map(rusqlite::params_from_iter(parameters), |row| row.get(3));
            let plan: Vec<String> = plan.unwrap().map(Result::unwrap).collect();
            let searches = |what: &str| {
                let is_so = |line: &&String| line.starts_with("SEARCH") && line.contains(what);
                plan.iter().filter(is_so).count()
            };
            let is_bad = |line: &String| line.contains("SCAN") || line.contains("TEMP B-TREE");
            assert!(!plan.iter().any(is_bad), "{query}: {plan:#?}");
            assert_eq!(searches("(stream=? AND last>?"), 1, "{query}: {plan:#?}");
            assert_eq!(searches("(rowid>? AND rowid<?)"), 1, "{query}: {plan:#?}");
        }
    }
}

#[test]
fn removal_leaves_other_records_in_place() {
    for first in EDGES {
        for last in EDGES {
            let db = database();
            remove(&db, 1, first, last).unwrap();
            let left = |stream| {
                let query =
                    format!("SELECT seq, last, position FROM placed WHERE stream = ?1 {IN_ORDER}");
                numbers(&db, &query, [stream, 0, 0])
            };
            let expected = (1..=70).filter(|seq| !(first..=last).contains(seq));
            let expected: Vec<_> = expected.collect();
            assert_eq!(left(1), expected, "without {first} to {last}");
            assert_eq!(left(2), (1..=70).collect::<Vec<_>>());
            let records = "SELECT count(*) FROM records WHERE stream = 1";
            let count = db.query_row(records, [], |row| uint(row, 0));
            let counted: u64 = rows(&db).iter().sum();
            assert_eq!([count.unwrap(), counted], [expected.len() as u64; 2]);
            let newest = newest(&db, 1).unwrap();
            assert_eq!(newest, expected.last().copied().unwrap_or(0));
        }
    }
}

/// All records in the order of the spans.
fn shown(db: &Connection) -> Vec<(u64, u64)> {
    let query = format!("SELECT seq, position, last FROM placed WHERE stream = 1 {IN_ORDER}");
    let mut statement = db.prepare(&query).unwrap();
    let rows = statement.query_map([], |row| Ok((uint(row, 0)?, uint(row, 1)?)));
    rows.unwrap().map(Result::unwrap).collect()
}

#[test]
fn rebuilt_spans_equal_the_original_ones() {
    let db = database();
    remove(&db, 1, 30, 31).unwrap();
    let before = shown(&db);
    fill(&db).unwrap();
    assert_eq!(shown(&db), before);
    assert_eq!(before.len(), 68);
}

#[test]
fn second_record_of_a_number_has_no_span() {
    let db = empty();
    for (seq, position) in [(1, 1), (4, 2), (3, 3), (4, 4), (5, 5), (6, 6)] {
        insert(&db, (1, seq), position);
    }
    fill(&db).unwrap();
    assert_eq!(shown(&db), [(1, 1), (3, 3), (4, 2), (5, 5), (6, 6)]);
}

#[test]
fn gaps_end_rebuilt_spans() {
    let db = empty();
    // A gap in the numbers, one in the positions, one in both, and a record at another position.
    let records = [
        (1, 1),
        (2, 2),
        (4, 4),
        (5, 5),
        (6, 9),
        (7, 10),
        (9, 12),
        (10, 90),
        (11, 14),
        (12, 15),
    ];
    for (seq, position) in records {
        insert(&db, (1, seq), position);
    }
    fill(&db).unwrap();
    assert_eq!(shown(&db), records);
    assert_eq!(rows(&db), [2, 2, 2, 1, 1, 2]);
}

#[test]
fn span_omits_records_of_other_streams() {
    let db = database();
    let damage = "UPDATE spans SET count = 5 WHERE stream = 1 AND last = 6";
    assert_eq!(db.execute(damage, []).unwrap(), 1);
    let query = "SELECT DISTINCT records.stream FROM placed JOIN records USING (position) WHERE placed.stream = 1";
    assert_eq!(numbers(&db, query, [0; 3]), [1]);
}
