//! Records and rows that were changed in the database.

use windlass_core::typed_id::SessionId;
use windlass_store::{Journal, JournalError};
use windlass_store_postgres::PostgresStore;

use super::server::shared;
use super::support::{batch, client, key, options};

#[tokio::test]
async fn changed_records_are_detected() {
    let Some(server) = shared("changed_records_are_detected") else {
        return;
    };
    let options = options(server);
    let journal = PostgresStore::open(options.clone())
        .await
        .unwrap()
        .journal();
    let other = client(&options).await;
    let long = "x".repeat(100_000);
    let text =
        "a text that occurs in two records, so that the second one refers to the first one of them";
    for (name, change, seq) in [
        (
            "body",
            "UPDATE records SET body = body || '\\x20' WHERE stream = $1 AND seq = 2",
            2,
        ),
        (
            "chain",
            "UPDATE records SET chain = '\\x00' WHERE stream = $1 AND seq = 3",
            3,
        ),
        (
            "missing",
            "DELETE FROM records WHERE stream = $1 AND seq = 2",
            2,
        ),
        (
            "end",
            "DELETE FROM records WHERE stream = $1 AND seq = 4",
            4,
        ),
        (
            "form",
            "UPDATE records SET form = 77 WHERE stream = $1 AND seq = 1",
            1,
        ),
        (
            "long",
            "UPDATE records SET body = substr(body, 2) WHERE stream = $1 AND seq = 4",
            4,
        ),
    ] {
        let claim = journal.claim(&key(name)).await.unwrap();
        let records = batch(1, &[text, text, "c", &long]);
        journal.append(&claim, records.clone()).await.unwrap();
        let page = journal.read(&key(name), 0, 9).await.unwrap();
        assert_eq!(page.events, records.records);
        let check = journal.verify(&key(name)).await.unwrap().unwrap();
        assert_eq!((check.head, check.findings), (4, Vec::new()), "{name}");
        let stream = i64::try_from(claim.stream).unwrap();
        other.execute(change, &[&stream]).await.unwrap();
        let read = journal.read(&key(name), 0, 9).await;
        match read {
            Err(JournalError::Damaged { seq: found, .. }) => assert_eq!(found, seq, "{name}"),
            read => panic!("{name}: {read:?}"),
        }
        let check = journal.verify(&key(name)).await.unwrap().unwrap();
        assert!(!check.findings.is_empty(), "{name}");
    }
    // Each damaged record is an entry of the feed, and the others are delivered.
    let (mut entries, mut after) = (Vec::new(), None);
    loop {
        let page = journal.read_after(after.as_deref(), 99).await.unwrap();
        entries.extend(page.entries);
        if page.is_end {
            break;
        }
        after = Some(page.next);
    }
    let damaged = entries.iter().filter(|entry| entry.event.is_err());
    assert_eq!((entries.len(), damaged.count() >= 5), (22, true));
}

#[tokio::test]
async fn newer_version_stops_its_stream() {
    let Some(server) = shared("newer_version_stops_its_stream") else {
        return;
    };
    let options = options(server);
    let journal = PostgresStore::open(options.clone())
        .await
        .unwrap()
        .journal();
    let claim = journal.claim(&key("s")).await.unwrap();
    journal.append(&claim, batch(1, &["a", "b"])).await.unwrap();
    let other = client(&options).await;
    let newer = "UPDATE records SET version = 99 WHERE seq = 2";
    other.batch_execute(newer).await.unwrap();
    let refused = journal.read(&key("s"), 0, 9).await;
    let expected = JournalError::UnknownVersion {
        stream: "s".to_owned(),
        seq: 2,
        version: 99,
    };
    assert_eq!(refused.unwrap_err(), expected);
    assert_eq!(journal.read(&key("s"), 0, 1).await.unwrap().events.len(), 1);
}

#[tokio::test]
async fn fork_detects_damage_of_shared_records() {
    let Some(server) = shared("fork_detects_damage_of_shared_records") else {
        return;
    };
    let options = options(server);
    let journal = PostgresStore::open(options.clone())
        .await
        .unwrap()
        .journal();
    let claim = journal.claim(&key("parent")).await.unwrap();
    journal.append(&claim, batch(1, &["a", "b"])).await.unwrap();
    let mut forked = (*batch(0, &["forked"]).records[0]).clone();
    forked.session_id = SessionId::from_seed(8);
    (journal.fork(&key("parent"), 2, &key("child"), forked).await).unwrap();
    let check = journal.verify(&key("child")).await.unwrap().unwrap();
    assert_eq!((check.head, check.findings.len()), (3, 0));
    let other = client(&options).await;
    let change = "UPDATE records SET body = body || '\\x20' WHERE seq = 1";
    other.batch_execute(change).await.unwrap();
    for name in ["parent", "child"] {
        let check = journal.verify(&key(name)).await.unwrap().unwrap();
        assert_eq!(check.findings.len(), 1, "{name}: {check:?}");
    }
}
