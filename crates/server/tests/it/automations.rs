//! Automations over HTTP: scheduled tasks.

use serde_json::{Value, json};

use crate::support::{Client, MultiTokenDaemon, TestDaemon, text};
use crate::tasks::until;

const NIGHTLY: &str = "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=2;BYMINUTE=30";

async fn make(client: &Client, body: Value) -> String {
    let made = client.post("/v1/automations", body).await.expect(201);
    format!("/v1/automations/{}", text(&made["id"]))
}

fn nightly() -> Value {
    json!({"name": "Nightly", "prompt": "hi", "rrule": NIGHTLY})
}

#[tokio::test]
async fn automation_is_created_changed_paused_and_removed() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let path = make(client, nightly()).await;
    let made = client.get(&path).await.expect(200);
    assert_eq!(made["status"], "active");
    assert_eq!(made["schema_version"], 1);
    assert!(text(&made["next_run_at"]).ends_with("T02:30:00Z"), "{made}");
    assert_eq!(made["cwds"], json!([]));
    let paused = client
        .post(&format!("{path}/pause"), json!({}))
        .await
        .expect(200);
    assert_eq!(
        (&paused["status"], &paused["next_run_at"]),
        (&json!("paused"), &Value::Null)
    );
    let resumed = client
        .post(&format!("{path}/resume"), json!({}))
        .await
        .expect(200);
    assert_eq!(resumed["next_run_at"], made["next_run_at"]);
    let change = json!({"name": "Hourly", "rrule": "FREQ=HOURLY;INTERVAL=1;BYMINUTE=5", "time_zone": "Asia/Tokyo",
        "status": "paused", "missed": "skip"});
    let changed = client.patch(&path, change).await.expect(200);
    assert_eq!(changed["name"], "Hourly");
    assert_eq!(changed["prompt"], "hi");
    assert_eq!(changed["status"], "paused");
    assert_eq!(changed["time_zone"], "Asia/Tokyo");
    assert_eq!(client.patch(&path, json!({})).await.code(), "no_changes");
    let list = client.get("/v1/automations").await.expect(200);
    assert_eq!(list, json!([changed]));
    client.raw("DELETE", &path, None).await.expect(200);
    assert_eq!(client.get(&path).await.code(), "automation_not_found");
    assert_eq!(client.get("/v1/automations").await.expect(200), json!([]));
}

#[tokio::test]
async fn automation_run_is_a_task() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let mut body = nightly();
    body["status"] = json!("paused");
    let path = make(client, body).await;
    let run = client
        .post(&format!("{path}/run"), json!({}))
        .await
        .expect(200);
    let task = until(client, &text(&run["task_id"]), "completed").await;
    let runs = client
        .get(&format!("{path}/runs?limit=5"))
        .await
        .expect(200);
    assert_eq!(runs[0]["id"], run["id"]);
    assert_eq!(runs[0]["status"], "completed");
    assert_eq!(runs[0]["thread_id"], task["thread_id"]);
    assert_eq!(runs[0]["turn_id"], task["turn_id"]);
    assert!(runs[0]["ended_at"].is_string());
    let automation = client.get(&path).await.expect(200);
    assert_eq!(automation["last_run_at"], run["scheduled_for"]);
}

#[tokio::test]
async fn invalid_schedules_are_refused_with_their_code() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let path = make(client, nightly()).await;
    for (field, value, status, code) in [
        ("rrule", json!("FREQ=SECONDLY"), 422, "invalid_schedule"),
        (
            "rrule",
            json!("FREQ=MINUTELY;INTERVAL=1"),
            422,
            "invalid_schedule",
        ),
        (
            "rrule",
            json!("FREQ=HOURLY;INTERVAL=0"),
            422,
            "invalid_schedule",
        ),
        (
            "rrule",
            json!("FREQ=WEEKLY;BYDAY=XX;BYHOUR=1;BYMINUTE=1"),
            422,
            "invalid_schedule",
        ),
        (
            "rrule",
            json!("FREQ=WEEKLY;BYDAY=MO;BYHOUR=25;BYMINUTE=1"),
            422,
            "invalid_schedule",
        ),
        (
            "rrule",
            json!("FREQ=HOURLY;INTERVAL=1;UNTIL=20200101T000000Z"),
            422,
            "invalid_schedule",
        ),
        ("rrule", json!(""), 422, "invalid_schedule"),
        ("time_zone", json!("Mars/Olympus"), 422, "invalid_schedule"),
        (
            "time_zone",
            json!("../../etc/passwd"),
            422,
            "invalid_schedule",
        ),
        ("cwds", json!(["/etc"]), 422, "cwd_outside_root"),
        // The number of parts is checked before their contents.
        ("cwds", json!(vec!["/etc"; 17]), 422, "invalid_field"),
        ("name", json!(""), 422, "invalid_field"),
        ("prompt", json!("  "), 400, "prompt_required"),
        ("status", json!("stopped"), 422, "invalid_field"),
        ("missed", json!("often"), 422, "invalid_field"),
    ] {
        let mut body = nightly();
        body[field] = value.clone();
        for reply in [
            client.post("/v1/automations", body).await,
            client.patch(&path, json!({field: value})).await,
        ] {
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (status, code),
                "{field}"
            );
        }
    }
    let list = client.get("/v1/automations").await.expect(200);
    assert_eq!(list.as_array().unwrap().len(), 1);
    let unchanged = client.get(&path).await.expect(200);
    assert_eq!(unchanged["rrule"], NIGHTLY);
}

#[tokio::test]
async fn agent_owns_its_automations_and_a_repeat_creates_none() {
    let home = MultiTokenDaemon::start().await;
    let (one, other) = (
        home.client(&home.agent("one")),
        home.client(&home.agent("other")),
    );
    let keyed = one.with("idempotency-key", "one");
    let path = make(&keyed, nightly()).await;
    assert_eq!(make(&keyed, nightly()).await, path);
    assert_eq!(other.get("/v1/automations").await.expect(200), json!([]));
    for reply in [
        other.get(&path).await,
        other.patch(&path, json!({"name": "Mine"})).await,
        other.raw("DELETE", &path, None).await,
        other.post(&format!("{path}/run"), json!({})).await,
        other.post(&format!("{path}/pause"), json!({})).await,
        other.post(&format!("{path}/resume"), json!({})).await,
        other.get(&format!("{path}/runs")).await,
    ] {
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (404, "automation_not_found")
        );
    }
    // The automation has the rights of its owner, which cannot disable approvals; no other client can do it either.
    let trusting = json!({"auto_approve": true});
    assert_eq!(one.patch(&path, trusting.clone()).await.status, 403);
    assert_eq!(home.daemon.client.patch(&path, trusting).await.status, 403);
    let named = home.daemon.client.patch(&path, json!({"name": "Ours"}));
    assert_eq!(named.await.expect(200)["name"], "Ours");
}
