//! A database of an earlier version still opens, from the first release on.
//!
//! After the first release, fixtures never change; a later version adds its own. Until then, the fixture of version 1 is regenerated when the schema
//! changes: run the ignored test and rename its output. `sqlite-1` has the first version of records, `sqlite-1-records-2` also the second.

use std::fs;
use std::path::Path;

use windlass_core::events::Event;
use windlass_core::items::TurnStatus;
use windlass_core::runs::{RunEnded, RunRecord, RunStarted, RunTurn, Termination};
use windlass_core::session::Session;
use windlass_core::traits::{SessionFileSystem, SessionStorageStore, SessionStore};
use windlass_core::typed_id::{HarnessId, SessionId, TurnId};
use windlass_store::Records;
use windlass_store::queries::{Order, ThreadState, TurnQuery};
use windlass_store::sqlite::SecretsKey;
use windlass_store::{
    BeginOutcome, Journal, Queries, RunFilter, RunLog, RunRow, SqliteStore, StoredRun, ThreadQuery,
    conformance,
};

use super::support::{
    StoreHome, completed, custom, delta, fill, fork as fork_of, key, read, started,
};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
const FILES: [&str; 2] = ["windlass.db", "windlass.commits"];

#[tokio::test]
async fn version_1_opens() {
    let (_home, store) = check("sqlite-1").await;
    check_forks(&store).await;
    let runs = store.queries().runs(RunFilter::default(), 9).await.unwrap();
    let runs: Vec<_> = runs
        .iter()
        .map(|run| (run.head(), run_client(run)))
        .collect();
    assert_eq!(
        runs,
        [(2, Some("one")), (2, Some("other")), (1, None), (2, None)],
        "two from outside, and two turns"
    );
    let open = store.journal().open(None, 9).await.unwrap();
    assert_eq!(open, [key("turns")]);
}

/// Records of the second version refer to others.
#[tokio::test]
async fn records_of_version_2_open() {
    let (home, store) = check("sqlite-1-records-2").await;
    let once = read(&store, "once").await.unwrap();
    let long = custom(&"said more than once; ".repeat(20));
    assert!(once[1..4].iter().all(|event| event.data == long));
    store.close().await;
    let count = "SELECT count(*) FROM records WHERE version = 2";
    let count = home.database().query_row(count, [], |row| row.get(0));
    assert_eq!(count, Ok(2));
}

fn run_client(run: &RunRow) -> Option<&str> {
    match run {
        RunRow::Reported(run) => Some(&run.client),
        RunRow::Turn(_) => None,
    }
}

#[tokio::test]
async fn prerelease_database_is_refused_and_unchanged() {
    for name in ["before-release-1", "before-release-10"] {
        let home = home_of(&Path::new(FIXTURES).join(name));
        let before = fs::read(home.file("windlass.db")).unwrap();
        let reading = SqliteStore::open_read_only(home.options()).await;
        for error in [home.refusal().await, reading.unwrap_err()] {
            let text = error.to_string();
            assert!(
                text.contains("export it with the version that wrote it"),
                "{text}"
            );
        }
        assert_eq!(fs::read(home.file("windlass.db")).unwrap(), before);
    }
}

async fn check_forks(store: &SqliteStore) {
    let (turns, fork) = (read(store, "turns").await, read(store, "fork").await);
    let (turns, fork) = (turns.unwrap(), fork.unwrap());
    assert_eq!(fork.len(), 3, "the turn without its text, and the fork");
    for (ours, theirs) in turns.iter().zip(&fork[..2]) {
        let same = |event: &Event| (event.id, event.sequence, event.data.clone());
        assert_eq!(same(ours), same(theirs));
        assert_ne!(ours.session_id, theirs.session_id);
    }
    assert_eq!(read(store, "orphan").await.unwrap().len(), 3);
    assert_eq!(
        store.journal().read(&key("gone"), 0, 9).await.unwrap().head,
        0
    );
    let journal = store.journal();
    assert_eq!(fork_of(&journal, "orphan", 3, "another").await.unwrap(), 4);
    assert!(store.verify().await.unwrap().findings.is_empty());
}

/// Copies a fixture into a new directory.
fn home_of(fixture: &Path) -> StoreHome {
    let home = StoreHome::new();
    for name in FILES {
        fs::copy(fixture.join(name), home.file(name)).unwrap();
    }
    home
}

