//! The feed with transactions that become visible in another order, and on another server.

use windlass_store::journal::all_events;
use windlass_store::{CursorError, Journal, JournalError};
use windlass_store_postgres::PostgresStore;

use super::server::shared;
use super::support::{batch, client, key, options, store};

#[tokio::test]
async fn record_that_becomes_visible_later_is_not_missed() {
    let Some(server) = shared("record_that_becomes_visible_later_is_not_missed") else {
        return;
    };
    let options = options(server);
    let journal = PostgresStore::open(options.clone())
        .await
        .unwrap()
        .journal();
    let (early, late) = (key("early"), key("late"));
    let claim = journal.claim(&early).await.unwrap();
    journal.append(&claim, batch(1, &["a"])).await.unwrap();
    // Transactions of other tests may hide the record for a while.
    let first = loop {
        let page = journal.read_after(None, 9).await.unwrap();
        if page.is_end {
            break page;
        }
    };
    assert_eq!(first.entries.len(), 1);
    // A transaction with a lower number commits after the append of `late`: it moves the record of `early` to its own number.
    let slow = client(&options).await;
    slow.batch_execute(
        "BEGIN; UPDATE records SET commit_number = pg_current_xact_id()::text::bigint WHERE stream = 1",
    )
    .await
    .unwrap();
    let claim = journal.claim(&late).await.unwrap();
    journal.append(&claim, batch(1, &["b"])).await.unwrap();
    let hidden = journal.read_after(Some(&first.next), 9).await.unwrap();
    assert_eq!((hidden.entries.len(), hidden.is_end), (0, false));
    slow.batch_execute("COMMIT").await.unwrap();
    let mut seen = Vec::new();
    let mut after = hidden.next;
    while seen.len() < 2 {
        let page = journal.read_after(Some(&after), 1).await.unwrap();
        seen.extend(page.entries.into_iter().map(|entry| entry.stream));
        after = page.next;
    }
    assert_eq!(seen, [early, late]);
}

#[tokio::test]
async fn feed_continues_after_a_restore_on_another_server() {
    let Some(server) = shared("feed_continues_after_a_restore_on_another_server") else {
        return;
    };
    let options = options(server);
    let store = PostgresStore::open(options.clone()).await.unwrap();
    let claim = store.journal().claim(&key("s")).await.unwrap();
    store
        .journal()
        .append(&claim, batch(1, &["a", "b"]))
        .await
        .unwrap();
    store.close();
    // The other server has run more transactions than this one.
    let other = client(&options).await;
    let later = "UPDATE records SET commit_number = commit_number + 1000000000";
    other.batch_execute(later).await.unwrap();
    let journal = PostgresStore::open(options.clone())
        .await
        .unwrap()
        .journal();
    let claim = journal.claim(&key("s")).await.unwrap();
    journal.append(&claim, batch(3, &["c"])).await.unwrap();
    let again = PostgresStore::open(options).await.unwrap().journal();
    again.append(&claim, batch(4, &["d"])).await.unwrap();
    let seqs = all_events(&journal).await.unwrap();
    let seqs: Vec<_> = seqs.iter().map(|event| event.seq()).collect();
    assert_eq!(seqs, [1, 2, 3, 4]);
}

#[tokio::test]
async fn cursor_of_another_database_is_refused() {
    let Some(server) = shared("cursor_of_another_database_is_refused") else {
        return;
    };
    let (one, two) = (store(server).await.journal(), store(server).await.journal());
    let cursor = one.read_after(None, 1).await.unwrap().next;
    let refused = two.read_after(Some(&cursor), 1).await;
    let expected = JournalError::Cursor(CursorError::Foreign(cursor));
    assert_eq!(refused, Err(expected));
}
