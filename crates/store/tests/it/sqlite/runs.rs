//! Conformance of runs in a database, and tests that they are ordinary streams of the journal.

use std::io::Cursor;
use std::sync::{Arc, Mutex};

use chrono::Utc;
use serde_json::json;
use windlass_core::runs::{RunEnded, RunRecord, RunStarted, RunTurn, Termination};
use windlass_store::journal::all_events;
use windlass_store::{
    BeginOutcome, Journal, JournalError, Queries, RunFilter, RunLog, RunRow, SqliteStore,
    StoredRun, conformance,
};

use super::support::{StoreHome, custom, fill, findings};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_conforms() {
    let homes = Mutex::new(Vec::new());
    conformance::runs(async || {
        let home = StoreHome::new();
        let store = home.open().await;
        homes.lock().unwrap().push(home);
        Arc::new(store.runs()) as Arc<dyn RunLog>
    })
    .await
    .unwrap();
}

pub(super) async fn begin(store: &SqliteStore, run_id: &str) -> StoredRun {
    let started = RunStarted {
        run_id: run_id.to_owned(),
        agent_id: "a/b".to_owned(),
        intent: "say \"hi\"".to_owned(),
        outcome_description: Some("said".to_owned()),
        started_at: Utc::now(),
    };
    match store.runs().begin(started, "client").await.unwrap() {
        BeginOutcome::New(run) => run,
        BeginOutcome::Existing(run) => panic!("{run:?} exists already"),
    }
}

pub(super) fn turn(index: u64, text: &str) -> RunRecord {
    RunRecord::Turn(RunTurn {
        index,
        output: Some(json!(text)),
        ..RunTurn::default()
    })
}

pub(super) fn ended(run: &StoredRun) -> RunRecord {
    RunRecord::Ended(RunEnded {
        run_id: run.summary.run_id.clone(),
        agent_id: run.summary.agent_id.clone(),
        termination: Termination::Incomplete,
        ended_at: Utc::now(),
    })
}

/// A store with a session, an open run with a big turn, and one that has ended.
pub(super) async fn full_store(home: &StoreHome) -> SqliteStore {
    let store = home.open().await;
    fill(&store, "session", vec![custom("a")]).await;
    let open = begin(&store, "open").await;
    let turns = vec![turn(0, "small"), turn(1, &"x".repeat(50_000))];
    store.runs().append(&open, turns).await.unwrap();
    let done = begin(&store, "done").await;
    store
        .runs()
        .append(&done, vec![ended(&done)])
        .await
        .unwrap();
    store
}

/// Returns all runs, the newest first.
pub(super) async fn reported(store: &SqliteStore) -> Vec<StoredRun> {
    let all = store.queries().runs(RunFilter::default(), 99_999).await;
    let all = all.unwrap().into_iter().map(|run| match run {
        RunRow::Reported(run) => run,
        RunRow::Turn(turn) => panic!("{turn:?} is a turn"),
    });
    all.collect()
}

pub(super) async fn everything(store: &SqliteStore) -> Vec<(StoredRun, Vec<RunRecord>)> {
    let mut all = Vec::new();
    for run in reported(store).await {
        let id = &run.summary.run_id;
        let page = store.runs().read(id, 0, 100, usize::MAX).await.unwrap();
        all.push((run, page.records));
    }
    all
}

#[tokio::test]
async fn runs_survive_a_restart() {
    let home = StoreHome::new();
    let store = full_store(&home).await;
    let before = everything(&store).await;
    assert_eq!(before.len(), 2);
    store.close().await;
    let store = home.open().await;
    assert_eq!(everything(&store).await, before);
    let open = store.runs().get("open").await.unwrap().unwrap();
    store
        .runs()
        .append(&open, vec![ended(&open)])
        .await
        .unwrap();
}

#[tokio::test]
async fn session_journal_omits_runs() {
    let home = StoreHome::new();
    let store = full_store(&home).await;
    let journal = store.journal();
    assert_eq!(all_events(&journal).await.unwrap().len(), 1);
    assert_eq!(journal.streams().await.unwrap().len(), 1);
    assert_eq!(journal.open(None, 9).await.unwrap(), []);
}

