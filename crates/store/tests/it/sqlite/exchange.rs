//! `export` and `import`.

use std::io::Cursor;
use std::time::Duration;

use chrono::Utc;
use windlass_core::typed_id::TurnId;
use windlass_store::sqlite::{ChainKey, SqliteRetention};
use windlass_store::{SqliteStore, conformance};

use super::support::{StoreHome, completed, custom, delta, fill, key, read, started};

/// Creates a store with data of every kind.
async fn full_store(home: &StoreHome) -> SqliteStore {
    let retention = SqliteRetention {
        text_chunks: Some(Duration::ZERO),
        ..SqliteRetention::default()
    };
    let options = home.options().with_retention(retention);
    let store = SqliteStore::open(options).await.unwrap();
    let turn = TurnId::new();
    let data = vec![
        started(turn),
        delta(turn, "a"),
        completed(turn),
        custom("ä\n\""),
    ];
    fill(&store, "pruned", data).await;
    fill(&store, "big", vec![custom(&"x".repeat(50_000)); 3]).await;
    fill(
        &store,
        "open",
        vec![started(TurnId::new()), custom("waits")],
    )
    .await;
    let many = (0..600).map(|n| custom(&n.to_string()));
    fill(&store, "many", many.collect()).await;
    let later = Utc::now() + Duration::from_secs(1);
    assert_eq!(store.maintain(later).await.unwrap().chunks, 1);
    store
}

#[tokio::test]
async fn job_streams_are_not_exported() {
    let (home, other) = (StoreHome::new(), StoreHome::new());
    let store = home.open().await;
    fill(&store, "work:tasks", vec![custom("queued")]).await;
    fill(&store, "thread", vec![custom("said")]).await;
    let (lines, report) = store.export(Vec::new()).await.unwrap();
    assert_eq!((report.streams, report.left_out), (1, 1));
    assert!(report.findings.is_empty());
    let copy = other.open().await;
    let taken = copy.import(Cursor::new(lines)).await.unwrap();
    assert_eq!(taken.streams, 1);
    assert!(read(&copy, "work:tasks").await.unwrap().is_empty());
    assert_eq!(read(&copy, "thread").await.unwrap().len(), 1);
}

#[tokio::test]
async fn import_restores_the_exported_data() {
    let (home, other) = (StoreHome::new(), StoreHome::new());
    let store = full_store(&home).await;
    let (lines, report) = store.export(Vec::new()).await.unwrap();
    assert_eq!((report.streams, report.records), (4, 3 + 3 + 2 + 600));
    assert!(report.findings.is_empty());

    let copy = other.open().await;
    let taken = copy.import(Cursor::new(lines.clone())).await.unwrap();
    assert_eq!((taken.streams, taken.records), (4, report.records));
    assert!(taken.findings.is_empty(), "{:?}", taken.findings);
    for name in ["pruned", "big", "open", "many"] {
        assert_eq!(
            read(&copy, name).await.unwrap(),
            read(&store, name).await.unwrap()
        );
    }
    let heads = |report: windlass_store::sqlite::Report| (report.heads, report.findings);
    assert_eq!(
        heads(copy.verify().await.unwrap()),
        heads(store.verify().await.unwrap()),
        "the same chains"
    );
    let gaps = conformance::gaps(&copy.journal(), &key("pruned")).await;
    assert_eq!(gaps.unwrap(), [2..=2]);
    let streams = copy.journal().streams().await.unwrap();
    assert_eq!(
        streams[2].open_from,
        Some(1),
        "an open turn is known as open"
    );
    let (again, _) = copy.export(Vec::new()).await.unwrap();
    assert_eq!(again, lines);

    let twice = copy.import(Cursor::new(lines)).await.unwrap();
    assert_eq!((twice.streams, twice.findings.len()), (0, 4));
    assert!(twice.findings[0].to_string().contains("exists already"));
}

#[tokio::test]
async fn import_with_another_key_computes_another_chain() {
    let (home, other) = (StoreHome::new(), StoreHome::new());
    let store = full_store(&home).await;
    let (lines, _) = store.export(Vec::new()).await.unwrap();
    let options = other.options().with_chain_key(ChainKey::new([3; 32]));
    let copy = SqliteStore::open(options).await.unwrap();
    let taken = copy.import(Cursor::new(lines)).await.unwrap();
    assert_eq!(taken.streams, 4);
    let (ours, theirs) = (store.verify().await.unwrap(), copy.verify().await.unwrap());
    assert!(theirs.findings.is_empty());
    assert_ne!(ours.heads, theirs.heads);
}

#[tokio::test]
async fn inconsistent_streams_are_omitted_and_reported() {
    let home = StoreHome::new();
    let store = full_store(&home).await;
    let (lines, _) = store.export(Vec::new()).await.unwrap();
    let text = String::from_utf8(lines).unwrap();
    let without_one: String = text
        .lines()
        .filter(|line| !line.contains(r#""payload":"300""#))
        .map(|line| format!("{line}\n"))
        .collect();
    for (wrong, why) in [
        (
            text.replace("waits", "waits!"),
            "are not those that were exported",
        ),
        (without_one, "out of order"),
        (
            text[..text.len() - 200]
                .rsplit_once('\n')
                .unwrap()
                .0
                .to_owned(),
            "ends within it",
        ),
    ] {
        let copy = StoreHome::new();
        let copy = copy.open().await;
        let taken = copy.import(Cursor::new(wrong)).await.unwrap();
        assert_eq!((taken.streams, taken.findings.len()), (3, 1), "{why}");
        assert!(
            taken.findings[0].to_string().contains(why),
            "{:?}",
            taken.findings
        );
        assert_eq!(copy.journal().streams().await.unwrap().len(), 3);
    }
    for (wrong, why) in [
        ("{\"stream\":\"s\"}", "not an export"),
        ("{\"windlass_export\":{\"format\":9}}", "format 9"),
        ("nonsense", "line 1"),
    ] {
        let home = StoreHome::new();
        let copy = home.open().await;
        let error = copy
            .import(Cursor::new(wrong))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(why), "{error}");
    }
}
