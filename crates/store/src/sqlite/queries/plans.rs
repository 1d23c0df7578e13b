//! Tests of the query plans: each query is an index look-up, regardless of the number of threads.

use rusqlite::Connection;

use super::tables::{THREAD, THREADS, TURN};
use crate::queries::{Include, Order, ThreadQuery, ThreadState, UsageBy};
use crate::runs::RunKind;
use crate::sqlite::open::schema::STEPS;
use crate::sqlite::queries::{counts, open, runs, threads, turns, usage, waits};
use crate::sqlite::stores::records::{ALL_CHILDREN, CHILDREN};

fn plan(db: &Connection, query: &str) -> Vec<String> {
    let query = format!("EXPLAIN QUERY PLAN {query}");
    let mut statement = db.prepare(&query).unwrap();
    let nothing = vec![0; statement.parameter_count()];
    let plan = statement.query_map(rusqlite::params_from_iter(nothing), |row| row.get(3));
    plan.unwrap().map(Result::unwrap).collect()
}

fn thread_queries() -> Vec<String> {
    let mut queries = Vec::new();
    for agent in [None, Some("a".to_owned())] {
        for states in [vec![], vec![ThreadState::Waiting], vec![ThreadState::Idle]] {
            queries.push(threads::walk(&ThreadQuery {
                include: Include::Current,
                agent: agent.clone(),
                states,
                ..ThreadQuery::first(1)
            }));
        }
    }
    queries
}

#[test]
fn queries_neither_scan_nor_sort() {
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch(&STEPS.concat()).unwrap();
    let mut queries = thread_queries();
    queries.push(format!(
        "SELECT {THREAD} FROM {THREADS} WHERE threads.stream = ?1"
    ));
    queries.extend([Order::NewestFirst, Order::OldestFirst].map(turns::between));
    queries.push(format!(
        "SELECT {TURN} FROM {} ORDER BY place DESC",
        turns::BY_ID
    ));
    queries.push(format!("SELECT kind FROM {}", waits::BY_CALL));
    for kind in [RunKind::Turn, RunKind::Reported] {
        queries.extend([false, true].map(|by_agent| runs::page(kind, by_agent)));
    }
    queries.push(runs::OLD.to_owned());
    queries.push(CHILDREN.to_owned());
    for query in &queries {
        let plan = plan(&db, query);
        let is_bad = |line: &&String| line.contains("SCAN") || line.contains("TEMP B-TREE");
        let bad: Vec<_> = plan.iter().filter(is_bad).collect();
        assert!(bad.is_empty(), "{query}: {plan:#?}");
    }
}

/// Queries that scan a whole index use one that contains little else.
#[test]
fn counts_and_sums_read_only_their_index() {
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch(&STEPS.concat()).unwrap();
    for (query, expected) in [
        (
            counts::OPEN.to_owned(),
            "SCAN threads USING COVERING INDEX threads_open",
        ),
        (
            counts::WAITING.to_owned(),
            "SCAN threads USING COVERING INDEX threads_open",
        ),
        (
            counts::BY_KIND.to_owned(),
            "SCAN threads USING COVERING INDEX threads_by_time",
        ),
        (
            waits::WAITING.to_owned(),
            "SCAN waits USING COVERING INDEX waits_open",
        ),
        (
            usage::sums(UsageBy::Model),
            "SEARCH turns USING INDEX turns_by_end (ended_at>? AND ended_at<?)",
        ),
        (
            usage::retained(UsageBy::Model),
            "SEARCH retained_usage USING INDEX retained_usage_by_end (ended_at>? AND ended_at<?)",
        ),
    ] {
        let plan = plan(&db, &query);
        assert_eq!(
            plan.first().map(String::as_str),
            Some(expected),
            "{query}: {plan:#?}"
        );
    }
    // Reads only as many rows as its limit, skips sessions without a parent, and sorts nothing.
    let children = plan(&db, ALL_CHILDREN);
    let goes_by = |line: &String| line.contains("sessions_with_parent");
    assert!(
        children.len() == 1 && children.iter().all(goes_by),
        "{children:#?}"
    );
    let plan = plan(&db, open::OPEN);
    for table in ["streams", "newest", "records"] {
        let scans = |line: &String| line.starts_with(&format!("SCAN {table}"));
        assert!(!plan.iter().any(scans), "{plan:#?}");
    }
}
