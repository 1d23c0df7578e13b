//! A database of an earlier version still opens.
//!
//! The fixtures are kept as they were written; a later version adds its own and changes none. To write one for a new
//! version, run the ignored test and copy what it names.

use std::fs;
use std::path::Path;

use windlass_core::events::Event;
use windlass_core::items::TurnStatus;
use windlass_core::runs::{RunEnded, RunRecord, RunStarted, RunTurn, Termination};
use windlass_core::session::Session;
use windlass_core::traits::{SessionFileSystem, SessionStorageStore, SessionStore};
use windlass_core::typed_id::{HarnessId, SessionId, TurnId};
use windlass_store::sqlite::{SecretsKey, ThreadFilter, Window};
use windlass_store::{Begun, Journal, KeptRun, RunFilter, RunLog, SqliteStore, conformance};

use super::support::{
    Home, completed, custom, delta, events, fill, fork as fork_of, key, read, started,
};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
const FILES: [&str; 2] = ["windlass.db", "windlass.commits"];

#[tokio::test]
async fn version_1_opens() {
    check("sqlite-1").await;
}

#[tokio::test]
async fn version_1_with_records_in_their_short_form_opens() {
    check("sqlite-1-packed").await;
}

#[tokio::test]
async fn version_3_opens() {
    check("sqlite-3").await;
}

#[tokio::test]
async fn version_6_opens() {
    let (_home, store) = check("sqlite-6").await;
    check_forks(&store).await;
}

#[tokio::test]
async fn version_7_opens() {
    let (_home, store) = check("sqlite-7").await;
    check_forks(&store).await;
}

#[tokio::test]
async fn version_8_opens() {
    let (_home, store) = check("sqlite-8").await;
    check_forks(&store).await;
}

#[tokio::test]
async fn version_9_opens() {
    let (_home, store) = check("sqlite-9").await;
    check_forks(&store).await;
}

#[tokio::test]
async fn version_10_opens() {
    let (_home, store) = check("sqlite-10").await;
    check_forks(&store).await;
    let runs = store.runs().list(RunFilter::default(), 9).await.unwrap();
    let runs: Vec<_> = runs.iter().map(|run| (run.head(), &*run.client)).collect();
    assert_eq!(runs, [(2, "one"), (2, "other")]);
}

#[tokio::test]
async fn version_11_opens() {
    let (_home, store) = check("sqlite-11").await;
    check_forks(&store).await;
    let open = store.journal().unfinished().await.unwrap();
    assert_eq!(open, [key("turns")]);
}

#[tokio::test]
async fn an_open_turn_of_every_version_is_found() {
    for name in ["sqlite-1", "sqlite-3", "sqlite-8", "sqlite-10"] {
        let (_home, store) = check(name).await;
        let open = store.journal().unfinished().await.unwrap();
        assert_eq!(open, [key("turns")], "{name}");
    }
}

