//! The journal: the suite, and that a store is the same when it is opened again.

use std::sync::{Arc, Mutex};

use windlass_core::typed_id::TurnId;
use windlass_store::journal::all_events;
use windlass_store::sqlite::ChainKey;
use windlass_store::{Journal, JournalError, SqliteStore, conformance};

use super::support::{StoreHome, completed, custom, events, fill, key, read, started};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_conforms() {
    let homes = Mutex::new(Vec::new());
    conformance::journal(async || {
        let home = StoreHome::new();
        let store = home.open().await;
        homes.lock().unwrap().push(home);
        Arc::new(store.journal()) as Arc<dyn Journal>
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn journal_survives_a_restart() {
    let home = StoreHome::new();
    let store = home.open().await;
    let turn = TurnId::new();
    fill(
        &store,
        "open",
        vec![custom("a"), started(turn), custom("b")],
    )
    .await;
    fill(&store, "big", vec![custom(&"x".repeat(100_000))]).await;
    let before = all_events(&store.journal()).await.unwrap();
    let (streams, commits) = (store.journal().streams().await.unwrap(), store.commits());
    let epoch = store.journal().claim(&key("open")).await.unwrap().epoch;
    store.close().await;

    let store = home.open().await;
    let journal = store.journal();
    assert_eq!(all_events(&journal).await.unwrap(), before);
    assert_eq!(journal.streams().await.unwrap(), streams);
    assert_eq!(streams[1].open_from, Some(2));
    assert!(
        store.commits() > commits,
        "the claim, and the rows of threads where they were not written before"
    );
    let claim = journal.claim(&key("open")).await.unwrap();
    assert_eq!((claim.epoch, claim.head), (epoch + 1, 3));

    journal
        .append(&claim, events(4, [completed(turn), custom("c")]))
        .await
        .unwrap();
    let streams = journal.streams().await.unwrap();
    assert_eq!((streams[1].head, streams[1].open_from), (5, None));
    assert_eq!(read(&store, "open").await.unwrap().len(), 5);
}

#[tokio::test]
async fn closed_store_is_unavailable() {
    let home = StoreHome::new();
    let store = home.open().await;
    let journal = store.journal();
    let claim = journal.claim(&key("s")).await.unwrap();
    store.close().await;
    let refused = journal.append(&claim, events(1, [custom("a")])).await;
    let unavailable = |text: &str| text.contains("closed");
    assert!(matches!(refused, Err(JournalError::Unavailable(why)) if unavailable(&why)));
    let refused = journal.read(&key("s"), 0, 1).await;
    assert!(matches!(refused, Err(JournalError::Unavailable(why)) if unavailable(&why)));
}

#[tokio::test]
async fn keyed_chain_requires_its_key() {
    let home = StoreHome::new();
    let keyed = |byte| home.options().with_chain_key(ChainKey::new([byte; 32]));
    let store = SqliteStore::open(keyed(1)).await.unwrap();
    fill(&store, "s", vec![custom("a")]).await;
    store.close().await;
    for (options, why) in [
        (home.options(), "none was given"),
        (keyed(2), "another one"),
    ] {
        let error = SqliteStore::open(options).await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let store = SqliteStore::open(keyed(1)).await.unwrap();
    assert_eq!(read(&store, "s").await.unwrap().len(), 1);
    store.close().await;

    let home = StoreHome::new();
    home.open().await.close().await;
    let keyed = home.options().with_chain_key(ChainKey::new([1; 32]));
    let error = SqliteStore::open(keyed).await.unwrap_err().to_string();
    assert!(error.contains("made without one"), "{error}");
}
