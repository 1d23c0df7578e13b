//! `verify` reports rows that differ from the events, and `rebuild` repairs them. Damage in rows affects nothing else.

use windlass_store::{Journal, Queries, QueryError, ThreadQuery};

use super::super::support::{StoreHome, custom, events, fill, findings, key};
use super::play::play;
use super::shown::{append, assert_same, everything};

/// Runs SQL on the database and compares the findings.
async fn check(change: &str, expected: &[&str]) {
    let home = StoreHome::new();
    let store = home.open().await;
    append(&store.journal(), "s", &play(11, 300), 50).await;
    fill(&store, "other", vec![custom("x")]).await;
    let before = everything(&store.queries()).await;
    store.close().await;
    home.database().execute_batch(change).unwrap();
    let store = home.open().await;
    let found = findings(&store).await;
    let is_it = |(found, expected): (&String, &&str)| found.starts_with(expected);
    let are_same = found.len() == expected.len() && found.iter().zip(expected).all(is_it);
    assert!(are_same, "{change}: {found:#?}");
    // Other streams accept appends.
    let journal = store.journal();
    let claim = journal.claim(&key("new")).await.unwrap();
    let appended = journal.append(&claim, events(1, [custom("y")])).await;
    appended.unwrap();
    journal.remove(&key("new")).await.unwrap();
    store.rebuild(|_| {}).await.unwrap();
    let left = findings(&store).await;
    assert!(left.is_empty(), "{change}: {left:?}");
    assert_same(&everything(&store.queries()).await, &before, change);
}

const ONE: &str = "WHERE place = (SELECT min(place) FROM turns)";

#[tokio::test]
async fn changed_row_is_found() {
    let thread = "stream s: the row of the thread differs from its events";
    let turn = "stream s: the row of turn";
    check("", &[]).await;
    for change in ["turns = 7", "preview = 'x'", "usage = NULL", "state = 2"] {
        let change = format!("UPDATE threads SET {change} WHERE stream = 1");
        check(&change, &[thread]).await;
    }
    for change in [
        "steps = 99",
        "view = replace(view, 'model', 'm')",
        "first = first + 1",
    ] {
        check(&format!("UPDATE turns SET {change} {ONE}"), &[turn]).await;
    }
    let impossible = "1 turns are in an impossible state";
    check(
        &format!("UPDATE turns SET status = 0 {ONE}"),
        &[impossible, turn],
    )
    .await;
    let waits = "UPDATE waits SET kind = 2 WHERE exec = (SELECT min(exec) FROM waits)";
    check(waits, &["stream s: the row of the wait"]).await;
}

#[tokio::test]
async fn missing_outdated_or_extra_row_is_found() {
    check(
        "DELETE FROM threads WHERE stream = 2",
        &["stream other: the row of the thread is missing"],
    )
    .await;
    check(
        "UPDATE threads SET seq = seq - 1 WHERE stream = 1",
        &["stream s: the row of the thread differs from its events"],
    )
    .await;
    check(
        "UPDATE threads SET seq = seq + 1 WHERE stream = 1",
        &["stream s: the row of the thread is ahead of its events"],
    )
    .await;
    check(
        &format!("DELETE FROM turns {ONE}"),
        &["stream s: the row of turn"],
    )
    .await;
    check(
        "INSERT INTO threads SELECT 99, seq, at, created_at, updated_at, kind, state, agent, latest, preview, turns, \
         items, usage, origin, gone FROM threads LIMIT 1",
        &["1 rows of threads belong to no stream"],
    )
    .await;
    check(
        "INSERT INTO open_streams VALUES (77)",
        &["1 streams that are listed as open do not exist"],
    )
    .await;
}

#[tokio::test]
async fn unreadable_row_is_a_typed_error_until_rebuilt() {
    let home = StoreHome::new();
    let store = home.open().await;
    append(&store.journal(), "s", &play(11, 100), 50).await;
    fill(&store, "other", vec![custom("x")]).await;
    store.close().await;
    for change in [
        "UPDATE threads SET latest = '{' WHERE stream = 1",
        "UPDATE threads SET state = 77 WHERE stream = 1",
        "UPDATE turns SET view = '[]'",
        "UPDATE turns SET outcome = 99 WHERE outcome IS NOT NULL",
    ] {
        home.database().execute_batch(change).unwrap();
        let store = home.open().await;
        let listed = store.queries().threads(ThreadQuery::first(9)).await;
        let shown = store.queries().thread_detail(&key("s"), 99).await;
        assert!(listed.is_err() || shown.is_err(), "{change}");
        for error in [listed.err(), shown.err()].into_iter().flatten() {
            let is_named = match &error {
                QueryError::DamagedRow { what, .. } => what.contains("the row of"),
                QueryError::Journal(_) => true,
                _ => false,
            };
            assert!(is_named, "{change}: {error:?}");
        }
        assert!(!findings(&store).await.is_empty(), "{change}");
        let other = store.queries().thread(&key("other")).await;
        assert!(other.unwrap().is_some(), "{change}");
        // The damaged thread still accepts records, and its rows are rebuilt.
        fill(&store, "s", vec![custom("on")]).await;
        let other = store.queries().thread(&key("other")).await;
        assert!(other.unwrap().is_some(), "{change}");
        let listed = store.queries().threads(ThreadQuery::first(9)).await;
        assert!(!listed.unwrap().entries.is_empty(), "{change}");
        store.write_rows().await.unwrap();
        store.rebuild(|_| {}).await.unwrap();
        assert_eq!(findings(&store).await, [""; 0], "{change}");
        let head = store.journal().status(&key("s")).await.unwrap().head;
        let shown = store.queries().thread_detail(&key("s"), 99).await;
        assert_eq!(shown.unwrap().unwrap().thread.seq, head, "{change}");
        store.close().await;
    }
}
