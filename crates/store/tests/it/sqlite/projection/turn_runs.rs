//! Turns as runs: rows that are in memory, in the table or folded say the same.

use std::fs;
use std::io::Cursor;
use std::sync::Arc;

use chrono::{TimeDelta, Utc};
use serde_json::json;
use windlass_core::events::{Event, EventData};
use windlass_core::runs::{RunRecord, RunStatus, RunSummary, TurnTrace};
use windlass_core::typed_id::TurnId;
use windlass_store::sqlite::SqliteRetention;
use windlass_store::{Batch, Journal, MemoryJournal, RunFilter, SqliteStore, TurnRun};

use super::super::support::{Home, completed, custom, fill, key, started};
use super::play::{plain_turns, play};
use super::shown::{append, findings};

async fn all(journal: &dyn Journal) -> Vec<TurnRun> {
    journal
        .turn_runs(RunFilter::default(), 100_000)
        .await
        .unwrap()
}

/// The runs without their places, which differ from journal to journal.
async fn summaries(journal: &dyn Journal) -> Vec<RunSummary> {
    let runs = all(journal).await.into_iter();
    runs.map(|run| run.summary).collect()
}

fn stored(home: &Home) -> i64 {
    let query = "SELECT count(*) FROM turn_runs";
    let database = home.database();
    database.query_row(query, [], |row| row.get(0)).unwrap()
}

/// Copies a database that is in use, as a crash would leave it.
fn crashed(home: &Home) -> Home {
    let copy = Home::new();
    for name in ["windlass.db", "windlass.db-wal", "windlass.commits"] {
        fs::copy(home.file(name), copy.file(name)).unwrap();
    }
    copy
}

async fn in_memory(events: &[Arc<Event>]) -> Vec<RunSummary> {
    let journal = MemoryJournal::new();
    let claim = journal.claim(&key("s")).await.unwrap();
    for part in events.chunks(50) {
        let batch = Batch {
            first_seq: part[0].seq(),
            records: part.to_vec(),
        };
        journal.append(&claim, batch).await.unwrap();
        journal.turn_runs(RunFilter::default(), 1).await.unwrap();
    }
    summaries(&journal).await
}

/// What the records of the runs say, which are made from the events alone.
fn traced(events: &[Arc<Event>]) -> Vec<RunSummary> {
    let mut found = Vec::new();
    for event in events {
        let EventData::TurnStarted(data) = &event.data else {
            continue;
        };
        let mut trace = TurnTrace::new(data.turn_id, "windlass:main");
        let records: Vec<RunRecord> = events.iter().filter_map(|e| trace.apply(e)).collect();
        let Some(RunRecord::Started(started)) = records.first() else {
            panic!("{records:?} begin with no start");
        };
        let mut summary = RunSummary::of(started);
        records.iter().for_each(|record| summary.apply(record));
        let indexes: Vec<_> = records.iter().filter_map(RunRecord::index).collect();
        assert_eq!(indexes, (0..summary.turn_count).collect::<Vec<_>>());
        found.push(summary);
    }
    found.reverse();
    found
}

fn without_waits(mut runs: Vec<RunSummary>) -> Vec<RunSummary> {
    runs.iter_mut().for_each(|run| run.waiting_for.clear());
    runs
}

#[tokio::test]
async fn a_row_is_what_the_records_of_its_run_say() {
    for seed in 0..12 {
        let home = Home::new();
        let events = play(seed, 60 + 60 * seed as usize);
        let store = home.open().await;
        append(&store, "s", &events, 1 + seed as usize * 3 % 25).await;
        let listed = summaries(&store.journal()).await;
        assert_eq!(listed, in_memory(&events).await, "seed {seed}");
        assert_eq!(without_waits(listed), traced(&events), "seed {seed}");
    }
}