async fn check(fixture: &str) -> (StoreHome, SqliteStore) {
    let fixture = Path::new(FIXTURES).join(fixture);
    let home = home_of(&fixture);
    let options = home.options().with_secrets_key(SecretsKey::new([1; 32]));
    let store = SqliteStore::open(options).await.unwrap();
    let report = store.verify().await.unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let heads: Vec<_> = report
        .heads
        .iter()
        .map(|head| format!("{} {} {}", head.stream, head.seq, &head.chain[..16]))
        .collect();
    let expected = fs::read_to_string(fixture.join("heads")).unwrap();
    assert_eq!(heads, expected.lines().collect::<Vec<_>>());
    assert_eq!(read(&store, "big").await.unwrap().len(), 1);
    let gaps = conformance::gaps(&store.journal(), &key("turns")).await;
    assert_eq!(gaps.unwrap(), [2..=3]);
    let streams = store.journal().streams().await.unwrap();
    let turns = streams.iter().find(|stream| stream.key == key("turns"));
    assert_eq!(turns.unwrap().open_from, Some(5));
    let queries = store.queries();
    let turns = TurnQuery {
        stream: key("turns"),
        order: Order::NewestFirst,
        upto: None,
        after: None,
        limit: 9,
    };
    let turns = queries.turns(turns).await.unwrap().entries;
    let turns: Vec<_> = turns.iter().map(|turn| turn.view.status).collect();
    assert_eq!(turns, [TurnStatus::InProgress, TurnStatus::Completed]);
    let threads = queries
        .threads(ThreadQuery::first(9))
        .await
        .unwrap()
        .entries;
    let threads: Vec<_> = threads
        .iter()
        .map(|t| (t.stream.as_str(), t.state))
        .collect();
    assert!(threads.contains(&("big", ThreadState::Idle)), "{threads:?}");
    assert!(
        threads.contains(&("turns", ThreadState::Running)),
        "{threads:?}"
    );
    let session = SessionId::from_seed(1);
    let file = store.files().read_file(session, "/dir/file").await;
    assert_eq!(file.unwrap().unwrap().content.as_deref(), Some("content"));
    let value = store.storage().get_value(session, "name").await;
    assert_eq!(value.unwrap().as_deref(), Some("value"));
    let secret = store.storage().get_secret(session, "name").await;
    assert_eq!(secret.unwrap().as_deref(), Some("secret"));
    let session = store.records().get_session(session).await;
    assert_eq!(session.unwrap().unwrap().title.as_deref(), Some("title"));
    fill(&store, "turns", vec![custom("appended")]).await;
    assert!(store.verify().await.unwrap().findings.is_empty());
    (home, store)
}

#[tokio::test]
#[ignore = "writes a new fixture"]
async fn write_fixture() {
    use std::time::Duration;

    use chrono::Utc;
    use windlass_store::sqlite::SqliteRetention;

    let home = StoreHome::new();
    let retention = SqliteRetention {
        text_chunks: Some(Duration::ZERO),
        ..SqliteRetention::default()
    };
    let options = home
        .options()
        .with_retention(retention)
        .with_secrets_key(SecretsKey::new([1; 32]));
    let store = SqliteStore::open(options).await.unwrap();
    let session: Session = serde_json::from_value(serde_json::json!({
        "id": SessionId::from_seed(1), "harness_id": HarnessId::from_seed(1), "title": "title",
        "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
    }))
    .unwrap();
    let id = session.id;
    store.records().add_session(session).await.unwrap();
    let files = store.files();
    let written = files.write_file(id, "/dir/file", "content", "text").await;
    assert!(written.is_ok());
    store
        .storage()
        .set_value(id, "name", "value")
        .await
        .unwrap();
    store
        .storage()
        .set_secret(id, "name", "secret")
        .await
        .unwrap();
    let turn = TurnId::new();
    let data = [
        started(turn),
        delta(turn, "a"),
        delta(turn, "b"),
        completed(turn),
    ];
    fill(&store, "turns", data.to_vec()).await;
    fill(
        &store,
        "turns",
        vec![started(TurnId::new()), custom("waits")],
    )
    .await;
    fill(&store, "big", vec![custom(&"x".repeat(33_000))]).await;
    let turn = TurnId::new();
    let mut data = vec![custom(&"said more than once; ".repeat(20)); 3];
    data.insert(0, started(turn));
    data.push(completed(turn));
    fill(&store, "once", data).await;
    store
        .maintain(Utc::now() + Duration::from_secs(1))
        .await
        .unwrap();
    let journal = store.journal();
    fork_of(&journal, "turns", 4, "fork").await.unwrap();
    fill(&store, "gone", vec![custom("a"), custom("b")]).await;
    fork_of(&journal, "gone", 2, "orphan").await.unwrap();
    journal.remove(&key("gone")).await.unwrap();
    let log = store.runs();
    let open = begin_run(&log, "open").await;
    let turn = RunRecord::Turn(RunTurn::default());
    let open = log.append(&open, vec![turn]).await.unwrap();
    log.take_over(&open, "other").await.unwrap();
    let done = begin_run(&log, "done").await;
    let ended = RunRecord::Ended(RunEnded {
        run_id: done.summary.run_id.clone(),
        agent_id: done.summary.agent_id.clone(),
        termination: Termination::Incomplete,
        ended_at: Utc::now(),
    });
    log.append(&done, vec![ended]).await.unwrap();
    let heads: String = store
        .verify()
        .await
        .unwrap()
        .heads
        .iter()
        .map(|head| format!("{} {} {}\n", head.stream, head.seq, &head.chain[..16]))
        .collect();
    store.close().await;
    let to = Path::new(FIXTURES).join("sqlite-new");
    fs::create_dir_all(&to).unwrap();
    for name in FILES {
        fs::copy(home.file(name), to.join(name)).unwrap();
    }
    fs::write(to.join("heads"), heads).unwrap();
}

async fn begin_run(log: &impl RunLog, run_id: &str) -> StoredRun {
    let started = RunStarted {
        run_id: run_id.to_owned(),
        agent_id: "agent".to_owned(),
        intent: "intent".to_owned(),
        outcome_description: None,
        started_at: chrono::Utc::now(),
    };
    match log.begin(started, "one").await.unwrap() {
        BeginOutcome::New(run) | BeginOutcome::Existing(run) => run,
    }
}
