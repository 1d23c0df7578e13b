//! Several stores on one database, as several processes have them, and a server that crashes.

use tokio::task::{JoinSet, yield_now};
use windlass_store::{Journal, JournalError};
use windlass_store_postgres::PostgresStore;

use super::server::{Server, shared};
use super::support::{batch, client, key, options, store};
use windlass_testkit::skipped;

#[tokio::test]
async fn claim_of_another_process_fences_the_writer() {
    let Some(server) = shared("claim_of_another_process_fences_the_writer") else {
        return;
    };
    let options = options(server);
    let one = PostgresStore::open(options.clone())
        .await
        .unwrap()
        .journal();
    let two = PostgresStore::open(options).await.unwrap().journal();
    let old = one.claim(&key("s")).await.unwrap();
    one.append(&old, batch(1, &["a"])).await.unwrap();
    let new = two.claim(&key("s")).await.unwrap();
    let refused = one.append(&old, batch(2, &["b"])).await;
    let expected = JournalError::Fenced {
        stream: old.stream,
        current: new.epoch,
        claimed: old.epoch,
    };
    assert_eq!(refused, Err(expected));
    two.append(&new, batch(2, &["c"])).await.unwrap();
    assert_eq!(one.read(&key("s"), 0, 9).await.unwrap().events.len(), 2);
    assert!(two.remove(&key("s")).await.unwrap());
    let refused = one.append(&old, batch(2, &["b"])).await;
    assert_eq!(refused, Err(JournalError::Removed(old.stream)));
}

#[tokio::test]
async fn watchers_see_commits_and_removals_of_another_process() {
    let Some(server) = shared("watchers_see_commits_and_removals_of_another_process") else {
        return;
    };
    let options = options(server);
    let one = PostgresStore::open(options.clone())
        .await
        .unwrap()
        .journal();
    let two = PostgresStore::open(options).await.unwrap().journal();
    let mut watch = one.watch(&key("s")).await.unwrap();
    assert_eq!(*watch.borrow_and_update(), 0);
    let claim = two.claim(&key("s")).await.unwrap();
    for seq in 1..=3 {
        two.append(&claim, batch(seq, &["a"])).await.unwrap();
        watch.wait_for(|head| *head == seq).await.unwrap();
    }
    let mut all = one.watch_all();
    all.borrow_and_update();
    two.remove(&key("s")).await.unwrap();
    while watch.changed().await.is_ok() {}
    all.changed().await.unwrap();
}

#[tokio::test]
async fn waiting_appends_share_a_commit() {
    const WRITERS: usize = 20;
    let Some(server) = shared("waiting_appends_share_a_commit") else {
        return;
    };
    let options = options(server);
    let journal = PostgresStore::open(options.clone())
        .await
        .unwrap()
        .journal();
    let mut claims = Vec::new();
    for number in 0..WRITERS {
        let name = key(&format!("s{number}"));
        claims.push(journal.claim(&name).await.unwrap());
    }
    let blocker = client(&options).await;
    (blocker
        .batch_execute("BEGIN; LOCK TABLE streams IN SHARE MODE")
        .await)
        .unwrap();
    let mut appends = JoinSet::new();
    for claim in claims {
        let journal = journal.clone();
        appends.spawn(async move { journal.append(&claim, batch(1, &["a"])).await });
        yield_now().await;
    }
    // All appends have been sent to the queue, and both of its tasks wait for the table.
    let waiting =
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'streams'::regclass";
    let mut count = 0_i64;
    while count < 2 {
        count = blocker.query_one(waiting, &[]).await.unwrap().get(0);
    }
    blocker.batch_execute("COMMIT").await.unwrap();
    for appended in appends.join_all().await {
        appended.unwrap();
    }
    let sql = "SELECT count(DISTINCT commit_number), count(*) FROM records";
    let row = blocker.query_one(sql, &[]).await.unwrap();
    let (commits, records): (i64, i64) = (row.get(0), row.get(1));
    assert_eq!(records, WRITERS as i64);
    assert!(commits <= 4, "{commits} commits");
}

#[tokio::test]
async fn append_of_a_fenced_writer_does_not_fail_its_group() {
    let Some(server) = shared("append_of_a_fenced_writer_does_not_fail_its_group") else {
        return;
    };
    let options = options(server);
    let one = PostgresStore::open(options.clone())
        .await
        .unwrap()
        .journal();
    let two = PostgresStore::open(options).await.unwrap().journal();
    let fenced = one.claim(&key("fenced")).await.unwrap();
    two.claim(&key("fenced")).await.unwrap();
    let mut appends = JoinSet::new();
    for number in 0..10 {
        let claim = one.claim(&key(&format!("s{number}"))).await.unwrap();
        let one = one.clone();
        appends.spawn(async move { one.append(&claim, batch(1, &["a"])).await });
    }
    let refused = one.append(&fenced, batch(1, &["a"])).await;
    assert!(
        matches!(refused, Err(JournalError::Fenced { .. })),
        "{refused:?}"
    );
    for appended in appends.join_all().await {
        appended.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_of_the_server_loses_no_acknowledged_record() {
    const WRITERS: u64 = 8;
    let Some(mut server) = Server::start() else {
        return skipped(
            "crash_of_the_server_loses_no_acknowledged_record",
            "PostgreSQL is not installed",
        );
    };
    let journal = store(&server).await.journal();
    let mut writers = JoinSet::new();
    for number in 0..WRITERS {
        let journal = journal.clone();
        writers.spawn(async move {
            let name = key(&format!("s{number}"));
            let claim = journal.claim(&name).await.unwrap();
            let mut acknowledged = 0;
            // The server stops at some time.
            while let Ok(()) = journal
                .append(&claim, batch(acknowledged + 1, &["a"]))
                .await
            {
                acknowledged += 1;
            }
            (name, acknowledged)
        });
    }
    let mut watch = journal.watch(&key("s0")).await.unwrap();
    watch.wait_for(|head| *head >= 20).await.unwrap();
    let server = tokio::task::spawn_blocking(move || {
        server.crash();
        server
    });
    let _server = server.await.unwrap();
    for (name, acknowledged) in writers.join_all().await {
        // A connection that the pool has not used since then may fail once more.
        let claim = loop {
            match journal.claim(&name).await {
                Ok(claim) => break claim,
                Err(JournalError::Unavailable(_)) => yield_now().await,
                Err(error) => panic!("{error}"),
            }
        };
        let page = journal.read(&name, 0, usize::MAX).await.unwrap();
        assert!(
            claim.head >= acknowledged,
            "{name}: {} < {acknowledged}",
            claim.head
        );
        assert!(
            claim.head <= acknowledged + 1,
            "{name} has records that were refused"
        );
        assert_eq!(page.events.len() as u64, claim.head);
        let next = batch(claim.head + 1, &["b"]);
        journal.append(&claim, next).await.unwrap();
    }
}
