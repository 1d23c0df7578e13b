//! Retention, metrics and readiness.

use std::time::Duration;

use serde_json::json;
use windlass_runtime::SqliteRetention;

use crate::support::{Setup, TestDaemon, assert_sound, soon};

async fn metric(daemon: &TestDaemon, name: &str) -> u64 {
    let metrics = daemon.client.get("/metrics").await;
    let metrics = String::from_utf8(metrics.body.to_vec()).unwrap();
    let prefix = format!("windlass_{name} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&prefix));
    line.unwrap().parse().unwrap()
}

#[tokio::test]
async fn maintenance_prunes_expired_records_and_reports_it() {
    let data = tempfile::tempdir().unwrap();
    let mut setup = Setup {
        data: Some(data.path().join("store")),
        retention: SqliteRetention {
            text_chunks: Some(Duration::ZERO),
            ..SqliteRetention::default()
        },
        ..Setup::default()
    };
    setup.settings = Box::new(|settings| {
        settings.upkeep.every = Some(Duration::from_millis(100));
    });
    let daemon = setup.start().await;
    let thread = daemon.thread(json!({"title": "stored"})).await;
    let whole = daemon.say(&thread, "hello").await;
    assert!(whole.iter().any(|frame| frame.event == "item.delta"));
    let before = daemon.detail(&thread).await;
    let runs = metric(&daemon, "upkeeps_total").await;
    soon(async {
        while metric(&daemon, "upkeeps_total").await < runs + 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert!(metric(&daemon, "removed_records_total").await > 0);
    assert_eq!(metric(&daemon, "upkeep_failures_total").await, 0);
    assert!(metric(&daemon, "stored_bytes").await > 0);
    let mut events = daemon.events(&thread, 0).await;
    let again = events.until("turn.completed").await;
    assert_sound(&again, 0);
    // No text is lost: a later record contains it.
    events.until_comment("caught-up").await;
    let is_reported = |comment: &String| comment.starts_with("pruned");
    assert!(
        !events.comments.iter().any(is_reported),
        "{:?}",
        events.comments
    );
    assert!(again.iter().all(|frame| frame.event != "item.delta"));
    assert_eq!(
        daemon.detail(&thread).await,
        before,
        "later records hold the text whole"
    );
}

#[tokio::test]
async fn limit_that_retention_cannot_meet_is_a_metric() {
    for (max_bytes, is_over) in [(1, true), (1_000_000_000, false)] {
        let data = tempfile::tempdir().unwrap();
        let mut setup = Setup {
            data: Some(data.path().join("store")),
            retention: SqliteRetention {
                max_bytes: Some(max_bytes),
                ..SqliteRetention::default()
            },
            ..Setup::default()
        };
        setup.settings = Box::new(|settings| {
            settings.upkeep.every = Some(Duration::from_millis(100));
        });
        let daemon = setup.start().await;
        daemon.thread(json!({"title": "never removed"})).await;
        let runs = metric(&daemon, "upkeeps_total").await;
        soon(async {
            // One maintenance run may have started before the thread existed.
            while metric(&daemon, "upkeeps_total").await < runs + 2 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        let over = metric(&daemon, "unremovable_bytes_over_limit").await;
        assert_eq!(over > 0, is_over, "{over} bytes over {max_bytes}");
    }
}

#[tokio::test]
async fn thread_remains_after_its_records_are_pruned() {
    let data = tempfile::tempdir().unwrap();
    let workspace = tempfile::tempdir().unwrap();
    let root = workspace.path().to_owned();
    let setup = Setup {
        data: Some(data.path().join("store")),
        retention: SqliteRetention {
            max_age: Some(Duration::ZERO),
            ..SqliteRetention::default()
        },
        ..Setup::settings(|settings| {
            settings.workspace = root;
            settings.upkeep.every = Some(Duration::from_millis(100));
        })
    };
    let daemon = setup.start().await;
    let thread = daemon.thread(json!({"title": "stored"})).await;
    daemon.say(&thread, "hello").await;
    let id = thread.trim_start_matches("/v1/threads/");
    let saved = json!({"thread_id": id, "title": "before"});
    let saved = daemon.client.post("/v1/sessions", saved).await.expect(201);
    let resume = format!(
        "/v1/sessions/{}/resume-thread",
        saved["session_id"].as_str().unwrap()
    );
    let list = daemon.client.get("/v1/threads").await.expect(200);
    soon(async {
        while metric(&daemon, "removed_records_total").await == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    daemon.stop.cancel();
    soon(daemon.running).await.unwrap();
    soon(daemon.opened.unwrap().close()).await;

    let root = workspace.path().to_owned();
    let setup = Setup {
        data: Some(data.path().join("store")),
        ..Setup::settings(|settings| settings.workspace = root)
    };
    let daemon = setup.start().await;
    assert_eq!(daemon.client.get("/v1/threads").await.expect(200), list);
    assert_eq!(daemon.detail(&thread).await["thread"]["title"], "stored");
    // A follower gets the range of pruned records, and a direct request gets the reason.
    let mut events = daemon.events(&thread, 0).await;
    let comment = events.until_comment("pruned ").await;
    assert!(comment.starts_with("pruned 1-"), "{comment}");
    for (path, body) in [
        (&resume, json!({})),
        (&format!("{thread}/undo"), json!({})),
        (&format!("{thread}/patch-undo"), json!({})),
    ] {
        let refused = daemon.client.post(path, body).await;
        let status = refused.status;
        let refused = String::from_utf8(refused.body.to_vec()).unwrap();
        assert!((400..500).contains(&status), "{path}: {status} {refused}");
        assert!(refused.contains("retention removed"), "{path}: {refused}");
    }
    daemon.say(&thread, "still here?").await;
}

#[tokio::test]
async fn daemon_with_a_failing_store_is_not_ready() {
    let data = tempfile::tempdir().unwrap();
    let directory = data.path().join("data");
    let setup = Setup {
        data: Some(directory.clone()),
        ..Setup::default()
    };
    let daemon = setup.start().await;
    daemon.client.get("/ready").await.expect(200);
    // While another process holds the database lock, no write succeeds.
    let disk = rusqlite::Connection::open(directory.join("windlass.db")).unwrap();
    disk.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = loop {
        let reply = daemon.client.get("/ready").await;
        if reply.status != 200 {
            break reply;
        }
    };
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (503, "store_unavailable")
    );
    daemon.client.get("/health").await.expect(200);
    disk.execute_batch("ROLLBACK").unwrap();
    while daemon.client.get("/ready").await.status != 200 {}
}

async fn text_of_metrics(daemon: &TestDaemon) -> String {
    let metrics = daemon.client.get("/metrics").await;
    String::from_utf8(metrics.body.to_vec()).unwrap()
}

#[tokio::test]
async fn metrics_count_turn_outcomes_and_durations() {
    let data = tempfile::tempdir().unwrap();
    let setup = Setup {
        data: Some(data.path().join("store")),
        ..Setup::default()
    };
    let daemon = setup.start().await;
    assert!(
        metric(&daemon, "stored_bytes").await > 0,
        "before any upkeep"
    );
    assert_eq!(metric(&daemon, "upkeeps_total").await, 0);
    let thread = daemon.thread(json!({})).await;
    daemon.say(&thread, "hello").await;
    daemon.say(&thread, "ERR500 please").await;
    let mut events = daemon.events(&thread, 0).await;
    for _ in 0..2 {
        events.until("turn.completed").await;
    }
    let turn = daemon.turn(&thread, json!({"prompt": "SLOW please"})).await;
    assert_eq!(metric(&daemon, "turns_active").await, 1);
    let stopped = daemon.client.post(&format!("{turn}/interrupt"), json!({}));
    stopped.await.expect(200);
    events.until("turn.completed").await;
    let waiting = daemon.turn(&thread, json!({"prompt": "SHELL now"})).await;
    events.until("approval.required").await;
    let figures = text_of_metrics(&daemon).await;
    for line in [
        "windlass_turns_started_total 4",
        "windlass_turns_ended_total{status=\"completed\"} 1",
        "windlass_turns_ended_total{status=\"failed\"} 1",
        "windlass_turns_ended_total{status=\"interrupted\"} 1",
        "windlass_turns_active 0",
        "windlass_turns_waiting 1",
        "windlass_model_errors_total 1",
        "windlass_tokens_total{kind=\"input\"} 100",
        "windlass_tokens_total{kind=\"output\"} 20",
        "windlass_turn_duration_seconds_count 3",
        "windlass_turn_duration_seconds_bucket{le=\"+Inf\"} 3",
    ] {
        assert!(
            figures.lines().any(|known| known == line),
            "{line} in {figures}"
        );
    }
    let stopped = daemon
        .client
        .post(&format!("{waiting}/interrupt"), json!({}));
    stopped.await.expect(200);
}

#[tokio::test]
async fn call_cut_by_a_shutdown_is_not_a_provider_error() {
    let data = tempfile::tempdir().unwrap();
    let workspace = tempfile::tempdir().unwrap();
    let setup = || {
        let root = workspace.path().to_owned();
        Setup {
            data: Some(data.path().join("store")),
            ..Setup::settings(|settings| settings.workspace = root)
        }
    };
    let daemon = setup().start().await;
    let thread = daemon.thread(json!({})).await;
    daemon.turn(&thread, json!({"prompt": "SLOW please"})).await;
    daemon.events(&thread, 0).await.until("item.delta").await;
    daemon.stop.cancel();
    soon(daemon.running).await.unwrap();
    soon(daemon.opened.unwrap().close()).await;

    let daemon = setup().start().await;
    soon(async {
        while metric(&daemon, "model_calls_total").await == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_eq!(metric(&daemon, "model_errors_total").await, 0);
}
