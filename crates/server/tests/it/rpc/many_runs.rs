//! Many concurrent runs: none is lost, and each has the right outcome.

use serde_json::json;
use tokio::task::JoinSet;

use super::{LIVENESS, open_daemon};
use crate::rpc::socket::RpcSocket;

/// Waits until `count` runs have that status.
async fn wait_for(socket: &mut RpcSocket, agent_id: &str, status: &str, count: usize) {
    let deadline = tokio::time::Instant::now() + 3 * LIVENESS;
    loop {
        let (mut cursor, mut found) = (json!(0), 0);
        loop {
            let params =
                json!({"agent_id": agent_id, "status": status, "cursor": cursor, "limit": 200});
            let page = socket.ok("runs.list", params).await;
            found += page["runs"].as_array().unwrap().len();
            match page.get("next_cursor") {
                Some(next) => cursor = next.clone(),
                None => break,
            }
        }
        if found == count {
            return;
        }
        assert!(
            tokio::time::Instant::now() < deadline,
            "{found} of {count} runs are {status}"
        );
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n01_a_thousand_runs_completed_and_closed_without_waiting_are_completed() {
    let daemon = open_daemon(|_| {}).await;
    let address = daemon.client.address;
    let mut clients = JoinSet::new();
    for client in 0..20 {
        clients.spawn(async move {
            for number in 0..50 {
                let mut socket = RpcSocket::connect(address).await;
                let key = format!("{client}-{number}");
                let start = json!({"agent_id": "a", "intent": "i", "idempotency_key": key});
                socket.post("runs.start", start).await;
                let complete = json!({"run_id": key, "outcome": {"status": "success"}});
                socket.post("runs.complete", complete).await;
                match number % 2 {
                    0 => socket.ws.close(None).await.unwrap(),
                    _ => socket.vanish(),
                }
            }
        });
    }
    clients.join_all().await;
    let mut socket = RpcSocket::connect(address).await;
    wait_for(&mut socket, "a", "completed", 1000).await;
    wait_for(&mut socket, "a", "incomplete", 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n01_a_thousand_runs_dropped_in_the_middle_are_incomplete() {
    let daemon = open_daemon(|_| {}).await;
    let address = daemon.client.address;
    let mut clients = JoinSet::new();
    for client in 0..20 {
        clients.spawn(async move {
            for number in 0..50 {
                let mut socket = RpcSocket::connect(address).await;
                let run = socket.start("a").await;
                if (client + number) % 3 == 0 {
                    let turns = json!({"run_id": run, "turns": [{"tool": "t"}]});
                    socket.post("runs.record_turns", turns).await;
                }
                socket.vanish();
            }
        });
    }
    clients.join_all().await;
    let mut socket = RpcSocket::connect(address).await;
    wait_for(&mut socket, "a", "incomplete", 1000).await;
}
