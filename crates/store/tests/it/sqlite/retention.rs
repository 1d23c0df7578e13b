//! Retention: pieces of text, age and bytes.

use std::time::Duration;

use chrono::Utc;
use windlass_core::typed_id::TurnId;
use windlass_store::queries::{UsageBy, UsageQuery};
use windlass_store::sqlite::SqliteRetention;
use windlass_store::{HostRecord, HostRecords, Journal, Queries, SqliteStore, conformance};

use super::support::{
    StoreHome, completed, custom, delta, events, fill, findings, fork, key, queued, read, started,
};

async fn open(home: &StoreHome, retention: SqliteRetention) -> SqliteStore {
    SqliteStore::open(home.options().with_retention(retention))
        .await
        .unwrap()
}

async fn used_turns(store: &SqliteStore) -> u64 {
    let all = UsageQuery {
        since: None,
        until: None,
        by: UsageBy::Thread,
    };
    store.queries().usage(all).await.unwrap().total.turns
}

const CHUNKS: SqliteRetention = SqliteRetention {
    text_chunks: Some(Duration::from_secs(60)),
    max_age: None,
    max_bytes: None,
};

#[tokio::test]
async fn text_chunks_of_ended_turns_are_pruned_and_the_chain_stays() {
    let home = StoreHome::new();
    let store = open(&home, CHUNKS).await;
    let (one, two) = (TurnId::new(), TurnId::new());
    fill(
        &store,
        "s",
        vec![
            started(one),
            delta(one, "a"),
            delta(one, "b"),
            custom("c"),
            delta(one, &"d".repeat(40_000)),
            completed(one),
            started(two),
            delta(two, "open"),
        ],
    )
    .await;
    let head = store.verify().await.unwrap().heads;
    let none = store.maintain(Utc::now()).await.unwrap();
    assert_eq!(none.chunks, 0, "they are too recent");

    let later = Utc::now() + Duration::from_secs(120);
    let done = store.maintain(later).await.unwrap();
    assert_eq!((done.chunks, done.records), (3, 0));
    assert_eq!(store.maintain(later).await.unwrap().chunks, 0, "once");
    let numbers: Vec<_> = read(&store, "s")
        .await
        .unwrap()
        .iter()
        .map(|e| e.seq())
        .collect();
    assert_eq!(numbers, [1, 4, 6, 7, 8]);
    let journal = store.journal();
    let gaps = conformance::gaps(&journal, &key("s")).await.unwrap();
    assert_eq!(gaps, [2..=3, 5..=5]);

    let report = store.verify().await.unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!((report.pruned, &report.heads), (3, &head));

    // The turn ends, and its text chunks are pruned too.
    fill(&store, "s", vec![completed(two), custom("end")]).await;
    assert_eq!(store.maintain(later).await.unwrap().chunks, 1);
    store.close().await;
    let store = home.open().await;
    assert_eq!(
        conformance::gaps(&store.journal(), &key("s"))
            .await
            .unwrap(),
        [2..=3, 5..=5, 8..=8]
    );
    assert!(store.verify().await.unwrap().findings.is_empty());
    store.close().await;

    home.database()
        .execute(
            "UPDATE pruned SET digests = zeroblob(length(digests)) WHERE first = 2",
            [],
        )
        .unwrap();
    let store = home.open().await;
    assert!(
        read(&store, "s").await.is_err(),
        "changed digests are found"
    );
}

#[tokio::test]
async fn old_turns_are_pruned_whole_and_open_ones_stay() {
    let home = StoreHome::new();
    let retention = SqliteRetention {
        max_age: Some(Duration::from_secs(60)),
        ..SqliteRetention::default()
    };
    let store = open(&home, retention).await;
    let turns: Vec<_> = (0..3).map(|_| TurnId::new()).collect();
    let ended = |turn| [started(turn), delta(turn, "x"), completed(turn)];
    let data = [ended(turns[0]), ended(turns[1])].concat();
    fill(&store, "ended", data.clone()).await;
    fill(
        &store,
        "open",
        [data, vec![started(turns[2]), custom("y")]].concat(),
    )
    .await;
    let later = Utc::now() + Duration::from_secs(120);
    let done = store.maintain(later).await.unwrap();
    assert_eq!(
        done.records,
        3 + 6,
        "the newest record stays, and so its turn"
    );
    let gaps = async |name| {
        conformance::gaps(&store.journal(), &key(name))
            .await
            .unwrap()
    };
    assert_eq!(gaps("ended").await, [1..=3]);
    assert_eq!(gaps("open").await, [1..=6]);
    assert!(store.verify().await.unwrap().findings.is_empty());

    let claim = store.journal().claim(&key("open")).await.unwrap();
    let end = events(9, [completed(turns[2])]);
    store.journal().append(&claim, end).await.unwrap();
    assert!(store.verify().await.unwrap().findings.is_empty());
}

