//! Runs in a database: the suite, and that they are streams of the journal like others.

use std::io::Cursor;
use std::sync::{Arc, Mutex};

use chrono::Utc;
use serde_json::json;
use windlass_core::runs::{RunEnded, RunRecord, RunStarted, RunStatus, RunTurn, Termination};
use windlass_store::{
    Begun, Journal, JournalError, KeptRun, RunFilter, RunLog, SqliteStore, conformance,
};

use super::support::{Home, custom, fill};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_keeps_the_rules() {
    let homes = Mutex::new(Vec::new());
    conformance::runs(async || {
        let home = Home::new();
        let store = home.open().await;
        homes.lock().unwrap().push(home);
        Arc::new(store.runs()) as Arc<dyn RunLog>
    })
    .await
    .unwrap();
}

async fn begin(store: &SqliteStore, run_id: &str) -> KeptRun {
    let started = RunStarted {
        run_id: run_id.to_owned(),
        agent_id: "a/b".to_owned(),
        intent: "say \"hi\"".to_owned(),
        outcome_description: Some("said".to_owned()),
        started_at: Utc::now(),
    };
    match store.runs().begin(started, "client").await.unwrap() {
        Begun::New(run) => run,
        Begun::Existing(run) => panic!("{run:?} is there already"),
    }
}

fn turn(index: u64, text: &str) -> RunRecord {
    RunRecord::Turn(RunTurn {
        index,
        output: Some(json!(text)),
        ..RunTurn::default()
    })
}

fn ended(run: &KeptRun) -> RunRecord {
    RunRecord::Ended(RunEnded {
        run_id: run.summary.run_id.clone(),
        agent_id: run.summary.agent_id.clone(),
        termination: Termination::Incomplete,
        ended_at: Utc::now(),
    })
}

