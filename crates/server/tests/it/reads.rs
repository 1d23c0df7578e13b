//! How much is read for an answer, counted instead of timed.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::support::{Daemon, Setup, Tap, soon};

const THREADS: usize = 40;

/// Starts a daemon on a directory, with what it reads counted.
async fn started(data: &tempfile::TempDir) -> (Daemon, Arc<Tap>) {
    let tap = Arc::<Tap>::default();
    let workspace = data.path().to_owned();
    let setup = Setup {
        data: Some(data.path().join("store")),
        tap: Some(Arc::clone(&tap)),
        ..Setup::settings(|settings| settings.workspace = workspace)
    };
    (setup.start().await, tap)
}

async fn stopped(daemon: Daemon) {
    daemon.stop.cancel();
    soon(daemon.running).await.unwrap();
    soon(daemon.opened.unwrap().close()).await;
}

/// Leaves threads behind, each with two turns, and what lists showed of them.
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

#[tokio::test]
async fn r12_the_summary_after_a_start_reads_no_thread() {
    let data = tempfile::tempdir().unwrap();
    let (threads, list) = filled(&data).await;
    let (daemon, tap) = started(&data).await;
    assert_eq!(tap.events_read(), 0, "nor does the start");
    let again = daemon.client.get("/v1/threads/summary?limit=1000").await;
    assert_eq!(again.expect(200), list);
    assert_eq!(tap.events_read(), 0);
    assert_eq!(list.as_array().unwrap().len(), THREADS);

    daemon.say(&threads[3], "once more").await;
    tap.events_read();
    let moved = daemon.client.get("/v1/threads/summary?limit=1000").await;
    let moved = moved.expect(200);
    assert_eq!(
        moved[0]["preview"],
        "Hello from the model. You said: once more"
    );
    let read = tap.events_read();
    assert!(read < 20, "{read} events for one turn in one thread");
}

#[tokio::test]
async fn r12_what_is_stored_of_a_thread_is_only_a_copy() {
    let data = tempfile::tempdir().unwrap();
    let (_, list) = filled(&data).await;
    for damage in [
        "DELETE FROM host_records WHERE kind = 'record' AND substr(name, -1) < '8'",
        "UPDATE host_records SET body = x'5b5d' WHERE kind = 'digest' AND substr(name, -1) >= '8'",
        "DELETE FROM host_records WHERE kind = 'digest'",
    ] {
        let database = rusqlite::Connection::open(data.path().join("store/windlass.db")).unwrap();
        assert!(database.execute(damage, []).unwrap() > 0);
        database.close().unwrap();
        let (daemon, _) = started(&data).await;
        let again = daemon.client.get("/v1/threads/summary?limit=1000").await;
        assert_eq!(again.expect(200), list, "{damage}");
        stopped(daemon).await;
    }
}

#[tokio::test]
async fn r15_the_detail_of_a_thread_reads_that_thread_and_no_other() {
    let data = tempfile::tempdir().unwrap();
    let (threads, _) = filled(&data).await;
    let (daemon, tap) = started(&data).await;
    let detail = daemon.detail(&threads[7]).await;
    let own = usize::try_from(detail["latest_seq"].as_u64().unwrap()).unwrap();
    let read = tap.events_read();
    assert!(
        read <= own,
        "{read} events were read, the thread has {own}, and all have {}",
        own * THREADS
    );
    daemon.detail(&threads[7]).await;
    assert_eq!(tap.events_read(), 0, "what has not moved is not read again");
}
