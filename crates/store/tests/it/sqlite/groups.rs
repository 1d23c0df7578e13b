//! Commits are shared.

use tokio::task::JoinSet;
use windlass_store::journal::all_events;
use windlass_store::{Journal, JournalError};

use super::support::{StoreHome, custom, events, key, read};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r16_thousand_appends_to_hundred_streams_cost_at_most_hundred_commits() {
    const STREAMS: u64 = 100;
    const APPENDS: u64 = 10;
    let home = StoreHome::new();
    let store = home.open().await;
    let mut claims = Vec::new();
    for stream in 0..STREAMS {
        let name = format!("s{stream}");
        claims.push(store.journal().claim(&key(&name)).await.unwrap());
    }
    let before = store.commits();
    let mut writers = JoinSet::new();
    for claim in claims {
        let journal = store.journal();
        writers.spawn(async move {
            for seq in 1..=APPENDS {
                journal.append(&claim, events(seq, [custom("x")])).await?;
            }
            Ok::<_, JournalError>(())
        });
    }
    for written in writers.join_all().await {
        written.unwrap();
    }
    let commits = store.commits() - before;
    assert!(commits <= 100, "{commits} commits");
    let all = all_events(&store.journal()).await.unwrap();
    assert_eq!(all.len() as u64, STREAMS * APPENDS);
}

#[tokio::test]
async fn refused_append_fails_alone() {
    let home = StoreHome::new();
    let store = home.open().await;
    let journal = store.journal();
    let good = journal.claim(&key("good")).await.unwrap();
    let stale = journal.claim(&key("stale")).await.unwrap();
    journal.claim(&key("stale")).await.unwrap();
    // All of these wait when the first commit ends, and share the next.
    let (first, refused, second, wrong, third) = tokio::join!(
        journal.append(&good, events(1, [custom("1")])),
        journal.append(&stale, events(1, [custom("x")])),
        journal.append(&good, events(2, [custom("2"), custom("3")])),
        journal.append(&good, events(2, [custom("x")])),
        journal.append(&good, events(4, [custom("4")])),
    );
    assert!(first.is_ok() && second.is_ok() && third.is_ok());
    assert!(matches!(refused, Err(JournalError::Fenced { .. })));
    assert!(matches!(
        wrong,
        Err(JournalError::OutOfSequence { head: 3, .. })
    ));
    assert_eq!(read(&store, "good").await.unwrap().len(), 4);
    assert!(read(&store, "stale").await.unwrap().is_empty());
}

#[tokio::test]
async fn the_log_is_written_back_while_the_store_is_in_use() {
    const MIB: u64 = 1024 * 1024;
    let home = StoreHome::new();
    let store = home.open().await;
    let journal = store.journal();
    let claim = journal.claim(&key("s")).await.unwrap();
    let text = "x".repeat(MIB as usize / 64);
    let size = |name: &str| std::fs::metadata(home.path().join(name)).unwrap().len();
    for seq in 1..=4_000 {
        let written = journal.append(&claim, events(seq, [custom(&text)])).await;
        written.unwrap();
        let log = size("windlass.db-wal");
        assert!(log <= 24 * MIB, "the log has {log} bytes at {seq}");
    }
    assert!(size("windlass.db") >= 32 * MIB, "the rest is in its place");
    store.close().await;
    let read = home.open().await.journal().read(&key("s"), 3_999, 10).await;
    assert_eq!(read.unwrap().events.len(), 1);
}

#[tokio::test]
async fn log_shrinks_after_a_burst() {
    const MIB: u64 = 1024 * 1024;
    let home = StoreHome::new();
    let store = home.open().await;
    let journal = store.journal();
    let claim = journal.claim(&key("s")).await.unwrap();
    let text = "x".repeat(MIB as usize / 2);
    let append = |seq, text: &str| journal.append(&claim, events(seq, [custom(text)]));
    let size = || {
        std::fs::metadata(home.file("windlass.db-wal"))
            .unwrap()
            .len()
    };
    append(1, "").await.unwrap();
    // A reader prevents the log from restarting.
    let reader = home.database();
    reader.execute_batch("BEGIN; SELECT 1 FROM state").unwrap();
    for seq in 2..=54 {
        append(seq, &text).await.unwrap();
    }
    assert!(size() > 26 * MIB, "{}", size());
    reader.execute_batch("COMMIT").unwrap();
    // The thread that writes rows sometimes reads too.
    let mut seq = 55;
    while size() > 20 * MIB {
        append(seq, "").await.unwrap();
        seq += 1;
        assert!(seq < 9999, "{}", size());
    }
}