#[tokio::test]
async fn what_only_memory_has_is_folded_after_a_crash_and_by_others() {
    let mut waits = 0;
    for seed in 0..6 {
        let home = Home::new();
        let store = home.open().await;
        for n in 0..4 {
            let events = play(seed * 10 + n, 40 + 30 * n as usize);
            append(&store, &n.to_string(), &events, 7).await;
        }
        let before = all(&store.journal()).await;
        waits += before
            .iter()
            .filter(|run| !run.summary.waiting_for.is_empty())
            .count();
        assert!(before.len() > 4);
        assert_eq!(stored(&home), 0, "they are too few to be written");
        let copy = crashed(&home);
        let reader = SqliteStore::open_read_only(copy.options()).await.unwrap();
        assert_eq!(all(&reader.journal()).await, before, "seed {seed}");
        for run in &before {
            let found = reader.journal().turn_run(run.turn_id).await.unwrap();
            assert_eq!(found.as_ref(), Some(run), "seed {seed}");
        }
        reader.close().await;
        let again = copy.open().await;
        assert_eq!(all(&again.journal()).await, before, "seed {seed}, crashed");
        assert_eq!(findings(&again).await, [""; 0], "seed {seed}");
        again.close().await;
        assert_eq!(stored(&copy), before.len() as i64, "closing writes them");
        let again = copy.open().await;
        assert_eq!(all(&again.journal()).await, before, "seed {seed}, closed");
        again.rebuild(|_| {}).await.unwrap();
        assert_eq!(all(&again.journal()).await, before, "seed {seed}, anew");
        let (lines, _) = again.export(Vec::new()).await.unwrap();
        let other = Home::new();
        let taken = other.open().await;
        taken.import(Cursor::new(lines)).await.unwrap();
        let mut ids: Vec<_> = summaries(&taken.journal()).await;
        let mut expected: Vec<_> = before.into_iter().map(|run| run.summary).collect();
        ids.sort_by(|a, b| a.run_id.cmp(&b.run_id));
        expected.sort_by(|a, b| a.run_id.cmp(&b.run_id));
        assert_eq!(ids, expected, "seed {seed}, imported");
        assert_eq!(findings(&taken).await, [""; 0], "seed {seed}, imported");
    }
    assert!(waits > 0, "no play ends while a turn waits");
}

/// Two thousand turns of ten sessions, and in each session one that stays open.
async fn many(home: &Home) -> SqliteStore {
    let store = home.open().await;
    for n in 0..10 {
        let open = TurnId::new();
        fill(&store, &format!("open {n}"), vec![started(open)]).await;
        append(&store, &n.to_string(), &plain_turns(n, 200), 40).await;
        fill(&store, &format!("open {n}"), vec![custom("x")]).await;
    }
    store
}

#[tokio::test]
async fn pages_join_the_table_and_what_is_newer() {
    let home = Home::new();
    let store = many(&home).await;
    let journal = store.journal();
    let rows = stored(&home);
    assert!((1..2_010).contains(&rows), "{rows} rows are in the table");
    let listed = all(&journal).await;
    assert_eq!(listed.len(), 2_010);
    assert!(
        listed
            .windows(2)
            .all(|two| two[0].position > two[1].position)
    );
    for (status, count) in [
        (None, 2_010),
        (Some(RunStatus::InProgress), 10),
        (Some(RunStatus::Completed), 2_000),
    ] {
        for agent_id in [None, Some("windlass:main".to_owned())] {
            let mut filter = RunFilter {
                status,
                agent_id,
                before: None,
            };
            let mut paged = Vec::new();
            loop {
                let page = journal.turn_runs(filter.clone(), 37).await.unwrap();
                let Some(last) = page.last() else { break };
                filter.before = Some(last.position);
                paged.extend(page);
            }
            assert_eq!(paged.len(), count, "{filter:?}");
            let wanted = |run: &&TurnRun| status.is_none_or(|is| run.summary.status == is);
            assert!(paged.iter().eq(listed.iter().filter(wanted)), "{filter:?}");
        }
    }
    // A turn that the table knows as open ends: the newer row covers the older one, wherever they meet.
    let oldest = listed.last().unwrap();
    let end = completed(oldest.turn_id);
    fill(&store, oldest.stream.as_str(), vec![end]).await;
    let open = RunFilter {
        status: Some(RunStatus::InProgress),
        ..RunFilter::default()
    };
    let open = journal.turn_runs(open, 100).await.unwrap();
    assert_eq!(open.len(), 9);
    let ended = journal.turn_run(oldest.turn_id).await.unwrap().unwrap();
    assert_eq!(ended.summary.status, RunStatus::Completed);
    let done = RunFilter {
        status: Some(RunStatus::Completed),
        before: Some(oldest.position + 1),
        ..RunFilter::default()
    };
    assert_eq!(journal.turn_runs(done, 5).await.unwrap(), [ended]);
    let copy = crashed(&home);
    let again = copy.open().await;
    assert_eq!(all(&again.journal()).await, all(&journal).await);
    assert_eq!(findings(&again).await, [""; 0]);
    for name in ["3", "open 3"] {
        journal.remove(&key(name)).await.unwrap();
    }
    assert_eq!(all(&journal).await.len(), 2_010 - 201);
    assert_eq!(findings(&store).await, [""; 0]);
}