#[tokio::test]
async fn byte_limit_removes_the_oldest_records() {
    let home = StoreHome::new();
    let retention = SqliteRetention {
        max_bytes: Some(500_000),
        ..SqliteRetention::default()
    };
    let store = open(&home, retention).await;
    for stream in 0..10 {
        let texts = (0..100).map(|_| custom(&"x".repeat(1_000)));
        fill(&store, &format!("s{stream}"), texts.collect()).await;
    }
    assert!(store.used_bytes().await.unwrap() > 1_000_000);
    let done = store.maintain(Utc::now()).await.unwrap();
    assert!(done.records > 400, "{}", done.records);
    assert!(store.used_bytes().await.unwrap() <= 500_000);
    let newest = read(&store, "s9").await.unwrap();
    assert_eq!(newest.len(), 100, "the newest stream is whole");
    assert!(read(&store, "s0").await.unwrap().len() < 100);
    assert!(store.verify().await.unwrap().findings.is_empty());
    let before = store.used_bytes().await.unwrap();
    assert_eq!(store.maintain(Utc::now()).await.unwrap().records, 0);
    assert_eq!(store.used_bytes().await.unwrap(), before);
}

#[tokio::test]
async fn damaged_stream_is_not_pruned_and_reported() {
    let home = StoreHome::new();
    let store = home.open().await;
    let turn = TurnId::new();
    let data = vec![
        started(turn),
        delta(turn, "a"),
        completed(turn),
        custom("b"),
    ];
    fill(&store, "bad", data.clone()).await;
    fill(&store, "good", data).await;
    store.close().await;
    home.database()
        .execute(
            "UPDATE records SET body = x'00' WHERE stream = 1 AND seq = 2",
            [],
        )
        .unwrap();
    let store = open(&home, CHUNKS).await;
    let later = Utc::now() + Duration::from_secs(120);
    let done = store.maintain(later).await.unwrap();
    assert_eq!(done.chunks, 1);
    assert_eq!(done.findings.len(), 1);
    assert_eq!(done.findings[0].stream, Some(key("bad")));
}

#[tokio::test]
async fn shared_text_chunks_stay_until_the_fork_is_removed() {
    let home = StoreHome::new();
    let store = open(&home, CHUNKS).await;
    let (one, two) = (TurnId::new(), TurnId::new());
    let ended = |turn| vec![started(turn), delta(turn, "x"), completed(turn)];
    fill(
        &store,
        "s",
        [ended(one), ended(two), vec![custom("end")]].concat(),
    )
    .await;
    let journal = store.journal();
    fork(&journal, "s", 3, "fork").await.unwrap();
    let later = Utc::now() + Duration::from_secs(120);
    assert_eq!(store.maintain(later).await.unwrap().chunks, 1);
    let gaps = async |name| {
        conformance::gaps(&store.journal(), &key(name))
            .await
            .unwrap()
    };
    assert_eq!(gaps("s").await, [5..=5]);
    assert!(gaps("fork").await.is_empty());
    assert_eq!(store.maintain(later).await.unwrap().chunks, 0);

    // A gap is shared like a record.
    fork(&journal, "s", 6, "late").await.unwrap();
    assert_eq!(gaps("late").await, [5..=5]);
    let in_gap = fork(&journal, "s", 5, "never").await;
    let refused = in_gap.unwrap_err().to_string();
    assert!(refused.contains("removed by retention"), "{refused}");

    journal.remove(&key("late")).await.unwrap();
    assert_eq!(store.maintain(later).await.unwrap().chunks, 0);
    journal.remove(&key("fork")).await.unwrap();
    assert_eq!(store.maintain(later).await.unwrap().chunks, 1);
    assert_eq!(gaps("s").await, [2..=2, 5..=5]);
    assert!(store.verify().await.unwrap().findings.is_empty());
}

#[tokio::test]
async fn byte_limit_removes_no_shared_records() {
    let home = StoreHome::new();
    let retention = SqliteRetention {
        max_bytes: Some(1),
        ..SqliteRetention::default()
    };
    let store = open(&home, retention).await;
    let texts = (0..300).map(|n| custom(&format!("{n}")));
    fill(&store, "s", texts.collect()).await;
    let journal = store.journal();
    fork(&journal, "s", 100, "fork").await.unwrap();
    let texts = (0..100).map(|n| custom(&format!("{n}")));
    fill(&store, "fork", texts.collect()).await;
    store.maintain(Utc::now()).await.unwrap();
    let gaps = async |name| {
        conformance::gaps(&store.journal(), &key(name))
            .await
            .unwrap()
    };
    assert_eq!(gaps("s").await, [101..=299]);
    assert_eq!(gaps("fork").await, [101..=200]);
    assert_eq!(store.verify().await.unwrap().findings, []);
    journal.remove(&key("s")).await.unwrap();
    store.maintain(Utc::now()).await.unwrap();
    assert_eq!(read(&store, "fork").await.unwrap().len(), 101);
    assert_eq!(store.verify().await.unwrap().findings, []);
}

