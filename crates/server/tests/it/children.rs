//! Threads of subagents.

use serde_json::{Value, json};

use crate::support::{Setup, TestDaemon};

async fn start() -> TestDaemon {
    let setup = Setup {
        starts_agents: true,
        ..Setup::default()
    };
    setup.start().await
}

/// Returns the details of all threads but one.
async fn others(daemon: &TestDaemon, thread: &str) -> Vec<Value> {
    let listed = daemon.client.get("/v1/threads").await.expect(200);
    let mut threads = Vec::new();
    for listed in listed.as_array().unwrap() {
        let path = format!("/v1/threads/{}", listed["id"].as_str().unwrap());
        if path != thread {
            threads.push(daemon.detail(&path).await);
        }
    }
    threads
}

#[tokio::test]
async fn agent_thread_names_its_parent_and_inherits_its_rights() {
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
    // A client can continue the subagent's conversation.
    let path = format!("/v1/threads/{}", child["thread"]["id"].as_str().unwrap());
    let frames = daemon.say(&path, "more").await;
    let turn = &frames.last().expect("an end").data["payload"]["turn"];
    assert_eq!(turn["status"], "completed", "{turn}");
}

#[tokio::test]
async fn interrupting_a_turn_interrupts_the_threads_of_its_agents() {
    let daemon = start().await;
    let thread = daemon.thread(json!({})).await;
    let turn = daemon.turn(&thread, json!({"prompt": "SPAWN SLOW"})).await;
    let child = running_agent(&daemon, &thread).await;
    let path = format!("{turn}/interrupt");
    daemon.client.post(&path, json!({})).await;
    until_interrupted(&daemon, &child).await;
}

/// Returns the thread ID of a subagent with a running turn.
async fn running_agent(daemon: &TestDaemon, thread: &str) -> String {
    loop {
        let others = others(daemon, thread).await;
        if let Some(child) = others.first().filter(|child| child["turns"][0].is_object()) {
            return child["thread"]["id"].as_str().unwrap().to_owned();
        }
        tokio::task::yield_now().await;
    }
}

async fn until_interrupted(daemon: &TestDaemon, child: &str) {
    loop {
        let detail = daemon.detail(&format!("/v1/threads/{child}")).await;
        let status = detail["turns"][0]["status"].clone();
        if status == "interrupted" {
            break;
        }
        assert_ne!(status, "completed");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn agent_is_cancelled_only_by_its_parent_thread() {
    let daemon = start().await;
    let thread = daemon.thread(json!({})).await;
    let mut events = daemon.events(&thread, 0).await;
    daemon.turn(&thread, json!({"prompt": "SPAWN SLOW"})).await;
    let agent = running_agent(&daemon, &thread).await;
    let other = daemon.thread(json!({})).await;
    let cancel = async |thread: &str, agent: &str| {
        let path = format!("{thread}/agent-runs/{agent}/cancel");
        daemon.client.post(&path, json!({})).await
    };
    for (thread, agent) in [(&other, agent.as_str()), (&thread, "thr_none")] {
        let refused = cancel(thread, agent).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (404, "agent_run_not_found")
        );
    }
    let cancelled = cancel(&thread, &agent).await.expect(200);
    assert_eq!(cancelled["thread_id"], agent);
    until_interrupted(&daemon, &agent).await;
    // The parent turn reads the result and completes.
    events.until("turn.completed").await;
    let late = cancel(&thread, &agent).await;
    assert_eq!((late.status, late.code().as_str()), (409, "no_active_turn"));
}

#[tokio::test]
async fn nudge_steers_the_turn_once() {
    let daemon = start().await;
    let thread = daemon.thread(json!({})).await;
    let id = thread.trim_start_matches("/v1/threads/");
    let nudge = async |agents: Value| {
        let path = format!("{thread}/agent-runs/nudge");
        daemon
            .client
            .post(&path, json!({"agent_ids": agents}))
            .await
    };
    let idle = nudge(json!(["thr_none"])).await;
    assert_eq!((idle.status, idle.code().as_str()), (409, "no_active_turn"));
    let mut events = daemon.events(&thread, 0).await;
    let turn = daemon.turn(&thread, json!({"prompt": "SPAWN SLOW"})).await;
    let agent = running_agent(&daemon, &thread).await;
    let empty = nudge(json!([])).await;
    assert_eq!(
        (empty.status, empty.code().as_str()),
        (422, "invalid_field")
    );
    let unknown = nudge(json!(["thr_none"])).await;
    assert_eq!(
        (unknown.status, unknown.code().as_str()),
        (404, "agent_run_not_found")
    );
    for coalesced in [false, true, true] {
        let nudged = nudge(json!([agent, agent])).await.expect(200);
        let turn_id = turn.rsplit('/').next().unwrap();
        let expected = json!({"accepted": true, "coalesced": coalesced, "thread_id": id,
            "turn_id": turn_id, "agent_ids": [agent]});
        assert_eq!(nudged, expected);
    }
    let path = format!("{thread}/agent-runs/{agent}/cancel");
    daemon.client.post(&path, json!({})).await.expect(200);
    let frames = events.until("turn.completed").await;
    let steered = frames.iter().filter(|frame| frame.event == "turn.steered");
    assert_eq!(steered.count(), 1);
}
