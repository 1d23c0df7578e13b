//! Values that are stored once, and changes to the records that contain them.

use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use proptest::prelude::*;
use windlass_core::events::{Event, EventData};
use windlass_core::typed_id::TurnId;
use windlass_store::sqlite::SqliteRetention;
use windlass_store::{Journal, JournalError, SqliteStore};

use super::support::{
    StoreHome, completed, custom, events, fill, findings, fork, key, read, started,
};

/// A turn that repeats a text a number of times.
fn turn(text: &str, times: usize) -> Vec<EventData> {
    let turn = TurnId::new();
    let said = std::iter::repeat_n(custom(text), times);
    let whole = std::iter::once(started(turn)).chain(said);
    whole.chain([completed(turn)]).collect()
}

fn long() -> String {
    "a text that is long enough to be referred to; ".repeat(4)
}

fn sum(home: &StoreHome, what: &str) -> i64 {
    home.database()
        .query_row(what, [], |row| row.get(0))
        .unwrap()
}

#[tokio::test]
async fn large_value_is_stored_once_per_turn() {
    let home = StoreHome::new();
    let store = home.open().await;
    let text = "line of an argument\n".repeat(3000);
    fill(&store, "s", turn(&text, 4)).await;
    let before = read(&store, "s").await.unwrap();
    assert!(
        before[1..5]
            .iter()
            .all(|event| event.data == before[1].data)
    );
    store.close().await;

    let stored = sum(&home, "SELECT sum(length(body)) FROM records")
        + sum(&home, "SELECT sum(length(bytes)) FROM blobs");
    let json = serde_json::to_vec(&*before[1]).unwrap().len() as i64;
    assert!(stored < json + 1000, "{stored} bytes are stored for {json}");
    assert_eq!(
        sum(&home, "SELECT count(*) FROM records WHERE version = 2"),
        3
    );
    let store = home.open().await;
    assert_eq!(read(&store, "s").await.unwrap(), before);
    assert_eq!(findings(&store).await, [""; 0]);
}

#[tokio::test]
async fn turn_is_complete_after_a_restart() {
    let home = StoreHome::new();
    let store = home.open().await;
    let mut rest = turn(&long(), 4);
    let late = rest.split_off(3);
    fill(&store, "s", rest).await;
    store.close().await;
    let store = home.open().await;
    fill(&store, "s", late).await;
    assert_eq!(read(&store, "s").await.unwrap().len(), 6);
    assert_eq!(findings(&store).await, [""; 0]);
}

#[tokio::test]
async fn unresolved_reference_stops_only_its_stream() {
    // Record 3 refers to record 2.
    for (to, what) in [
        (9, "it refers to record 9, which is missing"),
        (1, "it refers to a part of record 1 that is not there"),
        (3, "it refers to record 3, which is missing"),
    ] {
        let home = StoreHome::new();
        let store = home.open().await;
        fill(&store, "bad", turn(&long().repeat(9), 2)).await;
        fill(&store, "good", turn(&long(), 2)).await;
        store.close().await;
        let database = home.database();
        let find = "SELECT body FROM records WHERE stream = 1 AND seq = 3";
        let mut body: Vec<u8> = database.query_row(find, [], |row| row.get(0)).unwrap();
        let at = body.windows(2).rposition(|code| code == [0xff, 2]).unwrap();
        body[at + 1] = to;
        let change = "UPDATE records SET body = ?1 WHERE stream = 1 AND seq = 3";
        assert_eq!(database.execute(change, [body]).unwrap(), 1);
        drop(database);
        let store = home.open().await;
        let expected = JournalError::Damaged {
            stream: "bad".into(),
            seq: 3,
            what: what.into(),
        };
        assert_eq!(read(&store, "bad").await.unwrap_err(), expected);
        assert_eq!(read(&store, "good").await.unwrap().len(), 4);
        fill(&store, "good", turn(&long(), 2)).await;
        let found = findings(&store).await;
        assert!(found.iter().any(|found| found.contains(what)), "{found:?}");

        let (lines, report) = store.export(Vec::new()).await.unwrap();
        assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
        let other = StoreHome::new();
        let copy = other.open().await;
        let taken = copy.import(Cursor::new(lines)).await.unwrap();
        assert_eq!((taken.streams, taken.findings.len()), (1, 1));
        assert!(taken.findings[0].to_string().contains(what));
        assert_eq!(
            read(&copy, "good").await.unwrap(),
            read(&store, "good").await.unwrap()
        );
    }
}

#[tokio::test]
async fn reading_detects_a_changed_referenced_record() {
    let home = StoreHome::new();
    let store = home.open().await;
    fill(&store, "s", turn(&long(), 2)).await;
    store.close().await;
    let change = "UPDATE records SET body = unhex(replace(hex(body), hex('long'), hex('loud'))) WHERE seq = 2";
    assert_eq!(home.database().execute(change, []).unwrap(), 1);
    let store = home.open().await;
    let error = store.journal().read(&key("s"), 2, 9).await.unwrap_err();
    assert!(
        matches!(error, JournalError::Damaged { seq: 3, .. }),
        "{error}"
    );
}

