//! Rows for lists that cannot be written or read do not affect appends.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use serde_json::json;
use windlass_core::events::{EventContext, EventData, SessionStartedData};
use windlass_core::runs::RunStarted;
use windlass_core::typed_id::{ExecId, TurnId};
use windlass_store::sqlite::OpenCheck;
use windlass_store::{Journal, Queries, RunLog, SqliteStore, ThreadQuery};

use super::support::{StoreHome, completed, custom, events, fill, key, read, started};

/// How many threads have rows in memory before they go to the table.
const ROWS: usize = 512;

#[tokio::test]
async fn appends_survive_failing_row_writes() {
    let home = StoreHome::new();
    let store = home.open().await;
    fill(&store, "first", vec![custom("x")]).await;
    let trouble =
        "CREATE TRIGGER no BEFORE INSERT ON threads BEGIN SELECT RAISE(ABORT, 'not now'); END";
    home.database().execute_batch(trouble).unwrap();
    for number in 0..ROWS + 100 {
        let turn = TurnId::new();
        let data = vec![started(turn), completed(turn)];
        fill(&store, &format!("s{number}"), data).await;
    }
    let listed = store.queries().threads(ThreadQuery::first(1000)).await;
    assert_eq!(listed.unwrap().entries.len(), ROWS + 101);

    home.database().execute_batch("DROP TRIGGER no").unwrap();
    for number in 0..ROWS {
        fill(&store, &format!("s{number}"), vec![custom("on")]).await;
    }
    store.close().await;
    let store = home.open().await;
    assert!(store.verify().await.unwrap().findings.is_empty());
    let listed = store.queries().threads(ThreadQuery::first(1000)).await;
    assert_eq!(listed.unwrap().entries.len(), ROWS + 101);
}

/// Writes over the first page of a table.
fn damage(home: &StoreHome, table: &str) {
    let database = home.database();
    let page = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let page: i64 = database.query_row(page, [table], |row| row.get(0)).unwrap();
    let size: i64 = database
        .pragma_query_value(None, "page_size", |row| row.get(0))
        .unwrap();
    database.close().unwrap();
    let mut options = OpenOptions::new();
    let file = options.write(true).open(home.file("windlass.db")).unwrap();
    let place = u64::try_from((page - 1) * size).unwrap();
    file.write_all_at(&[0xff; 64], place).unwrap();
}

async fn open_unchecked(home: &StoreHome) -> SqliteStore {
    let options = home.options().with_check(OpenCheck::Nothing);
    SqliteStore::open(options).await.unwrap()
}

/// Appends events to a stream, and returns whether that succeeded.
async fn was_written(store: &SqliteStore, name: &str, data: Vec<EventData>) -> bool {
    let journal = store.journal();
    let Ok(claim) = journal.claim(&key(name)).await else {
        return false;
    };
    let batch = events(claim.head + 1, data);
    journal.append(&claim, batch).await.is_ok()
}

/// Begins a turn that waits for an approval.
async fn waits(store: &SqliteStore) -> bool {
    let (turn, exec) = (TurnId::new(), ExecId::new());
    let call = json!({"id": "c", "name": "shell", "arguments": {}});
    let payload = json!({"tool_call": call, "digest": "d"});
    let asked = EventData::from_type("approval.required", payload).unwrap();
    let mut batch = events(1, vec![started(turn), asked]);
    Arc::make_mut(&mut batch.records[1]).context = EventContext::of_step(turn, exec);
    let journal = store.journal();
    let claim = journal.claim(&key("waits")).await.unwrap();
    journal.append(&claim, batch).await.is_ok()
}

#[tokio::test]
async fn damaged_rows_do_not_stop_writes() {
    for table in ["threads", "turns", "waits", "runs", "open_streams"] {
        let home = StoreHome::new();
        let store = home.open().await;
        fill(&store, "s", vec![custom("x")]).await;
        store.close().await;
        damage(&home, table);
        let store = open_unchecked(&home).await;
        let runs = store.runs();
        for number in 0..1100 {
            let begun = RunStarted {
                run_id: format!("r{number}"),
                agent_id: "agent".to_owned(),
                intent: "intent".to_owned(),
                outcome_description: None,
                started_at: chrono::Utc::now(),
            };
            runs.begin(begun, "client").await.unwrap();
        }
        let mut failures = 0;
        for number in 0..ROWS + 20 {
            let turn = TurnId::new();
            let data = vec![started(turn), completed(turn)];
            let name = format!("s{number}");
            failures += usize::from(!was_written(&store, &name, data).await);
        }
        for _ in 0..3 {
            let texts = (0..600).map(|number| custom(&number.to_string()));
            failures += usize::from(!was_written(&store, "s", texts.collect()).await);
        }
        failures += usize::from(!waits(&store).await);
        assert_eq!(failures, 0, "with damaged {table}");
        assert!(store.write_rows().await.is_err(), "{table} was not damaged");
        fill(&store, "s", vec![custom("on")]).await;
        read(&store, "s").await.unwrap();
    }
}

/// The commits of row writes must not cause further row writes while appends continue.
#[tokio::test]
async fn row_writes_cause_few_commits() {
    const APPENDS: u64 = 2000;
    let home = StoreHome::new();
    let store = home.open().await;
    let journal = store.journal();
    let claim = journal.claim(&key("s")).await.unwrap();
    let before = store.commits();
    for seq in 1..=APPENDS {
        let batch = events(seq, vec![custom("x")]);
        journal.append(&claim, batch).await.unwrap();
    }
    let of_rows = store.commits() - before - APPENDS;
    assert!(of_rows < APPENDS / 8, "{of_rows} commits of rows");
}

#[tokio::test]
async fn thread_record_of_an_unknown_version_hides_only_its_thread() {
    let home = StoreHome::new();
    let store = home.open().await;
    let made = || SessionStartedData {
        title: None,
        record: Some(Box::default()),
    };
    fill(&store, "new", vec![made().into()]).await;
    fill(&store, "old", vec![made().into()]).await;
    store.close().await;
    let newer = r#"{"version":2,"owner":"worker"}"#;
    let change = "UPDATE thread_records SET record = ?1 \
         WHERE stream = (SELECT id FROM streams WHERE key = 'new')";
    assert_eq!(home.database().execute(change, [newer]).unwrap(), 1);

    let store = home.open().await;
    let listed = store.queries().threads(ThreadQuery::first(9)).await;
    let listed = listed.unwrap().entries;
    let names: Vec<_> = listed.iter().map(|thread| thread.stream.as_str()).collect();
    assert_eq!(names, ["old"]);
    let refused = store.queries().thread(&key("new")).await.unwrap_err();
    assert!(refused.to_string().contains("has version 2"), "{refused}");
    store.close().await;
    let stored = "SELECT record FROM thread_records ORDER BY stream LIMIT 1";
    let stored: String = home
        .database()
        .query_row(stored, [], |row| row.get(0))
        .unwrap();
    assert_eq!(stored, newer);
}
