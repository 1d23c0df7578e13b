//! Rows are written late, but queries are exact: after a kill, from another process, and on a full disk.

use std::time::Duration;

use windlass_core::typed_id::TurnId;
use windlass_store::queries::ThreadState;
use windlass_store::{Journal, Queries, SqliteStore, ThreadQuery};

use super::super::support::{
    StoreHome, completed, custom, delta, events, fill, findings, key, started,
};
use super::play::{plain_turns, play};
use super::shown::{append, assert_same, everything};

fn count(home: &StoreHome, table: &str) -> i64 {
    let query = format!("SELECT count(*) FROM {table}");
    (home.database().query_row(&query, [], |row| row.get(0))).unwrap()
}

fn folded(home: &StoreHome) -> i64 {
    let query = "SELECT folded FROM state";
    (home.database().query_row(query, [], |row| row.get(0))).unwrap()
}

async fn names(store: &SqliteStore) -> Vec<String> {
    let page = store.queries().threads(ThreadQuery::first(99)).await;
    let entries = page.unwrap().entries.into_iter();
    entries.map(|thread| thread.stream.to_string()).collect()
}

#[tokio::test]
async fn closing_writes_all_rows() {
    let home = StoreHome::new();
    let store = home.open().await;
    for name in ["a", "b", "c"] {
        append(&store.journal(), name, &play(3, 80), 9).await;
    }
    let before = everything(&store.queries()).await;
    store.close().await;
    assert_eq!(folded(&home), {
        let query = "SELECT max(position) FROM records";
        let found: i64 = (home.database().query_row(query, [], |row| row.get(0))).unwrap();
        found
    });
    assert_eq!(count(&home, "threads"), 3);
    let store = home.open().await;
    assert_same(&everything(&store.queries()).await, &before, "then");
}

#[tokio::test]
async fn rows_are_written_automatically() {
    let home = StoreHome::new();
    let store = home.open().await;
    fill(&store, "s", vec![custom("a")]).await;
    let written = async {
        while folded(&home) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), written).await;
    waited.expect("no rows were written");
    assert_eq!(count(&home, "threads"), 1);
    assert_eq!(names(&store).await, ["s"]);
}

#[tokio::test]
async fn rows_are_complete_after_a_kill_before_they_were_written() {
    let home = StoreHome::new();
    let store = home.open().await;
    let events = play(7, 200);
    append(&store.journal(), "s", &events, 11).await;
    let expected = everything(&store.queries()).await;
    let crashed = home.crashed();
    crashed
        .database()
        .execute_batch(
            "UPDATE state SET folded = 0; DELETE FROM threads; DELETE FROM thread_records; DELETE FROM turns; \
             DELETE FROM waits; DELETE FROM runs; DELETE FROM open_streams",
        )
        .unwrap();
    let reader = SqliteStore::open_read_only(crashed.options())
        .await
        .unwrap();
    assert_same(&everything(&reader.queries()).await, &expected, "then");
    let after = crashed.open().await;
    assert_same(&everything(&after.queries()).await, &expected, "then");
    assert_eq!(findings(&after).await, [""; 0]);
    after.write_rows().await.unwrap();
    assert_same(&everything(&after.queries()).await, &expected, "then");
    assert_same(&everything(&reader.queries()).await, &expected, "then");
    assert_eq!(findings(&after).await, [""; 0]);
}

