//! The findings of `verify`, with and without an expected head.

use windlass_core::typed_id::TurnId;
use windlass_store::Journal;

use super::support::{StoreHome, completed, custom, fill, key, started};

#[tokio::test]
async fn valid_journal_has_no_findings() {
    let home = StoreHome::new();
    let store = home.open().await;
    let turn = TurnId::new();
    fill(
        &store,
        "a",
        vec![started(turn), custom("x"), completed(turn)],
    )
    .await;
    fill(&store, "b", vec![custom(&"x".repeat(40_000))]).await;
    let report = store.verify().await.unwrap();
    assert_eq!((report.heads.len(), report.records), (2, 4));
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let one = store.verify_stream(&key("a"), None).await.unwrap();
    assert_eq!(one.heads, report.heads[..1]);
    let of_journal = store.journal().verify(&key("a")).await.unwrap().unwrap();
    assert_eq!(
        (of_journal.head, &of_journal.chain),
        (one.heads[0].seq, &one.heads[0].chain)
    );
    assert_eq!(of_journal.findings, []);
    let missing = store.verify_stream(&key("c"), None).await.unwrap();
    assert_eq!(missing.findings[0].to_string(), "stream c: it is missing");
}

#[tokio::test]
async fn truncated_tail_is_found_with_the_expected_head() {
    let home = StoreHome::new();
    let store = home.open().await;
    fill(&store, "s", vec![custom("1"), custom("2"), custom("3")]).await;
    let head = store.verify().await.unwrap().heads.remove(0);
    fill(&store, "s", vec![custom("4")]).await;
    let check = async |store: &windlass_store::SqliteStore| {
        let report = store.verify_stream(&key("s"), Some(head.clone())).await;
        let findings = report.unwrap().findings;
        findings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(check(&store).await.is_empty(), "it may have grown");
    store.close().await;

    home.database()
        .execute_batch(
            "DELETE FROM records WHERE seq >= 3; DELETE FROM spans WHERE last = 4; \
             UPDATE spans SET last = 2, position = 2, count = 2; DELETE FROM threads; UPDATE state SET folded = 0",
        )
        .unwrap();
    let options = home
        .options()
        .on_lost_commits(windlass_store::sqlite::OnLostCommits::Accept);
    let store = windlass_store::SqliteStore::open(options).await.unwrap();
    let report = store.verify_stream(&key("s"), None).await.unwrap();
    assert!(
        report.findings.is_empty(),
        "without the head it cannot be known"
    );
    assert_eq!(
        check(&store).await,
        ["stream s: it ends at 2, and 3 was expected: its tail was cut"]
    );
    fill(&store, "s", vec![custom("other")]).await;
    assert_eq!(
        check(&store).await,
        ["stream s: its record 3 is not the one that was seen there"]
    );
}

#[tokio::test]
async fn orphaned_rows_are_found() {
    let home = StoreHome::new();
    let store = home.open().await;
    fill(&store, "s", vec![custom("1")]).await;
    store.close().await;
    let connection = home.database();
    connection
        .execute_batch("INSERT INTO blobs VALUES (x'01', x'02'); UPDATE records SET stream = 9")
        .unwrap();
    drop(connection);
    let store = home.open().await;
    let findings = store.verify().await.unwrap().findings;
    let found: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "1 records belong to no stream",
            "1 records have no span in their stream",
            "1 spans refer to no record",
            "1 blobs are named by no record",
            "stream s, record 1: it is missing"
        ]
    );
}
