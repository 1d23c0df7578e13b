//! Records in pages, and the check of their chain.

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::{MultiTokenDaemon, Setup, TestDaemon, text, until};

async fn on_disk(data: &std::path::Path) -> TestDaemon {
    let setup = Setup {
        data: Some(data.join("store")),
        ..Setup::default()
    };
    setup.start().await
}

fn seqs(page: &Value) -> Vec<u64> {
    let records = page["records"].as_array().unwrap().iter();
    records
        .map(|record| record["seq"].as_u64().unwrap())
        .collect()
}

/// Reads all pages in one direction.
async fn all(daemon: &TestDaemon, thread: &str, query: &str, cursor: &str) -> Vec<Value> {
    let (mut records, mut next) = (Vec::new(), None);
    loop {
        let from = next.map_or(String::new(), |next| format!("&{cursor}={next}"));
        let from = match (from.as_str(), cursor) {
            ("", "after") => "&after=0".to_owned(),
            _ => from,
        };
        let page = daemon
            .client
            .get(&format!("{thread}/records?{query}{from}"));
        let page = page.await.expect(200);
        let of_page = page["records"].as_array().unwrap().iter().cloned();
        if cursor == "after" {
            records.extend(of_page);
        } else {
            records.splice(0..0, of_page);
        }
        next = page[cursor].as_u64();
        if next.is_none() {
            return records;
        }
    }
}

#[tokio::test]
async fn pages_in_both_directions_contain_every_record_once() {
    let data = tempfile::tempdir().unwrap();
    for daemon in [TestDaemon::start().await, on_disk(data.path()).await] {
        let thread = daemon.thread(json!({})).await;
        daemon.say(&thread, "hello").await;
        daemon.say(&thread, "hello again").await;
        let head = daemon.detail(&thread).await["latest_seq"].as_u64().unwrap();
        let whole: Vec<u64> = (1..=head).collect();
        for limit in [1, 3, 7, 1_000] {
            let query = format!("limit={limit}");
            let forward = all(&daemon, &thread, &query, "after").await;
            let backward = all(&daemon, &thread, &query, "before").await;
            assert_eq!(seqs(&json!({ "records": forward })), whole, "{limit}");
            assert_eq!(forward, backward, "{limit}");
        }
        let kinds = "kinds=turn.*,llm.generation&limit=2";
        let forward = all(&daemon, &thread, kinds, "after").await;
        assert_eq!(forward, all(&daemon, &thread, kinds, "before").await);
        let names: Vec<_> = forward.iter().map(|it| text(&it["kind"])).collect();
        let turn = ["turn.started", "llm.generation", "turn.completed"];
        assert_eq!(names, [turn, turn].concat());
        // The newest page is the default.
        let newest = daemon.client.get(&format!("{thread}/records?limit=2"));
        let newest = newest.await.expect(200);
        assert_eq!(seqs(&newest), [head - 1, head]);
        assert_eq!(
            (&newest["before"], newest.get("after")),
            (&json!(head - 1), None)
        );
    }
}

#[tokio::test]
async fn record_contains_the_stored_content_unless_it_is_an_outline() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    daemon.say(&thread, "hello\n\u{1b}[31mred").await;
    let records = |query: &str| {
        let reply = daemon.client.get(&format!("{thread}/records?{query}"));
        async {
            reply.await.expect(200)["records"]
                .as_array()
                .unwrap()
                .clone()
        }
    };
    let whole = records("").await;
    let outline = records("outline=true").await;
    assert_eq!(whole.len(), outline.len());
    for (whole, outline) in whole.iter().zip(&outline) {
        let data = whole["data"].to_string();
        assert_eq!(whole["bytes"], data.len());
        assert_eq!(outline.get("data"), None);
        assert_eq!(whole["summary"], outline["summary"]);
        assert!(!text(&whole["summary"]).contains(char::is_control));
    }
    let started = whole.iter().find(|it| it["kind"] == "turn.started");
    assert!(text(&started.unwrap()["summary"]).starts_with("hello [31mred"));
    let failing = daemon.say(&thread, "ERR500 now").await;
    assert!(!failing.is_empty());
    let failed = records("kinds=turn.failed").await;
    assert_eq!(failed[0]["failed"], true);
}

