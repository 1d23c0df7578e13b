//! Tasks, automations and fleets with malicious clients and concurrent requests.

use serde_json::{Value, json};

use crate::support::{Client, MultiTokenDaemon, Setup, TestDaemon, text};
use crate::tasks::until;

fn nightly() -> Value {
    json!({"name": "n", "prompt": "hi", "rrule": "FREQ=HOURLY;INTERVAL=1", "status": "paused"})
}

/// Creates a task, an automation and a fleet run, and returns their paths.
async fn one_of_each(client: &Client) -> Vec<String> {
    let fleet = json!({"tasks": [{"id": "t", "instructions": "hi"}]});
    let mut paths = Vec::new();
    for (list, body, id) in [
        ("/v1/tasks", json!({"prompt": "hi"}), "/id"),
        ("/v1/automations", nightly(), "/id"),
        ("/v1/fleet/runs", fleet, "/run/id"),
    ] {
        let made = client.post(list, body).await.expect(201);
        paths.push(format!("{list}/{}", text(made.pointer(id).unwrap())));
    }
    paths
}

/// Rewrites the ID at the end of a path.
fn with_id(path: &str, write: impl Fn(&str) -> String) -> String {
    let (list, id) = path.rsplit_once('/').unwrap();
    format!("{list}/{}", write(id))
}

#[tokio::test]
async fn refusals_do_not_reveal_jobs_of_other_owners() {
    let home = MultiTokenDaemon::start().await;
    let other = home.client(&home.agent("other"));
    let worker = |path: &str| path.replace("/runs/", "/workers/") + "-w1";
    let mut paths = one_of_each(&home.daemon.client).await;
    paths.push(worker(&paths[2]));
    for path in paths {
        let digits = |id: &str| id.split(['_', '-']).nth(1).unwrap().to_owned();
        let none = with_id(&path, |id| id.replace(&digits(id), &"0".repeat(32)));
        let refusal = async |path: &str| {
            let reply = other.get(path).await;
            assert_eq!(reply.status, 404, "{path}");
            let mut error = reply.json()["error"].clone();
            let message = text(&error["message"]);
            let id = path.rsplit_once('/').unwrap().1;
            error["message"] = json!(message.replace(id, "<id>"));
            error
        };
        assert_eq!(refusal(&path).await, refusal(&none).await, "{path}");
        // A non-canonical spelling of an ID is unknown.
        for spelt in [
            with_id(&path, |id| {
                id.replace(&digits(id), &digits(id).to_uppercase())
            }),
            with_id(&path, digits),
            with_id(&path, |id| format!("%20{id}")),
            with_id(&path, |id| format!("{id}%00")),
            with_id(&path, |id| format!("{id}{}", "0".repeat(4000))),
        ] {
            for client in [&other, &home.daemon.client] {
                let reply = client.get(&spelt).await;
                // The ID may contain no letter.
                let is_same = spelt == path && reply.status == 200;
                assert!(is_same || reply.status == 404, "{spelt}: {}", reply.status);
            }
        }
    }
}

#[tokio::test]
async fn invalid_cursors_and_numbers_are_refused_or_match_nothing() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let paths = one_of_each(client).await;
    let run = &paths[2];
    for (path, status) in [
        (
            format!("{run}/events/replay?after=18446744073709551615"),
            200,
        ),
        (format!("{run}/events/replay?after=-1"), 400),
        (format!("{run}/events/replay?after=x"), 400),
        (format!("{run}/events/replay?limit=0"), 400),
        (format!("{run}/events/replay?limit=1001"), 400),
        (format!("{}/runs?limit=99999999999999999999", paths[1]), 400),
        (format!("{}/runs?limit=0", paths[1]), 200),
        ("/v1/tasks?limit=-1".to_owned(), 400),
        ("/v1/tasks?status=".to_owned(), 200),
        (format!("/v1/tasks?status={}", "running,".repeat(900)), 400),
        ("/v1/fleet/runs?before=fleet_g".to_owned(), 400),
        ("/v1/agent-runs?parent=thr_x".to_owned(), 400),
        ("/v1/tasks/task_%ff".to_owned(), 404),
        ("/v1/threads/thr_%ff/turns/%c0%80".to_owned(), 404),
    ] {
        let reply = client.get(&path).await;
        assert_eq!(reply.status, status, "{path}: {:?}", reply.body);
        // Every refusal has the same shape.
        assert!(status == 200 || !reply.code().is_empty(), "{path}");
    }
}

#[tokio::test]
async fn removing_or_pausing_an_automation_lets_its_run_finish() {
    let daemon = Setup::settings(|settings| {
        settings.jobs.as_mut().unwrap().tasks.workers = 1;
    });
    let daemon = daemon.start().await;
    let client = &daemon.client;
    let path = one_of_each(client).await[1].clone();
    client
        .patch(&path, json!({"prompt": "SLOW"}))
        .await
        .expect(200);
    let run = async || {
        let run = client.post(&format!("{path}/run"), json!({})).await;
        text(&run.expect(200)["task_id"])
    };
    let (first, second) = (run().await, run().await);
    until(client, &first, "running").await;
    for word in ["pause", "resume", "pause", "pause"] {
        let reply = client.post(&format!("{path}/{word}"), json!({})).await;
        reply.expect(200);
    }
    let runs = client.get(&format!("{path}/runs")).await.expect(200);
    assert_eq!(runs.as_array().unwrap().len(), 2);
    client.raw("DELETE", &path, None).await.expect(200);
    let again = client.raw("DELETE", &path, None).await;
    assert_eq!(again.code(), "automation_not_found");
    let late = client.post(&format!("{path}/run"), json!({})).await;
    assert_eq!(late.code(), "automation_not_found");
    daemon.model.open();
    until(client, &first, "completed").await;
    until(client, &second, "completed").await;
}

#[tokio::test]
async fn task_thread_can_be_removed_only_without_an_open_turn() {
    let daemon = Setup::settings(|settings| {
        settings.jobs.as_mut().unwrap().tasks.workers = 1;
    });
    let daemon = daemon.start().await;
    let client = &daemon.client;
    let made = client.post("/v1/tasks", json!({"prompt": "ASK"})).await;
    let id = text(&made.expect(201)["id"]);
    // Another task occupies the worker, so this one waits for it.
    let other = client.post("/v1/tasks", json!({"prompt": "hi"})).await;
    until(client, &text(&other.expect(201)["id"]), "completed").await;
    let task = until(client, &id, "running").await;
    let thread = format!("/v1/threads/{}", text(&task["thread_id"]));
    let refused = client.raw("DELETE", &thread, None).await;
    assert_eq!(refused.code(), "turn_active");
    // Interrupting the turn ends the task.
    let turn = format!("{thread}/turns/{}", text(&task["turn_id"]));
    let interrupt = client.post(&format!("{turn}/interrupt"), json!({})).await;
    assert!(interrupt.status < 300, "{:?}", interrupt.body);
    until(client, &id, "canceled").await;
    assert_eq!(client.raw("DELETE", &thread, None).await.status, 204);
    let task = client.get(&format!("/v1/tasks/{id}")).await.expect(200);
    assert_eq!(task["status"], "canceled");
    let cancel = client
        .post(&format!("/v1/tasks/{id}/cancel"), json!({}))
        .await;
    assert_eq!(cancel.expect(200)["status"], "canceled");
}