#[tokio::test]
async fn store_stays_within_its_byte_limit() {
    const LIMIT: u64 = 400_000;
    let home = StoreHome::new();
    let retention = SqliteRetention {
        max_bytes: Some(LIMIT),
        ..SqliteRetention::default()
    };
    let store = open(&home, retention).await;
    for round in 0..60 {
        let turns = (0..100).map(|_| TurnId::new());
        let data = turns.flat_map(|turn| [started(turn), custom("a"), completed(turn)]);
        fill(&store, &format!("s{}", round % 5), data.collect()).await;
        store.maintain(Utc::now()).await.unwrap();
        let used = store.used_bytes().await.unwrap();
        assert!(used <= LIMIT, "{used} bytes in round {round}");
    }
    assert_eq!(store.verify().await.unwrap().findings, []);
    assert_eq!(used_turns(&store).await, 6000, "usage outlives rows");
    for stream in 0..5 {
        let name = format!("s{stream}");
        let claim = store.journal().claim(&key(&name)).await.unwrap();
        assert_eq!(claim.head, 12 * 300, "numbers continue");
        assert!(!read(&store, &name).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn sweep_prunes_in_small_commits() {
    let home = StoreHome::new();
    let retention = SqliteRetention {
        max_age: Some(Duration::from_secs(60)),
        ..SqliteRetention::default()
    };
    let store = open(&home, retention).await;
    let turns = (0..1000).map(|_| TurnId::new());
    let data = turns.flat_map(|turn| [started(turn), custom("a"), completed(turn)]);
    fill(&store, "s", data.collect()).await;
    let before = store.commits();
    let later = Utc::now() + Duration::from_secs(120);
    let done = store.maintain(later).await.unwrap();
    assert_eq!(done.records, 2997);
    assert!(store.commits() - before >= 20, "others come in between");
    assert_eq!(store.maintain(later).await.unwrap().records, 0);
    assert_eq!(store.verify().await.unwrap().findings, []);
}

#[tokio::test]
async fn condensed_gaps_are_exported_and_imported() {
    let (home, other) = (StoreHome::new(), StoreHome::new());
    let retention = SqliteRetention {
        max_bytes: Some(1),
        ..SqliteRetention::default()
    };
    let store = open(&home, retention).await;
    let turns = (0..100).map(|_| TurnId::new());
    let data = turns.flat_map(|turn| [started(turn), custom("a"), completed(turn)]);
    fill(&store, "s", data.collect()).await;
    store.maintain(Utc::now()).await.unwrap();
    let head = store.verify().await.unwrap().heads;
    let (lines, report) = store.export(Vec::new()).await.unwrap();
    assert_eq!((report.records, report.findings.len()), (3, 0));
    let text = String::from_utf8(lines.clone()).unwrap();
    assert!(text.contains("condensed"), "{text}");

    let copy = other.open().await;
    let taken = copy.import(std::io::Cursor::new(lines)).await.unwrap();
    assert_eq!((taken.streams, taken.findings.len()), (1, 0));
    let report = copy.verify().await.unwrap();
    assert_eq!((report.heads, report.findings), (head, vec![]));
    let gaps = conformance::gaps(&copy.journal(), &key("s")).await.unwrap();
    assert_eq!(gaps, [1..=297]);
    fill(&copy, "s", vec![custom("on")]).await;
    assert_eq!(read(&copy, "s").await.unwrap().len(), 4);

    let changed = text.replace("\"last\":297", "\"last\":296");
    let refused = StoreHome::new();
    let copy = refused.open().await;
    let taken = copy.import(std::io::Cursor::new(changed)).await.unwrap();
    assert_eq!((taken.streams, taken.findings.len()), (0, 1));
}

#[tokio::test]
async fn byte_limit_removes_only_ended_runs() {
    use windlass_core::runs::{RunEnded, RunRecord, RunStarted, Termination};
    use windlass_store::{BeginOutcome, RunLog};
    let home = StoreHome::new();
    let retention = SqliteRetention {
        max_bytes: Some(1),
        ..SqliteRetention::default()
    };
    let store = open(&home, retention).await;
    let runs = store.runs();
    for number in 0..20 {
        let started = RunStarted {
            run_id: format!("r{number}"),
            agent_id: "agent".to_owned(),
            intent: "intent".to_owned(),
            outcome_description: None,
            started_at: Utc::now(),
        };
        let BeginOutcome::New(run) = runs.begin(started, "one").await.unwrap() else {
            panic!("it is new");
        };
        if number % 2 == 0 {
            let ended = RunEnded {
                run_id: run.summary.run_id.clone(),
                agent_id: run.summary.agent_id.clone(),
                termination: Termination::Incomplete,
                ended_at: Utc::now(),
            };
            let end = vec![RunRecord::Ended(ended)];
            runs.append(&run, end).await.unwrap();
        }
    }
    assert_eq!(store.maintain(Utc::now()).await.unwrap().records, 20);
    for number in 0..20 {
        let run = runs.get(&format!("r{number}")).await.unwrap();
        assert_eq!(run.is_some(), number % 2 == 1, "r{number}");
    }
    assert_eq!(store.verify().await.unwrap().findings, []);
}

const JOB: &str = "test.job";
const ENDED_JOB: &str = "test.job.ended";

async fn put_jobs(store: &SqliteStore, kind: &'static str, count: usize) {
    let body = bytes::Bytes::from(vec![b'x'; 10_000]);
    for number in 0..count {
        let record = HostRecord {
            name: number.to_string(),
            body: body.clone(),
        };
        store
            .host_records()
            .put(kind, record, Utc::now())
            .await
            .unwrap();
    }
}

/// A store with 200 KB of history whose retention allows 1 MB.
async fn with_history(home: &StoreHome) -> SqliteStore {
    let retention = SqliteRetention {
        max_bytes: Some(1_000_000),
        ..SqliteRetention::default()
    };
    let options = home.options().with_retention(retention);
    let options = options.with_expendable_records(&[ENDED_JOB]);
    let store = SqliteStore::open(options).await.unwrap();
    let texts = (0..200).map(|_| custom(&"x".repeat(1_000)));
    fill(&store, "s", texts.collect()).await;
    store
}

#[tokio::test]
async fn rows_that_cannot_be_removed_delete_no_history() {
    let home = StoreHome::new();
    let store = with_history(&home).await;
    put_jobs(&store, JOB, 110).await;
    let done = store.maintain(Utc::now()).await.unwrap();
    assert_eq!(read(&store, "s").await.unwrap().len(), 200);
    assert_eq!(done.records, 0);
    let over = done.over_limit.unwrap();
    assert_eq!(over.limit, 1_000_000);
    assert!(over.unremovable >= 1_100_000, "{over:?}");
    assert!(over.used > over.unremovable, "{over:?}");
}

#[tokio::test]
async fn ended_jobs_are_removed_before_histories() {
    let home = StoreHome::new();
    let store = with_history(&home).await;
    put_jobs(&store, ENDED_JOB, 110).await;
    put_jobs(&store, JOB, 10).await;
    let done = store.maintain(Utc::now()).await.unwrap();
    assert_eq!(read(&store, "s").await.unwrap().len(), 200);
    assert!(store.used_bytes().await.unwrap() <= 1_000_000);
    assert_eq!(done.over_limit, None);
    let jobs = store.host_records();
    assert_eq!(jobs.list(JOB).await.unwrap().len(), 10);
    assert!(jobs.list(ENDED_JOB).await.unwrap().len() < 110);
}

#[tokio::test]
async fn records_of_job_streams_are_removed_before_histories() {
    let home = StoreHome::new();
    let store = with_history(&home).await;
    let texts = (0..1_200).map(|_| custom(&"x".repeat(1_000)));
    fill(&store, "work:tasks", texts.collect()).await;
    store.maintain(Utc::now()).await.unwrap();
    assert_eq!(read(&store, "s").await.unwrap().len(), 200);
    assert!(read(&store, "work:tasks").await.unwrap().len() < 900);
    assert!(store.used_bytes().await.unwrap() <= 1_000_000);
}

#[tokio::test]
async fn pruning_after_a_fork_with_queued_input_is_no_finding() {
    let home = StoreHome::new();
    let retention = SqliteRetention {
        max_age: Some(Duration::from_secs(60)),
        ..SqliteRetention::default()
    };
    let store = open(&home, retention).await;
    let turn = TurnId::new();
    fill(&store, "s", vec![queued(turn), custom("shared")]).await;
    fork(&store.journal(), "s", 2, "child").await.unwrap();
    fill(
        &store,
        "s",
        vec![started(turn), completed(turn), custom("end")],
    )
    .await;
    let later = Utc::now() + Duration::from_secs(120);
    assert_eq!(store.maintain(later).await.unwrap().records, 2);
    assert_eq!(findings(&store).await, Vec::<String>::new());
}