#[tokio::test]
async fn open_streams_are_found_in_rows_and_newer_records() {
    let home = StoreHome::new();
    let store = home.open().await;
    let (one, two) = (TurnId::new(), TurnId::new());
    fill(&store, "a", vec![started(one)]).await;
    fill(&store, "b", vec![started(two)]).await;
    fill(&store, "c", vec![custom("x")]).await;
    let journal = store.journal();
    let open = async || {
        let open = journal.open(None, 9).await.unwrap();
        open.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(open().await, ["a", "b"]);
    store.write_rows().await.unwrap();
    assert_eq!(open().await, ["a", "b"]);
    fill(&store, "a", vec![completed(one)]).await;
    assert_eq!(open().await, ["b"]);
    store.write_rows().await.unwrap();
    assert_eq!(open().await, ["b"]);
    assert_eq!(journal.open(Some(&key("b")), 9).await.unwrap(), []);
    fill(&store, "a", vec![started(TurnId::new())]).await;
    assert_eq!(journal.open(None, 1).await.unwrap(), [key("a")]);
    let after = home.crashed().open().await;
    assert_eq!(after.journal().open(None, 9).await.unwrap().len(), 2);
}

#[tokio::test]
async fn text_chunks_of_an_open_turn_are_counted_and_read_once() {
    let home = StoreHome::new();
    let store = home.open().await;
    let turn = TurnId::new();
    let chunks = (0..200).map(|n| delta(turn, &n.to_string()));
    fill(&store, "s", vec![started(turn)]).await;
    fill(&store, "s", chunks.collect()).await;
    for _ in 0..2 {
        let thread = store.queries().thread(&key("s")).await.unwrap().unwrap();
        assert_eq!((thread.seq, thread.state), (201, ThreadState::Running));
        store.write_rows().await.unwrap();
    }
    assert_eq!(findings(&store).await, [""; 0]);
    store.rebuild(|_| {}).await.unwrap();
    let thread = store.queries().thread(&key("s")).await.unwrap().unwrap();
    assert_eq!(thread.seq, 201);
    assert_eq!(findings(&store).await, [""; 0]);
}

#[tokio::test]
async fn appends_succeed_when_rows_cannot_be_written() {
    let home = StoreHome::new();
    let store = home.open().await;
    append(&store.journal(), "s", &plain_turns(1, 20), 10).await;
    store.write_rows().await.unwrap();
    // Writes of thread rows fail; the log is complete.
    let refuse = "CREATE TRIGGER no BEFORE UPDATE ON threads BEGIN SELECT raise(ABORT, 'no'); END";
    home.database().execute_batch(refuse).unwrap();
    fill(&store, "s", vec![custom("a"), custom("b")]).await;
    let error = store.write_rows().await.unwrap_err();
    assert!(error.to_string().contains("no"), "{error}");
    fill(&store, "s", vec![custom("c")]).await;
    fill(&store, "t", vec![custom("d")]).await;
    let head = store.journal().status(&key("s")).await.unwrap().head;
    let shown = store.queries().thread(&key("s")).await.unwrap().unwrap();
    assert_eq!(shown.seq, head);
    assert_eq!(names(&store).await.len(), 2);
    home.database().execute_batch("DROP TRIGGER no").unwrap();
    store.write_rows().await.unwrap();
    assert_eq!(findings(&store).await, [""; 0]);
    assert_eq!(count(&home, "threads"), 2);
}

#[tokio::test]
async fn full_store_answers_queries() {
    let home = StoreHome::new();
    let options = home.options().with_max_bytes(1_000_000);
    let store = SqliteStore::open(options).await.unwrap();
    let journal = store.journal();
    let mut streams = 0;
    loop {
        let name = format!("{streams:05}");
        let Ok(claim) = journal.claim(&key(&name)).await else {
            break;
        };
        let batch = events(1, [custom(&"x".repeat(2000))]);
        if journal.append(&claim, batch).await.is_err() {
            break;
        }
        streams += 1;
    }
    assert!(streams > 100, "{streams}");
    let listed = store.queries().threads(ThreadQuery::first(9999)).await;
    assert_eq!(listed.unwrap().entries.len(), streams);
    for stream in 0..streams {
        let removed = journal.remove(&key(&format!("{stream:05}"))).await;
        assert!(removed.unwrap());
    }
    fill(&store, "again", vec![custom("y")]).await;
    assert_eq!(names(&store).await, ["again"]);
    assert_eq!(findings(&store).await, [""; 0]);
}

#[tokio::test]
async fn thread_with_a_damaged_record_is_shown_up_to_it() {
    let home = StoreHome::new();
    let store = home.open().await;
    let data = || vec![started(TurnId::new()), custom("a"), custom("b")];
    fill(&store, "bad", data()).await;
    fill(&store, "good", data()).await;
    let crashed = home.crashed();
    crashed
        .database()
        .execute_batch(
            "UPDATE records SET body = x'00' WHERE stream = 1 AND seq = 2; UPDATE state SET folded = 0; \
             DELETE FROM threads; DELETE FROM turns; DELETE FROM open_streams",
        )
        .unwrap();
    let store = crashed.open().await;
    let seq = async |name| {
        let thread = store.queries().thread(&key(name)).await.unwrap();
        thread.map(|thread| thread.seq)
    };
    for _ in 0..2 {
        assert_eq!((seq("bad").await, seq("good").await), (Some(1), Some(3)));
        store.write_rows().await.unwrap();
    }
    let turn = store.queries().thread(&key("bad")).await.unwrap().unwrap();
    let turn = turn.latest.unwrap().id;
    let detail = store.queries().turn_detail(&key("bad"), turn).await;
    assert!(detail.unwrap_err().to_string().contains("record 2"));
    let report = store.rebuild(|_| {}).await.unwrap();
    assert_eq!((report.streams, report.findings.len()), (1, 1));
    assert_eq!(report.findings[0].stream, Some(key("bad")));
    assert_eq!((seq("bad").await, seq("good").await), (Some(1), Some(3)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_complete_while_rows_are_written() {
    let home = StoreHome::new();
    let store = home.open().await;
    let reader = SqliteStore::open_read_only(home.options()).await.unwrap();
    let writing = {
        let store = store.clone();
        tokio::spawn(async move {
            for stream in 0..150 {
                append(
                    &store.journal(),
                    &stream.to_string(),
                    &plain_turns(stream, 2),
                    4,
                )
                .await;
                if stream % 10 == 9 {
                    store.write_rows().await.unwrap();
                }
            }
        })
    };
    let mut seen = [0; 2];
    while !writing.is_finished() {
        for (queries, seen) in [store.queries(), reader.queries()].iter().zip(&mut seen) {
            let counts = queries.counts().await.unwrap();
            assert!(counts.unrecorded >= *seen, "a thread was lost");
            *seen = counts.unrecorded;
            let listed = queries.threads(ThreadQuery::first(999)).await.unwrap();
            assert!(listed.entries.len() as u64 >= *seen);
        }
    }
    writing.await.unwrap();
    let (ours, theirs) = (store.queries(), reader.queries());
    assert_eq!(ours.counts().await.unwrap().unrecorded, 150);
    assert_eq!(everything(&ours).await, everything(&theirs).await);
    assert_eq!(findings(&store).await, [""; 0]);
}