#[tokio::test]
async fn changed_run_record_is_found() {
    let home = StoreHome::new();
    let store = full_store(&home).await;
    assert_eq!(store.verify().await.unwrap().findings, []);
    let changed = home.database().execute(
        "UPDATE records SET body = CAST(replace(body, 'small', 'great') AS BLOB) WHERE body LIKE '%small%'",
        [],
    );
    assert_eq!(changed.unwrap(), 1);
    let findings = store.verify().await.unwrap().findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
    let read = store.runs().read("open", 0, 10, usize::MAX).await;
    assert!(
        matches!(&read, Err(JournalError::Damaged { seq: 2, .. })),
        "{read:?}"
    );
    let other = store.runs().read("done", 0, 10, usize::MAX).await.unwrap();
    assert_eq!(other.records.len(), 2, "other runs are unaffected");
}

#[tokio::test]
async fn runs_are_exported_and_imported_with_their_rows() {
    let (home, other) = (StoreHome::new(), StoreHome::new());
    let store = full_store(&home).await;
    let (lines, report) = store.export(Vec::new()).await.unwrap();
    assert_eq!((report.streams, report.findings), (3, vec![]));
    let copy = other.open().await;
    let taken = copy.import(Cursor::new(lines)).await.unwrap();
    assert_eq!((taken.streams, taken.findings), (3, vec![]));
    let summaries = |all: Vec<(StoredRun, Vec<RunRecord>)>| {
        let each = all.into_iter().map(|(run, records)| (run.summary, records));
        each.collect::<Vec<_>>()
    };
    assert_eq!(
        summaries(everything(&copy).await),
        summaries(everything(&store).await)
    );
}

/// Runs SQL on the database, compares the findings, and checks that a rebuild repairs it.
async fn check(change: &str, expected: &[&str]) {
    let home = StoreHome::new();
    let store = full_store(&home).await;
    let before = everything(&store).await;
    store.close().await;
    home.database().execute_batch(change).unwrap();
    let store = home.open().await;
    let findings = store.verify().await.unwrap().findings;
    let findings: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(findings, expected, "{change}");
    let report = store.rebuild(|_| {}).await.unwrap();
    assert_eq!((report.streams, report.findings), (3, vec![]), "{change}");
    assert_eq!(store.verify().await.unwrap().findings, [], "{change}");
    let anew = everything(&store).await;
    let plain = |all: Vec<(StoredRun, Vec<RunRecord>)>| {
        let each = all.into_iter().map(|(run, _)| run.summary);
        each.collect::<Vec<_>>()
    };
    assert_eq!(plain(anew), plain(before), "{change}");
}

/// Rows are written in several commits, and the position up to which they are exact after the last of them. A reader in
/// between sees rows that are newer than that position and older than their run.
#[tokio::test]
async fn row_newer_than_the_exact_position_is_valid() {
    for (turns, expected) in [
        (0, &[][..]),
        (1, &[]),
        (2, &[]),
        (
            3,
            &["stream run:open: the row of the run differs from its records"],
        ),
    ] {
        let home = StoreHome::new();
        full_store(&home).await.close().await;
        let change = format!(
            "UPDATE state SET folded = (SELECT position FROM runs WHERE status = 0); \
             UPDATE runs SET turns = {turns} WHERE status = 0"
        );
        home.database().execute_batch(&change).unwrap();
        let reader = SqliteStore::open_read_only(home.options()).await.unwrap();
        assert_eq!(findings(&reader).await, expected, "{turns} turns");
    }
}

#[tokio::test]
async fn wrong_run_row_is_found_and_rebuilt() {
    let wrong = "the row of the run differs from its records";
    check("", &[]).await;
    check(
        "UPDATE runs SET turns = 7 WHERE status = 0",
        &[&format!("stream run:open: {wrong}")],
    )
    .await;
    check(
        "UPDATE runs SET agent = 'x' WHERE status = 2",
        &[&format!("stream run:done: {wrong}")],
    )
    .await;
    check(
        "UPDATE runs SET status = 0 WHERE status = 2",
        &[
            "1 runs are in an impossible state",
            &format!("stream run:done: {wrong}"),
        ],
    )
    .await;
    check(
        "DELETE FROM runs WHERE status = 2",
        &["stream run:done: the row of the run is missing"],
    )
    .await;
    check(
        "INSERT INTO runs SELECT 99, 99, agent, intent, status, outcome, started_at, ended_at, turns FROM runs LIMIT 1",
        &["1 rows of runs belong to no run"],
    )
    .await;
}

#[tokio::test]
async fn records_out_of_order_are_found() {
    let home = StoreHome::new();
    let store = home.open().await;
    let run = begin(&store, "odd").await;
    let records = vec![turn(5, "a"), ended(&run)];
    let run = store.runs().append(&run, records).await.unwrap();
    let findings = store.verify().await.unwrap().findings;
    let findings: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(findings, ["stream run:odd: record 2 is not the next turn"]);
    assert_eq!(run.head(), 3);
}
