//! Forks on disk: their cost, consistency and removal.

use std::io::Cursor;

use rusqlite::Connection;
use windlass_core::typed_id::TurnId;
use windlass_store::sqlite::ChainKey;
use windlass_store::{Journal, JournalError, SqliteStore};

use super::support::{self, StoreHome, completed, custom, fill, key, read, started};

const TABLES: [&str; 8] = [
    "streams", "records", "pruned", "blobs", "forks", "kept", "threads", "turns",
];

fn rows(connection: &Connection) -> [i64; TABLES.len()] {
    TABLES.map(|table| {
        let query = format!("SELECT count(*) FROM {table}");
        connection.query_row(&query, [], |row| row.get(0)).unwrap()
    })
}

async fn fork(store: &SqliteStore, parent: &str, at: u64, child: &str) {
    let made = support::fork(&store.journal(), parent, at, child).await;
    assert_eq!(made.unwrap(), at + 1);
}

/// Turns of three records each.
async fn turns(store: &SqliteStore, name: &str, count: usize) {
    let mut data = Vec::new();
    for _ in 0..count {
        let turn = TurnId::new();
        data.extend([started(turn), custom("said"), completed(turn)]);
    }
    fill(store, name, data).await;
}

async fn found(store: &SqliteStore) -> Vec<String> {
    let findings = store.verify().await.unwrap().findings;
    findings.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn fork_writes_few_rows_for_any_length() {
    let home = StoreHome::new();
    let store = home.open().await;
    turns(&store, "parent", 2000).await;
    store.write_rows().await.unwrap();
    let before = rows(&home.database());
    for (at, child) in [(6000, "end"), (3000, "middle"), (3, "early")] {
        fork(&store, "parent", at, child).await;
    }
    store.write_rows().await.unwrap();
    let after = rows(&home.database());
    let written: Vec<_> = after.iter().zip(before).map(|(a, b)| a - b).collect();
    let [
        streams,
        records,
        pruned,
        blobs,
        forks,
        retained,
        threads,
        turns,
    ] = written[..]
    else {
        panic!("{written:?}")
    };
    assert_eq!((streams, records, forks, threads), (3, 3, 3, 3));
    assert_eq!((pruned, blobs, retained, turns), (0, 0, 0, 0));
    for (child, head) in [("end", 6001), ("middle", 3001), ("early", 4)] {
        assert_eq!(read(&store, child).await.unwrap().len(), head);
    }
    assert_eq!(found(&store).await, [""; 0]);
}

#[tokio::test]
async fn damaged_shared_record_is_reported_for_all_its_streams() {
    let home = StoreHome::new();
    let store = home.open().await;
    fill(
        &store,
        "parent",
        vec![custom("1"), custom("2"), custom("3")],
    )
    .await;
    fork(&store, "parent", 1, "before").await;
    fork(&store, "parent", 3, "behind").await;
    fork(&store, "behind", 4, "behind that").await;
    fork(&store, "parent", 2, "removed").await;
    store.journal().remove(&key("removed")).await.unwrap();
    store.close().await;
    let change = "UPDATE records SET body = x'7b7d' WHERE stream = 1 AND seq = 2";
    assert_eq!(home.database().execute(change, []).unwrap(), 1);
    let store = home.open().await;
    let expected = |name: &str| format!("stream {name}, record 2: it was changed");
    let damaged = ["parent", "behind", "behind that"];
    assert_eq!(found(&store).await, damaged.map(expected));
    for name in damaged {
        let error = read(&store, name).await.unwrap_err();
        assert!(
            matches!(&error, JournalError::Damaged { stream, seq: 2, .. } if stream == name),
            "{error}"
        );
        let one = store.verify_stream(&key(name), None).await.unwrap();
        let one: Vec<_> = one.findings.iter().map(ToString::to_string).collect();
        assert_eq!(one, [expected(name)]);
    }
    assert_eq!(read(&store, "before").await.unwrap().len(), 2);
    fill(&store, "before", vec![custom("appended")]).await;

    // The shared records of a removed parent are checked too.
    store.journal().remove(&key("parent")).await.unwrap();
    assert_eq!(found(&store).await, ["behind", "behind that"].map(expected));
}

#[tokio::test]
async fn exchanged_forks_are_detected() {
    for change in [
        "UPDATE streams SET key = CASE key WHEN 'one' THEN 'two' WHEN 'two' THEN 'one' ELSE key END",
        "UPDATE forks SET parent_seq = 1 WHERE stream = 2",
        "UPDATE forks SET parent = 9 WHERE stream = 2",
        "UPDATE forks SET parent = 2 WHERE stream = 2",
        "DELETE FROM forks WHERE stream = 2",
    ] {
        let home = StoreHome::new();
        let store = home.open().await;
        fill(&store, "parent", vec![custom("1"), custom("2")]).await;
        fork(&store, "parent", 2, "one").await;
        fork(&store, "parent", 2, "two").await;
        store.close().await;
        let database = home.database();
        if change.contains("CASE") {
            // Names are unique, also for a moment.
            for step in ["'one' WHERE key = 'two'", "'two' WHERE key = 'x'"] {
                let from = format!("UPDATE streams SET key = 'x' WHERE key = {}", &step[..5]);
                database.execute(&from, []).unwrap();
                let to = format!("UPDATE streams SET key = {step}");
                database.execute(&to, []).unwrap();
            }
        } else {
            assert_eq!(database.execute(change, []).unwrap(), 1, "{change}");
        }
        drop(database);
        let store = home.open().await;
        assert!(read(&store, "one").await.is_err(), "{change}");
        assert!(!found(&store).await.is_empty(), "{change}");
        assert_eq!(read(&store, "parent").await.unwrap().len(), 2);
    }
}

#[tokio::test]
async fn shared_records_are_removed_with_the_last_fork() {
    let home = StoreHome::new();
    let store = home.open().await;
    turns(&store, "parent", 3).await;
    fill(&store, "parent", vec![custom(&"x".repeat(40_000))]).await;
    turns(&store, "parent", 200).await;
    fork(&store, "parent", 3, "short").await;
    fork(&store, "parent", 10, "long").await;
    fill(&store, "long", vec![custom("own")]).await;
    fork(&store, "long", 12, "longer").await;
    let journal = store.journal();
    let records = || rows(&home.database())[1];
    journal.remove(&key("parent")).await.unwrap();
    assert_eq!(
        records(),
        10 + 1 + 2 + 1,
        "unshared records are removed at once"
    );
    assert_eq!(found(&store).await, [""; 0]);
    journal.remove(&key("long")).await.unwrap();
    assert_eq!(records(), 10 + 1 + 2 + 1, "all of it is shared");
    store.close().await;

    let store = home.open().await;
    let journal = store.journal();
    assert_eq!(read(&store, "longer").await.unwrap().len(), 13);
    let names: Vec<_> = journal.streams().await.unwrap();
    let names: Vec<_> = names.iter().map(|stream| stream.key.as_str()).collect();
    assert_eq!(names, ["longer", "short"]);
    assert_eq!(found(&store).await, [""; 0]);
    store.close().await;
    // Rows that only forks show are checked and rebuilt too.
    let change = "DELETE FROM turns WHERE stream = 1";
    assert_eq!(home.database().execute(change, []).unwrap(), 3);
    let store = home.open().await;
    let journal = store.journal();
    let missing = found(&store).await;
    let is_named = |what: &String| what.starts_with("stream parent: the row of turn ");
    assert!(
        !missing.is_empty() && missing.iter().all(is_named),
        "{missing:?}"
    );
    assert_eq!(store.rebuild(|_| {}).await.unwrap().streams, 2);
    assert_eq!(found(&store).await, [""; 0]);

    journal.remove(&key("longer")).await.unwrap();
    assert_eq!(records(), 3 + 1, "up to where the other fork begins");
    assert_eq!(rows(&home.database())[3], 0, "its blob is gone");
    assert_eq!(found(&store).await, [""; 0]);
    journal.remove(&key("short")).await.unwrap();
    assert_eq!(rows(&home.database()), [0; TABLES.len()]);
    assert_eq!(found(&store).await, [""; 0]);
}

#[tokio::test]
async fn import_restores_sharing() {
    let home = StoreHome::new();
    let store = home.open().await;
    turns(&store, "parent", 3).await;
    turns(&store, "gone", 2).await;
    fork(&store, "parent", 6, "one").await;
    fork(&store, "one", 7, "two").await;
    fork(&store, "gone", 3, "orphan").await;
    let journal = store.journal();
    journal.remove(&key("gone")).await.unwrap();
    turns(&store, "gone", 1).await;
    let (lines, exported) = store.export(Vec::new()).await.unwrap();
    assert_eq!(exported.records, 9 + 3 + 1 + 1 + 1 + 3);
    let names = ["parent", "one", "two", "orphan", "gone"];

    for key in [None, Some(ChainKey::new([3; 32]))] {
        let other = StoreHome::new();
        let is_same = key.is_none();
        let options = match key {
            None => other.options(),
            Some(key) => other.options().with_chain_key(key),
        };
        let copy = SqliteStore::open(options).await.unwrap();
        let taken = copy.import(Cursor::new(lines.clone())).await.unwrap();
        assert!(taken.findings.is_empty(), "{:?}", taken.findings);
        assert_eq!(taken.records, exported.records);
        for name in names {
            let (ours, theirs) = (read(&copy, name).await, read(&store, name).await);
            assert_eq!(ours.unwrap(), theirs.unwrap(), "{name}");
        }
        assert_eq!(rows(&other.database())[1], rows(&home.database())[1]);
        let (ours, theirs) = (copy.verify().await.unwrap(), store.verify().await.unwrap());
        assert!(ours.findings.is_empty(), "{:?}", ours.findings);
        assert_eq!(ours.heads == theirs.heads, is_same, "chains");
        fill(&copy, "two", vec![custom("appended")]).await;
        assert_eq!(found(&copy).await, [""; 0]);
    }
}

#[tokio::test]
async fn fork_is_imported_only_after_its_original_parent() {
    let home = StoreHome::new();
    let store = home.open().await;
    fill(&store, "parent", vec![custom("1"), custom("2")]).await;
    fork(&store, "parent", 2, "one").await;
    let (lines, _) = store.export(Vec::new()).await.unwrap();

    // The parent is there, and the fork comes back to it.
    store.journal().remove(&key("one")).await.unwrap();
    let taken = store.import(Cursor::new(lines.clone())).await.unwrap();
    assert_eq!((taken.streams, taken.findings.len()), (1, 1));
    assert_eq!(read(&store, "one").await.unwrap().len(), 3);
    assert_eq!(found(&store).await, [""; 0]);

    // Another stream has its name, or it was omitted.
    let text = String::from_utf8(lines).unwrap();
    let changed = text.replacen("\"payload\":\"2\"", "\"payload\":\"3\"", 1);
    for (lines, other, why) in [
        (
            text,
            vec![custom("1"), custom("other")],
            "has other records",
        ),
        (changed, vec![], "parent was omitted"),
    ] {
        let home = StoreHome::new();
        let store = home.open().await;
        if !other.is_empty() {
            fill(&store, "parent", other).await;
        }
        let taken = store.import(Cursor::new(lines)).await.unwrap();
        assert_eq!((taken.streams, taken.findings.len()), (0, 2));
        let finding = taken.findings[1].to_string();
        assert!(
            finding.contains("stream one") && finding.contains(why),
            "{finding}"
        );
        assert!(read(&store, "one").await.unwrap().is_empty());
        assert_eq!(found(&store).await, [""; 0]);
    }
}

#[tokio::test]
async fn fork_fences_the_previous_claim_of_its_stream() {
    let home = StoreHome::new();
    let store = home.open().await;
    fill(&store, "parent", vec![custom("1")]).await;
    let journal = store.journal();
    let claim = journal.claim(&key("child")).await.unwrap();
    fork(&store, "parent", 1, "child").await;
    let late = support::events(1, [custom("late")]);
    let refused = journal.append(&claim, late).await.unwrap_err();
    assert!(matches!(refused, JournalError::Fenced { .. }), "{refused}");
    assert_eq!(read(&store, "child").await.unwrap().len(), 2);
}

#[tokio::test]
async fn long_stream_is_removed_in_steps() {
    let home = StoreHome::new();
    let store = home.open().await;
    let texts = (0..3000).map(|number| custom(&number.to_string()));
    fill(&store, "s", texts.collect()).await;
    let before = store.commits();
    assert!(store.journal().remove(&key("s")).await.unwrap());
    assert!(store.commits() - before >= 20, "others come in between");
    assert_eq!(rows(&home.database()), [0; TABLES.len()]);
    assert_eq!(store.verify().await.unwrap().findings, []);
}
