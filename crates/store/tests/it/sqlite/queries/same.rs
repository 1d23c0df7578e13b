//! Whatever is appended, in whatever groups: the tables, the tail, another process and memory answer the same.

use std::io::Cursor;
use std::sync::Arc;

use windlass_core::events::Event;
use windlass_store::{MemoryJournal, MemoryQueries, MemoryRunLog, SqliteStore};

use super::super::support::{StoreHome, findings};
use super::play::play;
use super::shown::{append, assert_same, everything};

const SEEDS: std::ops::Range<u64> = 0..6;

async fn in_memory(streams: &[(&str, &[Arc<Event>])]) -> Vec<String> {
    let journal = Arc::new(MemoryJournal::new());
    for (name, events) in streams {
        append(journal.as_ref(), name, events, 50).await;
    }
    let queries = MemoryQueries::new(journal, Arc::new(MemoryRunLog::default()));
    everything(&queries).await
}

#[tokio::test]
async fn all_stores_answer_the_same() {
    for seed in SEEDS {
        let home = StoreHome::new();
        let (s, t) = (play(seed, 30 + seed as usize * 30), play(seed + 100, 30));
        let (first, second) = s.split_at(s.len() * 2 / 3);
        let group = 1 + seed as usize * 3 % 25;
        let store = home.open().await;
        append(&store.journal(), "s", first, group).await;
        if seed % 3 == 0 {
            store.write_rows().await.unwrap();
        }
        append(&store.journal(), "t", &t, group).await;
        let half = in_memory(&[("s", first), ("t", &t)]).await;
        assert_same(
            &everything(&store.queries()).await,
            &half,
            &format!("seed {seed}"),
        );
        assert_eq!(findings(&store).await, [""; 0], "seed {seed}");
        let reader = SqliteStore::open_read_only(home.options()).await.unwrap();
        assert_same(
            &everything(&reader.queries()).await,
            &half,
            &format!("beside {seed}"),
        );
        if seed % 2 == 0 {
            store.close().await;
        } else {
            let crashed = home.crashed();
            let after = crashed.open().await;
            assert_same(
                &everything(&after.queries()).await,
                &half,
                &format!("killed {seed}"),
            );
            store.close().await;
        }

        // The folds are gone, and are restored from the rows.
        let store = home.open().await;
        append(&store.journal(), "s", second, group).await;
        let all = in_memory(&[("s", &s), ("t", &t)]).await;
        assert_same(
            &everything(&store.queries()).await,
            &all,
            &format!("seed {seed}"),
        );
        assert_same(
            &everything(&reader.queries()).await,
            &all,
            &format!("beside {seed}"),
        );
        store.write_rows().await.unwrap();
        assert_same(
            &everything(&store.queries()).await,
            &all,
            &format!("written {seed}"),
        );
        assert_same(
            &everything(&reader.queries()).await,
            &all,
            &format!("beside {seed}"),
        );
        assert_eq!(findings(&store).await, [""; 0], "seed {seed}");

        let mut heard = Vec::new();
        let report = store.rebuild(|done| heard.push((done.done, done.total)));
        assert_eq!(report.await.unwrap().streams, 2);
        assert_eq!(heard, [(1, 2), (2, 2)]);
        assert_same(
            &everything(&store.queries()).await,
            &all,
            &format!("anew {seed}"),
        );
        assert_eq!(findings(&store).await, [""; 0], "anew {seed}");

        let (lines, _) = store.export(Vec::new()).await.unwrap();
        let other = StoreHome::new();
        let copy = other.open().await;
        let taken = copy.import(Cursor::new(lines)).await.unwrap();
        assert_eq!(taken.streams, 2);
        assert_same(
            &everything(&copy.queries()).await,
            &all,
            &format!("imported {seed}"),
        );
        assert_eq!(findings(&copy).await, [""; 0], "imported {seed}");
    }
}

#[tokio::test]
async fn evicted_folds_continue_from_their_rows() {
    const STREAMS: usize = 1100;
    let home = StoreHome::new();
    let store = home.open().await;
    let events = play(5, 60);
    let (begin, rest) = events.split_at(4);
    let parts: Vec<_> = std::iter::once(begin).chain(rest.chunks(30)).collect();
    for part in &parts {
        for stream in 0..STREAMS {
            // Most of them are short.
            if stream < 40 || part[0].seq() == 1 {
                append(&store.journal(), &format!("{stream:04}"), part, 99).await;
            }
        }
        store.queries_touched().await;
    }
    let whole = in_memory(&[("0007", &events)]).await;
    let shown = super::shown::thread(&store.queries(), &super::super::support::key("0007")).await;
    assert_eq!(shown, whole[..shown.len()]);
    assert_eq!(findings(&store).await, [""; 0]);
}

trait Touched {
    async fn queries_touched(&self);
}

impl Touched for SqliteStore {
    /// Makes the tail fold new records.
    async fn queries_touched(&self) {
        use windlass_store::Queries;
        self.queries().counts().await.unwrap();
    }
}
