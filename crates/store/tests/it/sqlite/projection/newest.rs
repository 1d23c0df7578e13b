//! Rows of threads that are not in the table yet are listed all the same, also after a crash and by other processes.

use std::fs;

use windlass_core::typed_id::TurnId;
use windlass_store::sqlite::{ThreadEntry, ThreadFilter, Window};
use windlass_store::{Journal, SqliteStore};

use super::super::support::{Home, completed, custom, fill, key, started};
use super::play::play;
use super::shown::{append, findings};

async fn all(store: &SqliteStore) -> Vec<ThreadEntry> {
    let window = Window::first(10_000);
    let listed = store.threads(ThreadFilter::All, window).await.unwrap();
    listed.entries
}

fn stored(home: &Home) -> u64 {
    let query = "SELECT count(*) FROM threads";
    let count: i64 = home
        .database()
        .query_row(query, [], |row| row.get(0))
        .unwrap();
    count.cast_unsigned()
}

/// Copies a database that is in use, as a crash would leave it.
fn crashed(home: &Home) -> Home {
    let copy = Home::new();
    for name in ["windlass.db", "windlass.db-wal", "windlass.commits"] {
        fs::copy(home.file(name), copy.file(name)).unwrap();
    }
    copy
}

#[tokio::test]
async fn what_only_memory_has_is_folded_after_a_crash() {
    for seed in 0..6 {
        let home = Home::new();
        let store = home.open().await;
        for n in 0..5 {
            let events = play(seed * 10 + n, 30 + 20 * n as usize);
            append(&store, &n.to_string(), &events, 7).await;
        }
        let before = all(&store).await;
        assert_eq!(before.len(), 5);
        assert_eq!(stored(&home), 0, "five rows are too few to be written");

        let copy = crashed(&home);
        let reader = SqliteStore::open_read_only(copy.options()).await.unwrap();
        assert_eq!(all(&reader).await, before, "seed {seed}, read only");
        reader.close().await;
        let again = copy.open().await;
        assert_eq!(all(&again).await, before, "seed {seed}, crashed");
        assert_eq!(findings(&again).await, [""; 0], "seed {seed}");
        again.close().await;
        assert_eq!(stored(&copy), 5, "closing writes them");
        assert_eq!(all(&copy.open().await).await, before, "seed {seed}, closed");
    }
}

#[tokio::test]
async fn many_threads_go_to_the_table_and_newer_rows_cover_theirs() {
    let home = Home::new();
    let store = home.open().await;
    let count = 1_100;
    for n in 0..count {
        fill(&store, &n.to_string(), vec![custom("x")]).await;
    }
    assert!(stored(&home) >= 512);
    let turn = TurnId::new();
    fill(&store, "3", vec![started(turn)]).await;
    fill(&store, "5", vec![started(turn), completed(turn)]).await;
    let listed = all(&store).await;
    assert_eq!(listed.len(), count);
    let first: Vec<_> = listed[..3].iter().map(|t| t.stream.as_str()).collect();
    assert_eq!(first, ["5", "3", "1099"]);
    let open = store.threads(ThreadFilter::Open, Window::first(9)).await;
    let open = open.unwrap().entries;
    assert_eq!((open.len(), open[0].open_turn()), (1, Some(turn)));
    let (mut window, mut paged) = (Window::first(100), Vec::new());
    loop {
        let page = store.threads(ThreadFilter::All, window).await.unwrap();
        paged.extend(page.entries);
        match page.next {
            Some(next) => window = Window::after(next, 100),
            None => break,
        }
    }
    assert_eq!(paged, listed);
    store.journal().remove(&key("3")).await.unwrap();
    store.journal().remove(&key("4")).await.unwrap();
    assert_eq!(all(&store).await.len(), count - 2);
    let copy = crashed(&home);
    let again = copy.open().await;
    assert_eq!(all(&again).await, all(&store).await);
    assert_eq!(findings(&again).await, [""; 0]);
}

#[tokio::test]
async fn what_is_written_right_after_a_crash_is_newer_than_what_is_folded() {
    let home = Home::new();
    let store = home.open().await;
    let count = 300;
    for n in 0..count {
        fill(&store, &n.to_string(), vec![custom("x")]).await;
    }
    let copy = crashed(&home);
    store.close().await;
    let again = copy.open().await;
    let turn = TurnId::new();
    for n in [7, 8, 299] {
        fill(&again, &n.to_string(), vec![started(turn)]).await;
    }
    again.journal().remove(&key("9")).await.unwrap();
    let found = again.journal().thread(&key("8")).await.unwrap().unwrap();
    assert_eq!(found.open_turn(), Some(turn));
    let listed = all(&again).await;
    assert_eq!(listed.len(), count - 1);
    let first: Vec<_> = listed[..4].iter().map(|t| t.stream.as_str()).collect();
    assert_eq!(first, ["299", "8", "7", "298"]);
    assert_eq!(findings(&again).await, [""; 0]);
    again.close().await;
    assert_eq!(stored(&copy), count as u64 - 1);
    assert_eq!(all(&copy.open().await).await, listed);
}