#[tokio::test]
async fn a_run_goes_with_the_records_of_its_turn() {
    let home = Home::new();
    let retention = SqliteRetention {
        max_age: Some(std::time::Duration::from_secs(3600)),
        ..SqliteRetention::default()
    };
    let options = home.options().with_retention(retention);
    let store = SqliteStore::open(options).await.unwrap();
    append(&store, "old", &plain_turns(1, 20), 10).await;
    fill(&store, "old", vec![started(TurnId::new())]).await;
    fill(&store, "new", vec![started(TurnId::new())]).await;
    let before = all(&store.journal()).await;
    assert_eq!(before.len(), 22);
    let now = Utc::now() + TimeDelta::minutes(1);
    assert!(store.maintain(now).await.unwrap().records > 0);
    let left = all(&store.journal()).await;
    assert_eq!(left, before[..2], "open turns stay whole");
    assert_eq!(findings(&store).await, [""; 0]);
    store.rebuild(|_| {}).await.unwrap();
    assert_eq!(all(&store.journal()).await, left);
}

/// Changes the database behind the store's back; says what is found, and that a rebuild puts it right.
async fn check(change: &str, expected: &[&str]) {
    let home = Home::new();
    let store = home.open().await;
    let owned = EventData::from_type("session.started", json!({"record": {"agent": "a"}}));
    fill(&store, "s", vec![owned.unwrap(), started(turn())]).await;
    fill(&store, "s", vec![completed(turn())]).await;
    let before = all(&store.journal()).await;
    store.close().await;
    home.database().execute_batch(change).unwrap();
    let store = home.open().await;
    assert_eq!(findings(&store).await, expected, "{change}");
    store.rebuild(|_| {}).await.unwrap();
    assert_eq!(findings(&store).await, [""; 0], "{change}");
    assert_eq!(all(&store.journal()).await, before, "{change}");
}

fn turn() -> TurnId {
    TurnId::from_seed(9)
}

#[tokio::test]
async fn a_wrong_row_is_found_and_made_anew() {
    let row = |what: &str| format!("stream s: the row of the run {} {what}", turn());
    let wrong = row("is not what the journal says");
    check("", &[]).await;
    check("UPDATE turn_runs SET turns = 3", &[&wrong]).await;
    check("UPDATE turn_runs SET intent = 'other'", &[&wrong]).await;
    check("UPDATE turn_runs SET agent = ''", &[&wrong]).await;
    check("DELETE FROM turn_runs", &[&row("is missing")]).await;
    check(
        "UPDATE turn_runs SET status = 0, outcome = NULL, ended_at = NULL",
        &[&wrong],
    )
    .await;
    check(
        "UPDATE turn_runs SET ended_at = NULL",
        &["1 turns as runs are in a state that cannot be", &wrong],
    )
    .await;
    check(
        "UPDATE turn_runs SET status = 44",
        &[
            "1 turns as runs are in a state that cannot be",
            "stream s: the row of a turn's run cannot be read: Conversion error from type Integer at index: 6, 44 stands for nothing",
        ],
    )
    .await;
    check(
        "UPDATE turn_runs SET position = 77",
        &[
            "1 rows of turns as runs belong to no record",
            &row("is missing"),
        ],
    )
    .await;
    check(
        "UPDATE owners SET agent = 'b'",
        &["stream s: the row of its owner is not what the journal says"],
    )
    .await;
    check(
        "INSERT INTO owners VALUES (99, 'b')",
        &["1 rows of owners belong to no stream"],
    )
    .await;
}