#[tokio::test]
async fn turns_of_every_version_are_runs() {
    for name in [
        "sqlite-1",
        "sqlite-1-packed",
        "sqlite-3",
        "sqlite-6",
        "sqlite-7",
        "sqlite-8",
        "sqlite-9",
        "sqlite-10",
        "sqlite-11",
    ] {
        let (_home, store) = check(name).await;
        let runs = store.journal().turn_runs(RunFilter::default(), 9).await;
        let runs = runs.unwrap();
        assert_eq!(runs.len(), 2, "{name}: {runs:?}");
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

/// Copies a fixture into a directory of its own.
fn home_of(fixture: &Path) -> Home {
    let home = Home::new();
    for name in FILES {
        fs::copy(fixture.join(name), home.file(name)).unwrap();
    }
    home
}

async fn check(fixture: &str) -> (Home, SqliteStore) {
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
    let listed = store.turns(&key("turns"), Window::first(9)).await.unwrap();
    let turns = listed.entries.iter().map(|entry| entry.turn.status);
    assert_eq!(
        turns.collect::<Vec<_>>(),
        [TurnStatus::InProgress, TurnStatus::Completed]
    );
    let window = Window::first(9);
    let threads = store.threads(ThreadFilter::All, window).await.unwrap();
    let threads = threads.entries.iter();
    let threads: Vec<_> = threads.map(|t| (t.stream.as_str(), t.is_open)).collect();
    let is_of_all = |(name, _): &&(&str, bool)| ["big", "turns"].contains(name);
    let of_all: Vec<_> = threads.iter().filter(is_of_all).collect();
    assert_eq!(of_all, [&("big", false), &("turns", true)]);
    let session = SessionId::from_seed(1);
    let file = store.files().read_file(session, "/dir/file").await;
    assert_eq!(file.unwrap().unwrap().content.as_deref(), Some("content"));
    let value = store.storage().get_value(session, "name").await;
    assert_eq!(value.unwrap().as_deref(), Some("value"));
    let secret = store.storage().get_secret(session, "name").await;
    assert_eq!(secret.unwrap().as_deref(), Some("secret"));
    let kept = store.records().get_session(session).await;
    assert_eq!(kept.unwrap().unwrap().title.as_deref(), Some("title"));
    fill(&store, "turns", vec![custom("goes on")]).await;
    assert!(store.verify().await.unwrap().findings.is_empty());
    (home, store)
}

#[tokio::test]
async fn earlier_versions_are_read_as_they_are() {
    for (name, streams) in [
        ("sqlite-1", 2),
        ("sqlite-1-packed", 2),
        ("sqlite-3", 2),
        ("sqlite-6", 5),
        ("sqlite-7", 5),
        ("sqlite-8", 5),
        ("sqlite-9", 5),
    ] {
        let home = home_of(&Path::new(FIXTURES).join(name));
        let store = SqliteStore::open_read_only(home.options()).await.unwrap();
        assert_eq!(read(&store, "big").await.unwrap().len(), 1, "{name}");
        let gaps = conformance::gaps(&store.journal(), &key("turns")).await;
        assert_eq!(gaps.unwrap(), [2..=3], "{name}");
        let standing = store.journal().standing(&key("turns")).await.unwrap();
        assert_eq!((standing.head, standing.open.len()), (6, 1), "{name}");
        let report = store.verify().await.unwrap();
        assert!(report.findings.is_empty(), "{name}: {:?}", report.findings);
        let (lines, exported) = store.export(Vec::new()).await.unwrap();
        assert!(
            exported.findings.is_empty() && exported.streams == streams,
            "{name}: {exported:?}"
        );
        let other = Home::new();
        let copy = other.open().await;
        let taken = copy.import(std::io::Cursor::new(lines)).await.unwrap();
        assert!(taken.findings.is_empty(), "{name}: {:?}", taken.findings);
    }
}

#[tokio::test]
async fn a_limit_in_bytes_holds_with_pages_of_any_size() {
    const LIMIT: u64 = 300_000;
    for (name, page) in [("sqlite-7", 2048), ("sqlite-8", 4096)] {
        let home = home_of(&Path::new(FIXTURES).join(name));
        let options = home.options().with_max_bytes(LIMIT);
        let store = SqliteStore::open(options).await.unwrap();
        let journal = store.journal();
        let claim = journal.claim(&key("s")).await.unwrap();
        let append = |seq| journal.append(&claim, events(seq, [custom(&"x".repeat(1000))]));
        let mut seq = 1;
        while append(seq).await.is_ok() {
            seq += 1;
        }
        store.close().await;
        let bytes = fs::metadata(home.file("windlass.db")).unwrap().len();
        assert_eq!((bytes % page, bytes / page), (0, LIMIT / page), "{name}");
    }
}

#[tokio::test]
#[ignore = "writes a new fixture"]
async fn write_a_fixture() {
    use std::time::Duration;

    use chrono::Utc;
    use windlass_store::sqlite::SqliteRetention;

    let home = Home::new();
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

async fn begin_run(log: &impl RunLog, run_id: &str) -> KeptRun {
    let started = RunStarted {
        run_id: run_id.to_owned(),
        agent_id: "agent".to_owned(),
        intent: "intent".to_owned(),
        outcome_description: None,
        started_at: chrono::Utc::now(),
    };
    match log.begin(started, "one").await.unwrap() {
        Begun::New(run) | Begun::Existing(run) => run,
    }
}

#[tokio::test]
async fn a_backup_that_was_cut_off_before_a_step_is_made_again() {
    let home = Home::new();
    for name in FILES {
        let fixture = Path::new(FIXTURES).join("sqlite-9").join(name);
        fs::copy(fixture, home.file(name)).unwrap();
    }
    let backup = home.file("windlass.db.before-version-10");
    let whole = fs::read(home.file("windlass.db")).unwrap();
    fs::write(&backup, &whole[..whole.len() / 2]).unwrap();
    home.open().await.close().await;
    let backup = rusqlite::Connection::open(backup).unwrap();
    let check: String = backup
        .pragma_query_value(None, "integrity_check", |row| row.get(0))
        .unwrap();
    assert_eq!(check, "ok");
}