#[tokio::test]
async fn answers_to_questions_are_not_shown() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    daemon.turn(&thread, json!({"prompt": "ASK me"})).await;
    let asked = until(&daemon.client, &thread, |detail| {
        detail["pending_user_inputs"][0].is_object()
    });
    let input = text(&asked.await["pending_user_inputs"][0]["id"]);
    let path = thread.replace("/v1/threads", "/v1/user-input");
    let answer = json!({"id": "colour", "label": "Other", "value": "ultramarine-77"});
    let answered = daemon
        .client
        .post(&format!("{path}/{input}"), json!({"answers": [answer]}));
    let answered = answered.await;
    if answered.status != 200 {
        // The question allows only its options.
        let answer = json!({"id": "colour", "label": "Red", "value": "Red"});
        let path = format!("{path}/{input}");
        daemon
            .client
            .post(&path, json!({"answers": [answer]}))
            .await
            .expect(200);
    }
    until(&daemon.client, &thread, |detail| {
        detail["turns"][0]["status"] == "completed"
    })
    .await;
    let page = daemon
        .client
        .get(&format!("{thread}/records"))
        .await
        .expect(200);
    let records = page["records"].as_array().unwrap();
    for kind in ["user_input.answered", "tool.completed"] {
        let record = records.iter().find(|it| it["kind"] == kind).unwrap();
        assert_eq!(
            (record["redacted"].as_bool(), record.get("data")),
            (Some(true), None)
        );
        assert!(!record["summary"].to_string().contains("Red"), "{record}");
    }
}

#[tokio::test]
async fn invalid_pages_are_refused() {
    let home = MultiTokenDaemon::start().await;
    let daemon = &home.daemon;
    let thread = daemon.thread(json!({})).await;
    let both = daemon
        .client
        .get(&format!("{thread}/records?after=1&before=3"));
    assert_eq!(both.await.code(), "invalid_query");
    let unknown = daemon.client.get("/v1/threads/thr_none/records").await;
    assert_eq!(unknown.code(), "thread_not_found");
    for (query, count) in [
        ("after=99999", 0),
        ("before=0", 0),
        ("before=1", 0),
        ("limit=0", 1),
    ] {
        let page = daemon.client.get(&format!("{thread}/records?{query}"));
        assert_eq!(seqs(&page.await.expect(200)).len(), count, "{query}");
    }
    let agent = home.client(&home.agent("a"));
    let own = agent.post("/v1/threads", json!({})).await.expect(201);
    let own = format!("/v1/threads/{}/records", text(&own["id"]));
    assert_eq!(agent.get(&own).await.code(), "forbidden");
}

#[tokio::test]
async fn large_records_do_not_make_large_pages() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    for _ in 0..4 {
        daemon.say(&thread, &"x".repeat(400_000)).await;
    }
    let forward = all(&daemon, &thread, "limit=1000", "after").await;
    let backward = all(&daemon, &thread, "limit=1000", "before").await;
    assert_eq!(
        seqs(&json!({ "records": forward })),
        seqs(&json!({ "records": backward }))
    );
    for direction in ["after=0", "limit=1000"] {
        let page = daemon
            .client
            .get(&format!("{thread}/records?limit=1000&{direction}"));
        let page = page.await;
        assert!(page.body.len() < 3_000_000, "{}", page.body.len());
        let page = page.expect(200);
        assert!(seqs(&page).len() < forward.len());
    }
    let outline = daemon
        .client
        .get(&format!("{thread}/records?limit=1000&outline=true"));
    assert_eq!(seqs(&outline.await.expect(200)).len(), forward.len());
}

#[tokio::test]
async fn changed_record_is_found() {
    let data = tempfile::tempdir().unwrap();
    let daemon = on_disk(data.path()).await;
    let thread = daemon.thread(json!({})).await;
    daemon.say(&thread, "hello").await;
    let head = daemon.detail(&thread).await["latest_seq"].as_u64().unwrap();
    let verify = format!("{thread}/verify");
    let intact = daemon.client.post(&verify, json!({})).await.expect(200);
    assert_eq!(intact["verified_seq"], head);
    assert_eq!(intact["latest_seq"], head);
    assert_eq!(intact.get("damaged_seq"), None);
    assert_eq!(text(&intact["chain"]).len(), 64);
    assert_eq!(intact["findings"], json!([]));
    daemon.stop.cancel();
    daemon.running.await.unwrap();
    daemon.opened.unwrap().close().await;
    let files = std::fs::read_dir(data.path().join("store")).unwrap();
    let mut files = files.map(|file| file.unwrap().path());
    let database = files
        .find(|file| file.extension().is_some_and(|it| it == "db"))
        .unwrap();
    let sql = "UPDATE records SET body = CAST(substr(body, 1, length(body) - 1) || x'00' AS BLOB) WHERE seq = 4";
    assert_eq!(
        Connection::open(database)
            .unwrap()
            .execute(sql, [])
            .unwrap(),
        1
    );
    let daemon = on_disk(data.path()).await;
    let damaged = daemon.client.post(&verify, json!({})).await.expect(200);
    assert_eq!(
        (&damaged["verified_seq"], &damaged["damaged_seq"]),
        (&json!(3), &json!(4))
    );
    assert_eq!(damaged["findings"][0]["seq"], 4);
}
