//! Threads of agents that a model starts.

use serde_json::{Value, json};

use crate::support::{Daemon, Setup};

async fn start() -> Daemon {
    let setup = Setup {
        starts_agents: true,
        ..Setup::default()
    };
    setup.start().await
}

/// Returns the details of all threads but one.
async fn others(daemon: &Daemon, thread: &str) -> Vec<Value> {
    let listed = daemon.client.get("/v1/threads").await.expect(200);
    let mut found = Vec::new();
    for listed in listed.as_array().unwrap() {
        let path = format!("/v1/threads/{}", listed["id"].as_str().unwrap());
        if path != thread {
            found.push(daemon.detail(&path).await);
        }
    }
    found
}

#[tokio::test]
async fn the_thread_of_an_agent_says_whom_it_works_for_and_may_do_what_its_parent_may() {
    let daemon = start().await;
    let body = json!({"mode": "plan", "allow_shell": false, "budget": {"turn_tokens": 100_000}});
    let thread = daemon.thread(body).await;
    let frames = daemon.say(&thread, "SPAWN hello").await;
    let turn = &frames.last().expect("an end").data["payload"]["turn"];
    assert_eq!(turn["status"], "completed", "{turn}");
    let others = others(&daemon, &thread).await;
    let [child] = &others[..] else {
        panic!("{others:?}");
    };
    let parent = &child["thread"]["parent"];
    assert_eq!(
        format!("/v1/threads/{}", parent["thread_id"].as_str().unwrap()),
        thread
    );
    assert_eq!(parent["turn_id"], turn["id"]);
    let own = daemon.detail(&thread).await["thread"].clone();
    assert_eq!(own["parent"], Value::Null);
    for name in ["mode", "allow_shell", "budget", "workspace", "model"] {
        assert_eq!(child["thread"][name], own[name], "{name}");
    }
    assert_eq!(child["turns"][0]["status"], "completed");
    // Somebody can talk on in it.
    let path = format!("/v1/threads/{}", child["thread"]["id"].as_str().unwrap());
    let frames = daemon.say(&path, "more").await;
    let turn = &frames.last().expect("an end").data["payload"]["turn"];
    assert_eq!(turn["status"], "completed", "{turn}");
}

#[tokio::test]
async fn whoever_interrupts_a_turn_interrupts_the_threads_of_its_agents() {
    let daemon = start().await;
    let thread = daemon.thread(json!({})).await;
    let turn = daemon.turn(&thread, json!({"prompt": "SPAWN SLOW"})).await;
    let child = loop {
        let others = others(&daemon, &thread).await;
        if let Some(child) = others.first().filter(|child| child["turns"][0].is_object()) {
            break format!("/v1/threads/{}", child["thread"]["id"].as_str().unwrap());
        }
        tokio::task::yield_now().await;
    };
    let path = format!("{turn}/interrupt");
    daemon.client.post(&path, json!({})).await;
    loop {
        let status = daemon.detail(&child).await["turns"][0]["status"].clone();
        if status == "interrupted" {
            break;
        }
        assert_ne!(status, "completed");
        tokio::task::yield_now().await;
    }
}