/// A store with a session, an open run with a big turn, and one that has ended.
async fn full_store(home: &Home) -> SqliteStore {
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

async fn everything(store: &SqliteStore) -> Vec<(KeptRun, Vec<RunRecord>)> {
    let mut all = Vec::new();
    for run in store.runs().list(RunFilter::default(), 10).await.unwrap() {
        let id = &run.summary.run_id;
        let page = store.runs().read(id, 0, 100, usize::MAX).await.unwrap();
        all.push((run, page.records));
    }
    all
}

#[tokio::test]
async fn runs_are_there_when_the_store_is_opened_again() {
    let home = Home::new();
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
async fn the_journal_of_sessions_does_not_see_runs() {
    let home = Home::new();
    let store = full_store(&home).await;
    let journal = store.journal();
    assert_eq!(journal.read_all().await.unwrap().len(), 1);
    assert_eq!(journal.streams().await.unwrap().len(), 1);
    assert_eq!(journal.unfinished().await.unwrap(), []);
}

#[tokio::test]
async fn a_changed_record_of_a_run_is_found() {
    let home = Home::new();
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
    assert_eq!(other.records.len(), 2, "others go on");
}

#[tokio::test]
async fn runs_are_exported_and_imported_with_their_rows() {
    let (home, other) = (Home::new(), Home::new());
    let store = full_store(&home).await;
    let (lines, report) = store.export(Vec::new()).await.unwrap();
    assert_eq!((report.streams, report.findings), (3, vec![]));
    let copy = other.open().await;
    let taken = copy.import(Cursor::new(lines)).await.unwrap();
    assert_eq!((taken.streams, taken.findings), (3, vec![]));
    let summaries = |all: Vec<(KeptRun, Vec<RunRecord>)>| {
        let each = all.into_iter().map(|(run, records)| (run.summary, records));
        each.collect::<Vec<_>>()
    };
    assert_eq!(
        summaries(everything(&copy).await),
        summaries(everything(&store).await)
    );
}

/// Changes the database behind the store's back; says what is found, and that a rebuild puts it right.
async fn check(change: &str, expected: &[&str]) {
    let home = Home::new();
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
    let plain = |all: Vec<(KeptRun, Vec<RunRecord>)>| {
        let each = all.into_iter().map(|(run, _)| run.summary);
        each.collect::<Vec<_>>()
    };
    assert_eq!(plain(anew), plain(before), "{change}");
}

#[tokio::test]
async fn a_row_that_is_not_what_its_records_say_is_found_and_made_anew() {
    let wrong = "the row of the run is not what its records say";
    check("", &[]).await;
    check(
        "UPDATE runs SET turns = 7 WHERE status = 'in_progress'",
        &[&format!("stream run:open: {wrong}")],
    )
    .await;
    check(
        "UPDATE runs SET agent = 'x' WHERE status = 'incomplete'",
        &[&format!("stream run:done: {wrong}")],
    )
    .await;
    check(
        "UPDATE runs SET status = 'in_progress' WHERE status = 'incomplete'",
        &[
            "1 runs are in a state that cannot be",
            &format!("stream run:done: {wrong}"),
        ],
    )
    .await;
    check(
        "DELETE FROM runs WHERE status = 'incomplete'",
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
async fn records_that_cannot_follow_each_other_are_found() {
    let home = Home::new();
    let store = home.open().await;
    let run = begin(&store, "odd").await;
    let records = vec![turn(5, "a"), ended(&run)];
    let run = store.runs().append(&run, records).await.unwrap();
    let findings = store.verify().await.unwrap().findings;
    let findings: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(findings, ["stream run:odd: record 2 is not the next turn"]);
    assert_eq!(run.head(), 3);
}

fn count(home: &Home) -> i64 {
    let rows = "SELECT count(*) FROM runs";
    (home.database().query_row(rows, [], |row| row.get(0))).unwrap()
}

#[tokio::test]
async fn rows_that_were_not_written_are_folded() {
    let home = Home::new();
    let store = full_store(&home).await;
    let open = store.runs().get("open").await.unwrap().unwrap();
    let open = store.runs().take_over(&open, "another").await.unwrap();
    let expected = everything(&store).await;
    assert_eq!((expected.len(), count(&home)), (2, 0));

    let reader = SqliteStore::open_read_only(home.options()).await.unwrap();
    assert_eq!(everything(&reader).await, expected, "in another process");
    assert_eq!(reader.runs().get("open").await.unwrap(), Some(open.clone()));
    assert_eq!(reader.verify().await.unwrap().findings, []);

    let crashed = home.crashed();
    let after = crashed.open().await;
    assert_eq!(everything(&after).await, expected, "after a crash");
    assert_eq!(after.runs().get("open").await.unwrap(), Some(open.clone()));
    assert_eq!(after.verify().await.unwrap().findings, []);
    let done = after.runs().append(&open, vec![ended(&open)]).await;
    let done = done.unwrap();
    after.close().await;
    assert_eq!(count(&crashed), 2, "closing writes them");
    let after = crashed.open().await;
    let found = after.runs().get("open").await.unwrap().unwrap();
    assert_eq!((found.head(), &found.client), (done.head(), &done.client));
    assert_eq!(after.verify().await.unwrap().findings, []);
}

#[tokio::test]
async fn lists_are_whole_while_rows_are_on_their_way() {
    const RUNS: usize = 2600;
    let home = Home::new();
    let store = home.open().await;
    let mut expected = Vec::new();
    for n in 0..RUNS {
        let mut run = begin(&store, &format!("r{n}")).await;
        // Every seventh stays open, and some of those go on much later.
        if n % 7 > 0 {
            run = (store.runs().append(&run, vec![ended(&run)]).await).unwrap();
        }
        expected.insert(0, run.summary.run_id);
        if n % 500 == 499 {
            let old = store.runs().get(&format!("r{}", n / 2 / 7 * 7)).await;
            let old = old.unwrap().unwrap();
            store
                .runs()
                .append(&old, vec![turn(0, "late")])
                .await
                .unwrap();
        }
    }
    let written = count(&home);
    assert!(0 < written && written < RUNS as i64, "{written}");
    for status in [
        None,
        Some(RunStatus::InProgress),
        Some(RunStatus::Incomplete),
    ] {
        for agent_id in [None, Some("a/b".to_owned())] {
            let mut filter = RunFilter {
                agent_id,
                status,
                before: None,
            };
            let mut listed = Vec::new();
            loop {
                let page = store.runs().list(filter.clone(), 97).await.unwrap();
                let Some(last) = page.last() else { break };
                filter.before = Some(last.position);
                listed.extend(page.into_iter().map(|run| run.summary.run_id));
            }
            let is_open = |id: &str| id[1..].parse::<usize>().unwrap() % 7 == 0;
            let is_wanted = |id: &&String| {
                status.is_none_or(|status| is_open(id) == (status == RunStatus::InProgress))
            };
            let wanted: Vec<_> = expected.iter().filter(is_wanted).cloned().collect();
            assert_eq!(listed, wanted, "{filter:?}");
        }
    }
    assert_eq!(store.verify().await.unwrap().findings, []);
    let summaries = |all: Vec<KeptRun>| all.into_iter().map(|run| run.summary).collect::<Vec<_>>();
    let all = summaries(store.runs().list(RunFilter::default(), RUNS).await.unwrap());
    let after = home.crashed().open().await;
    let again = summaries(after.runs().list(RunFilter::default(), RUNS).await.unwrap());
    assert!(all == again && all.len() == RUNS, "after a crash");
}

#[tokio::test]
async fn what_is_old_and_not_written_yet_is_forgotten_too() {
    let home = Home::new();
    let store = full_store(&home).await;
    let later = Utc::now() + std::time::Duration::from_secs(1);
    assert_eq!(store.runs().forget(later, 10).await.unwrap(), 1);
    let left = everything(&store).await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].0.summary.run_id, "open");
    assert_eq!(store.runs().get("done").await.unwrap(), None);
    assert_eq!(store.verify().await.unwrap().findings, []);
}

#[tokio::test]
async fn runs_of_an_earlier_version_keep_their_connections() {
    let home = Home::new();
    let store = full_store(&home).await;
    let expected = everything(&store).await;
    store.close().await;
    home.step_back_to_9();
    let reader = SqliteStore::open_read_only(home.options()).await.unwrap();
    assert_eq!(everything(&reader).await, expected, "as they are");
    assert_eq!(reader.verify().await.unwrap().findings, []);
    let store = home.open().await;
    assert_eq!(everything(&store).await, expected, "as they have become");
    assert_eq!(everything(&reader).await, expected, "for who stayed open");
    assert_eq!(expected[0].0.client, "client");
    assert_eq!(store.verify().await.unwrap().findings, []);
}
