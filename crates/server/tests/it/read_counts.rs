//! The number of reads for each response.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::support::{QueryLog, Setup, Tap, TestDaemon, soon, text};

const THREADS: usize = 40;

/// Counts of reads and queries.
#[derive(Default)]
struct ReadCounters {
    tap: Arc<Tap>,
    query_log: Arc<QueryLog>,
}

impl ReadCounters {
    /// Returns the queries since the last call, and the number of other event reads.
    fn take(&self) -> (Vec<String>, usize) {
        (self.query_log.questions(), self.tap.events_read())
    }
}

/// Starts a daemon on a directory and counts its reads.
async fn started(data: &tempfile::TempDir) -> (TestDaemon, ReadCounters) {
    let counters = ReadCounters::default();
    let workspace = data.path().to_owned();
    let setup = Setup {
        data: Some(data.path().join("store")),
        tap: Some(Arc::clone(&counters.tap)),
        query_log: Some(Arc::clone(&counters.query_log)),
        ..Setup::settings(|settings| settings.workspace = workspace)
    };
    (setup.start().await, counters)
}

async fn stopped(daemon: TestDaemon) {
    daemon.stop.cancel();
    soon(daemon.running).await.unwrap();
    soon(daemon.opened.unwrap().close()).await;
}

/// Creates threads with two turns each, and returns their list entries.
async fn filled(data: &tempfile::TempDir) -> (Vec<String>, Value) {
    let (daemon, _) = started(data).await;
    let mut threads = Vec::new();
    for number in 0..THREADS {
        let thread = daemon
            .thread(json!({"title": format!("number {number}")}))
            .await;
        daemon.say(&thread, "hello").await;
        daemon.say(&thread, "again").await;
        threads.push(thread);
    }
    let list = daemon.client.get("/v1/threads/summary?limit=1000").await;
    let list = list.expect(200);
    stopped(daemon).await;
    (threads, list)
}

/// Number of records of a turn with one input and one answer.
const RECORDS_OF_TURN: usize = 10;

#[tokio::test]
async fn r12_startup_reads_no_thread_and_a_list_reads_one_page() {
    let data = tempfile::tempdir().unwrap();
    let (threads, list) = filled(&data).await;
    let (daemon, counters) = started(&data).await;
    assert_eq!(counters.take(), (vec![], 0), "the start");
    let again = daemon.client.get("/v1/threads/summary?limit=1000").await;
    assert_eq!(again.expect(200), list);
    assert_eq!(counters.take(), (vec!["1000 threads".to_owned()], 0));
    assert_eq!(list.as_array().unwrap().len(), THREADS);

    daemon.say(&threads[3], "once more").await;
    counters.take();
    let moved = daemon.client.get("/v1/threads?limit=5").await.expect(200);
    assert_eq!(counters.take(), (vec!["5 threads".to_owned()], 0));
    assert_eq!(
        text(&moved[0]["id"]),
        threads[3].trim_start_matches("/v1/threads/")
    );
}

#[tokio::test]
async fn r15_request_for_one_thread_or_turn_reads_only_that() {
    let data = tempfile::tempdir().unwrap();
    let (threads, _) = filled(&data).await;
    let (daemon, counters) = started(&data).await;
    let thread = &threads[7];
    let newest = daemon.client.get(&format!("{thread}?turns=1")).await;
    let newest = newest.expect(200);
    assert_eq!(newest["turns"].as_array().unwrap().len(), 1);
    let one = "thread with 1 turns".to_owned();
    assert_eq!(counters.take(), (vec![one], RECORDS_OF_TURN));

    let id = text(&newest["turns"][0]["id"]);
    let turn = daemon.client.get(&format!("{thread}/turns/{id}")).await;
    let turn = turn.expect(200);
    assert_eq!(turn["turn"], newest["turns"][0]);
    assert_eq!(turn["items"], newest["items"]);
    let expected = ["thread", "turn"].map(str::to_owned).to_vec();
    assert_eq!(counters.take(), (expected, RECORDS_OF_TURN));

    daemon.client.get("/v1/usage").await.expect(200);
    daemon.client.get("/metrics").await;
    let expected = ["usage", "counts"].map(str::to_owned).to_vec();
    assert_eq!(counters.take(), (expected, 0));
}

#[tokio::test]
async fn creating_a_thread_or_turn_recounts_nothing() {
    let data = tempfile::tempdir().unwrap();
    let (daemon, counters) = started(&data).await;
    daemon.thread(json!({})).await;
    assert_eq!(counters.query_log.questions(), ["counts", "thread"]);
    let thread = daemon.thread(json!({})).await;
    assert_eq!(counters.query_log.questions(), ["thread"], "there is room");
    daemon.turn(&thread, json!({"prompt": "SLOW please"})).await;
    assert_eq!(counters.query_log.questions(), ["thread"]);
    daemon.model.open();
}