/// A store whose turns expire at once.
async fn forgetful(home: &StoreHome) -> SqliteStore {
    let retention = SqliteRetention {
        max_age: Some(Duration::ZERO),
        ..SqliteRetention::default()
    };
    let options = home.options().with_retention(retention);
    SqliteStore::open(options).await.unwrap()
}

async fn prune(store: &SqliteStore) -> u64 {
    let later = Utc::now() + Duration::from_secs(1);
    let done = store.maintain(later).await.unwrap();
    assert!(done.findings.is_empty(), "{:?}", done.findings);
    done.records
}

#[tokio::test]
async fn turn_is_pruned_with_its_references() {
    let home = StoreHome::new();
    let store = forgetful(&home).await;
    // Longer than a group of records that may refer to each other, and than one pruning commit.
    fill(&store, "s", turn(&long(), 300)).await;
    fill(&store, "s", turn(&long(), 3)).await;
    fill(&store, "s", vec![custom("last")]).await;
    assert_eq!(prune(&store).await, 307);
    assert_eq!(read(&store, "s").await.unwrap().len(), 1);
    assert_eq!(findings(&store).await, [""; 0]);
}

#[tokio::test]
async fn shared_records_of_a_fork_retain_their_references() {
    let home = StoreHome::new();
    let store = forgetful(&home).await;
    fill(&store, "s", turn(&long(), 3)).await;
    fork(&store.journal(), "s", 5, "fork").await.unwrap();
    for name in ["s", "fork"] {
        fill(&store, name, turn(&long(), 3)).await;
        fill(&store, name, vec![custom("last")]).await;
    }
    assert_eq!(
        prune(&store).await,
        5 + 6,
        "the second turns, and the first record of the fork"
    );
    let shared = read(&store, "fork").await.unwrap();
    assert_eq!(shared.len(), 5 + 1);
    store.journal().remove(&key("s")).await.unwrap();
    assert_eq!(read(&store, "fork").await.unwrap(), shared);
    assert_eq!(findings(&store).await, [""; 0]);
}

/// A random operation on a stream.
#[derive(Debug, Clone)]
enum PlayedStep {
    Turn {
        text: usize,
        times: usize,
        batch: usize,
    },
    Reopen,
    Fork,
    Prune,
}

fn step() -> impl Strategy<Value = PlayedStep> {
    prop_oneof![
        4 => (0..3_usize, 0..150_usize, 1..20_usize)
            .prop_map(|(text, times, batch)| PlayedStep::Turn { text, times, batch }),
        1 => Just(PlayedStep::Reopen),
        1 => Just(PlayedStep::Fork),
        1 => Just(PlayedStep::Prune),
    ]
}

/// Runs the steps, and compares reads with writes.
async fn play(steps: Vec<PlayedStep>) {
    const BLOB: usize = 2;
    let texts = [long(), "ä\"\\{\"a\":[".repeat(20), "x".repeat(40_000)];
    let home = StoreHome::new();
    let mut store = forgetful(&home).await;
    let mut name = "s".to_owned();
    let mut written: Vec<Arc<Event>> = Vec::new();
    for step in steps {
        match step {
            PlayedStep::Turn { text, times, batch } => {
                let journal = store.journal();
                let claim = journal.claim(&key(&name)).await.unwrap();
                let times = if text == BLOB { times / 10 } else { times };
                let all = events(claim.head + 1, turn(&texts[text], times)).records;
                for part in all.chunks(batch) {
                    let first_seq = part[0].seq();
                    let mut batch = events(first_seq, []);
                    batch.records = part.to_vec();
                    journal.append(&claim, batch).await.unwrap();
                }
                written.extend(all);
            }
            PlayedStep::Reopen => {
                store.close().await;
                store = forgetful(&home).await;
            }
            PlayedStep::Fork => {
                let head = store.journal().status(&key(&name)).await.unwrap().head;
                let child = format!("{name}+");
                if head > 0 && fork(&store.journal(), &name, head, &child).await.is_ok() {
                    let page = store.journal().read(&key(&child), head, 9).await.unwrap();
                    written.extend(page.events);
                    name = child;
                }
            }
            PlayedStep::Prune => {
                prune(&store).await;
            }
        }
    }
    let found = read(&store, &name).await.unwrap();
    let by_seq = |seq: u64| written.iter().find(|event| event.seq() == seq).unwrap();
    for event in &found {
        let expected = by_seq(event.seq());
        assert_eq!((event.id, &event.data), (expected.id, &expected.data));
    }
    assert_eq!(findings(&store).await, [""; 0]);
    let other = StoreHome::new();
    let copy = forgetful(&other).await;
    let (lines, _) = store.export(Vec::new()).await.unwrap();
    let taken = copy.import(Cursor::new(lines.clone())).await.unwrap();
    assert!(taken.findings.is_empty(), "{:?}", taken.findings);
    assert_eq!(read(&copy, &name).await.unwrap(), found);
    assert_eq!(findings(&copy).await, [""; 0]);
    assert_eq!(copy.export(Vec::new()).await.unwrap().0, lines);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn any_turns_survive_restarts_forks_pruning_and_export(steps in prop::collection::vec(step(), 1..8)) {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio.block_on(play(steps));
    }
}
