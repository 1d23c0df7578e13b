//! Turns of the daemon's own sessions in the list of runs: over the socket, in memory and on disk.

use serde_json::{Value, json};

use super::{LIVENESS, MultiTokenDaemon, open_daemon};
use crate::rpc::socket::RpcSocket;
use crate::support::{Setup, TestDaemon, text};
use windlass_server::Access;

/// A daemon that requires no token, with its data on disk.
async fn on_disk() -> (TestDaemon, tempfile::TempDir) {
    let data = tempfile::tempdir().unwrap();
    let setup = Setup {
        data: Some(data.path().join("data")),
        ..Setup::settings(|settings| settings.access = Access::Open)
    };
    (setup.start().await, data)
}

async fn thread(socket: &mut RpcSocket) -> String {
    text(&socket.ok("threads.create", json!({})).await["id"])
}

/// Starts a turn and returns its ID, which is also its run ID.
async fn turn(socket: &mut RpcSocket, thread: &str, prompt: &str) -> String {
    let params = json!({"thread_id": thread, "prompt": prompt});
    let started = socket.ok("turns.start", params).await;
    text(&started["turn"]["id"])
}

async fn runs(socket: &mut RpcSocket, params: Value) -> Vec<Value> {
    let page = socket.ok("runs.list", params).await;
    page["runs"].as_array().unwrap().clone()
}

async fn trace(socket: &mut RpcSocket, run_id: &str) -> Vec<Value> {
    let trace = socket.ok("runs.get_trace", json!({"run_id": run_id})).await;
    trace["records"].as_array().unwrap().clone()
}

fn ids(runs: &[Value]) -> Vec<String> {
    runs.iter().map(|run| text(&run["run_id"])).collect()
}

/// Returns each record's kind, and for a turn its tool.
fn kinds(records: &[Value]) -> Vec<String> {
    let kind = |record: &Value| match record["tool"].as_str() {
        Some(tool) => tool.to_owned(),
        None => text(&record["record"]),
    };
    records.iter().map(kind).collect()
}

async fn a_turn_is_a_run(daemon: TestDaemon) {
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let thread = thread(&mut socket).await;
    let run_id = turn(&mut socket, &thread, "BOTH of them").await;
    let snapshot = socket.ok("runs.subscribe", json!({"run_id": run_id})).await;
    assert_eq!(snapshot["agent_id"], "windlass:main");
    let mut live = snapshot["turns_so_far"].as_array().unwrap().clone();
    let asks = |record: &&Value| record["tool"] == "approval.required";
    while !live.iter().any(|record| asks(&record)) {
        let event = socket.event().await;
        assert_eq!(event["status"], "in_progress");
        live.push(event["record"].clone());
        assert_eq!(event["cursor"], live.len());
    }
    let parameters = live.iter().find(asks).unwrap()["parameters"].clone();
    assert_eq!(
        (&parameters["tool"], &parameters["arguments"]),
        (&json!("shell"), &json!({"command": "echo hi"}))
    );
    let waiting = runs(&mut socket, json!({"status": "in_progress"})).await;
    assert_eq!(ids(&waiting), [run_id.as_str()]);
    assert_eq!(waiting[0]["waiting_for"], json!(["approval"]));
    assert!(waiting[0]["turn_count"].as_u64().unwrap() >= live.len() as u64);
    assert!(waiting[0].get("ended_at").is_none());
    let digits = thread.strip_prefix("thr_").unwrap();
    assert!(text(&waiting[0]["session_id"]).ends_with(digits));

    let detail = daemon.detail(&format!("/v1/threads/{thread}")).await;
    let approval = text(&detail["pending_approvals"][0]["id"]);
    daemon
        .client
        .post(
            &format!("/v1/approvals/{approval}"),
            json!({"decision": "allow"}),
        )
        .await
        .expect(200);
    loop {
        let event = socket.event().await;
        live.push(event["record"].clone());
        if event["status"] != "in_progress" {
            assert_eq!(event["status"], "completed");
            break;
        }
    }
    let records = trace(&mut socket, &run_id).await;
    assert_eq!(
        records[1..],
        live,
        "the followed records equal the stored ones"
    );
    let ended = records.last().unwrap();
    assert_eq!(records[0]["intent"], "BOTH of them");
    assert_eq!(
        (
            &ended["termination"]["kind"],
            &ended["termination"]["status"]
        ),
        (&json!("outcome"), &json!("success"))
    );
    let metrics = &ended["termination"]["outcome"]["metrics"];
    assert_eq!(
        (
            &metrics["turns"],
            &metrics["tool_calls"],
            &metrics["actions_succeeded"]
        ),
        (&json!(2), &json!(2), &json!(2))
    );
    let mut kinds_of_records = kinds(&records);
    let calls = kinds_of_records.split_off(2);
    assert_eq!(kinds_of_records, ["started", "model_turn"]);
    for step in ["approval.required", "approval.decided", "clock", "shell"] {
        assert_eq!(
            calls.iter().filter(|kind| *kind == step).count(),
            1,
            "{calls:?}"
        );
    }
    assert_eq!(calls[4..], ["model_turn", "ended"]);
    let model = &records[1];
    assert_eq!(
        (&model["turn_index"], &model["index"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(model["requested_tool_calls"][0]["name"], "shell");
    assert_eq!(model["token_usage"]["total_tokens"], 120);
    let shell = records
        .iter()
        .find(|record| record["tool"] == "shell")
        .unwrap();
    assert_eq!(
        (&shell["parameters"], &shell["output"]),
        (&json!({"command": "echo hi"}), &json!("hi\n"))
    );

    // Reading page by page gives the same result.
    let (mut paged, mut cursor) = (Vec::new(), json!(0));
    while cursor.is_u64() {
        let params = json!({"run_id": run_id, "cursor": cursor, "limit": 2});
        let page = socket.ok("runs.get_trace", params).await;
        paged.extend(page["records"].as_array().unwrap().clone());
        cursor = page["next_cursor"].clone();
    }
    assert_eq!(paged, records);
    let params = json!({"run_id": run_id, "cursor": 1, "limit": 2});
    let page = socket.ok("runs.subscribe", params).await;
    assert_eq!(page["turns"], json!(records[2..4]));
    assert_eq!(
        (&page["live_cursor"], &page["subscribed"]),
        (&json!(6), &json!(false))
    );
    let row = &runs(&mut socket, json!({"agent_id": "windlass:main"})).await[0];
    assert_eq!(
        (&row["status"], &row["outcome"], &row["turn_count"]),
        (&json!("completed"), &json!("success"), &json!(6))
    );
    assert!(row["ended_at"].is_string() && row.get("waiting_for").is_none());
}

#[tokio::test]
async fn turn_is_listed_as_a_run_in_memory() {
    a_turn_is_a_run(open_daemon(|_| {}).await).await;
}

#[tokio::test]
async fn turn_is_listed_as_a_run_on_disk() {
    let (daemon, _data) = on_disk().await;
    a_turn_is_a_run(daemon).await;
}

async fn one_list_shows_everything(daemon: TestDaemon) {
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let thread = thread(&mut socket).await;
    let mut expected = Vec::new();
    for number in 0..3 {
        expected.push(socket.start("outside").await);
        let run_id = turn(&mut socket, &thread, &format!("say {number}")).await;
        socket.ended(&run_id).await;
        expected.push(run_id);
    }
    expected.reverse();
    assert_eq!(ids(&runs(&mut socket, json!({})).await), expected);
    let (mut paged, mut cursor) = (Vec::new(), json!(0));
    while cursor.is_u64() {
        let params = json!({"cursor": cursor, "limit": 2});
        let page = socket.ok("runs.list", params).await;
        paged.extend(ids(page["runs"].as_array().unwrap()));
        cursor = page["next_cursor"].clone();
    }
    assert_eq!(paged, expected);
    let of = |even: usize| -> Vec<String> {
        let each = expected.iter().enumerate();
        let each = each.filter(|(index, _)| index % 2 == even);
        each.map(|(_, id)| id.clone()).collect()
    };
    for (params, even) in [
        (json!({"agent_id": "windlass:main"}), 0),
        (json!({"status": "completed"}), 0),
        (json!({"agent_id": "outside"}), 1),
        (json!({"status": "in_progress"}), 1),
    ] {
        assert_eq!(
            ids(&runs(&mut socket, params.clone()).await),
            of(even),
            "{params}"
        );
    }
    // A run removed with its session leaves the list, and a request for it gets "not found".
    let session = daemon.runtime.session_ids().await.unwrap()[0];
    daemon.runtime.remove_session(session).await.unwrap();
    assert_eq!(ids(&runs(&mut socket, json!({})).await), of(1));
    let gone = socket
        .ok("runs.get_trace", json!({"run_id": expected[0]}))
        .await;
    assert_eq!(gone["not_found"], true);
}

#[tokio::test]
async fn one_list_contains_all_runs_in_memory() {
    one_list_shows_everything(open_daemon(|_| {}).await).await;
}

#[tokio::test]
async fn one_list_contains_all_runs_on_disk() {
    let (daemon, _data) = on_disk().await;
    one_list_shows_everything(daemon).await;
}

#[tokio::test]
async fn each_end_of_a_turn_has_an_outcome() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let thread = thread(&mut socket).await;
    let failed = turn(&mut socket, &thread, "ERR500").await;
    let end = socket.ended(&failed).await;
    let outcome = &end["termination"]["outcome"];
    assert_eq!(outcome["status"], "failure");
    assert!(text(&outcome["summary"]).contains("boom"), "{end}");
    assert_eq!(outcome["evidence"][0]["kind"], "stop_reason");
    let records = trace(&mut socket, &failed).await;
    assert_eq!(kinds(&records), ["started", "model_turn", "ended"]);
    assert!(text(&records[1]["error"]).contains("boom"));

    let stopped = turn(&mut socket, &thread, "SLOW answer").await;
    let params = json!({"thread_id": thread, "turn_id": stopped});
    socket.ok("turns.interrupt", params).await;
    let end = socket.ended(&stopped).await;
    assert_eq!(end["termination"]["kind"], "cancelled");
    let listed = runs(&mut socket, json!({"status": "cancelled"})).await;
    assert_eq!(ids(&listed), [stopped.as_str()]);

    let steered = turn(&mut socket, &thread, "SLOW answer").await;
    let params = json!({"thread_id": thread, "turn_id": steered, "prompt": "be quick"});
    socket.ok("turns.steer", params).await;
    daemon.model.open();
    socket.ended(&steered).await;
    let records = trace(&mut socket, &steered).await;
    let turn_record = records
        .iter()
        .find(|record| record["tool"] == "turn.steered");
    assert_eq!(turn_record.unwrap()["prompt"], "be quick");
}

#[tokio::test]
async fn cancelling_a_run_interrupts_its_turn_and_repeats_get_the_same_receipt() {
    let (daemon, _data) = on_disk().await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let thread = thread(&mut socket).await;
    let run_id = turn(&mut socket, &thread, "SLOW answer").await;
    let cancel = json!({"run_id": run_id, "idempotency_key": "k1", "reason": "a secret wish"});
    let receipt = socket.ok("runs.cancel", cancel.clone()).await;
    assert_eq!(
        (&receipt["status"], &receipt["idempotency_key"]),
        (&json!("cancelled_confirmed"), &json!("k1"))
    );
    assert_eq!(socket.ok("runs.cancel", cancel).await, receipt);
    let other = json!({"run_id": run_id, "idempotency_key": "k2", "reason": "again"});
    let other = socket.ok("runs.cancel", other).await;
    assert_eq!(other["status"], "already_terminal");
    let end = socket.ended(&run_id).await;
    assert_eq!(end["termination"]["cancellation"], receipt);
    let detail = daemon.detail(&format!("/v1/threads/{thread}")).await;
    assert_eq!(detail["turns"][0]["status"], "interrupted");
    assert!(
        !detail.to_string().contains("a secret wish"),
        "only its digest is stored"
    );
}

#[tokio::test]
async fn run_of_a_turn_is_read_only() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let thread = thread(&mut socket).await;
    let run_id = turn(&mut socket, &thread, "SLOW answer").await;
    let outcome = json!({"run_id": run_id, "outcome": {"status": "success"}});
    let turns = json!({"run_id": run_id, "turns": [{"tool": "t"}]});
    for (method, params) in [
        ("runs.complete", outcome.clone()),
        ("runs.record_turns", turns.clone()),
        (
            "runs.record_model_turn",
            json!({"run_id": run_id, "turn_index": 1}),
        ),
        ("runs.resume", json!({"run_id": run_id})),
    ] {
        let (code, reason, message) = socket.refused(method, params).await;
        assert_eq!((code, reason.as_str()), (-32010, "conflict"), "{method}");
        assert!(message.contains("runs.cancel"), "{method}: {message}");
    }
    daemon.model.open();
    let before = trace_at_end(&mut socket, &run_id).await;
    let late = socket.refused("runs.complete", outcome).await;
    assert_eq!((late.0, late.1.as_str()), (-32010, "run_terminal"));
    let late = socket.refused("runs.record_turns", turns).await;
    assert_eq!((late.0, late.1.as_str()), (-32010, "run_terminal"));
    assert_eq!(trace(&mut socket, &run_id).await, before);

    // Turn IDs and the names of built-in agents are reserved.
    let key = json!({"intent": "i", "agent_id": "x", "idempotency_key": run_id});
    let refused = socket.refused("runs.start", key).await;
    assert_eq!((refused.0, refused.1.as_str()), (-32602, "invalid_params"));
    let params = json!({"intent": "i", "agent_id": "windlass:main"});
    let refused = socket.refused("runs.start", params).await;
    assert_eq!((refused.0, refused.1.as_str()), (-32002, "not_authorized"));
}

async fn trace_at_end(socket: &mut RpcSocket, run_id: &str) -> Vec<Value> {
    socket.ended(run_id).await;
    trace(socket, run_id).await
}

#[tokio::test]
async fn agent_sees_only_runs_of_its_own_sessions() {
    let home = MultiTokenDaemon::start().await;
    let (token_a, token_b) = (home.agent("agent-A"), home.agent("agent-B"));
    let mut a = home.bound("agent-A", &token_a).await;
    let mut b = home.bound("agent-B", &token_b).await;
    let mut host = home.host().await;
    let mut unbound = home.unbound().await;
    let thread_a = thread(&mut a).await;
    let of_a = turn(&mut a, &thread_a, "SLOW work of a").await;
    let thread_host = thread(&mut host).await;
    let of_host = turn(&mut host, &thread_host, "SLOW work of the host").await;

    let listed = runs(&mut a, json!({})).await;
    assert_eq!(ids(&listed), [of_a.as_str()]);
    assert_eq!(listed[0]["agent_id"], "agent-A");
    assert!(runs(&mut b, json!({})).await.is_empty());
    let all = runs(&mut host, json!({})).await;
    assert_eq!(ids(&all), [of_host.as_str(), of_a.as_str()]);
    let refused = unbound.refused("runs.list", json!({})).await;
    assert_eq!(refused.1, "not_authorized");
    let refused = a
        .refused("runs.list", json!({"agent_id": "windlass:main"}))
        .await;
    assert_eq!(refused.1, "not_authorized");

    // n04: responses for unknown runs and for runs of other agents are identical, apart from the requested ID.
    let unknown = "turn_00000000000000000000000000000000";
    for (socket, run_of_other) in [(&mut b, &of_a), (&mut a, &of_host), (&mut unbound, &of_a)] {
        for (method, more) in [
            ("runs.get_trace", json!({})),
            ("runs.subscribe", json!({})),
            ("runs.complete", json!({"outcome": {"status": "success"}})),
            ("runs.record_turns", json!({"turns": [{"tool": "t"}]})),
            ("runs.resume", json!({})),
            (
                "runs.cancel",
                json!({"idempotency_key": "k", "reason": "r"}),
            ),
        ] {
            let mut answers = Vec::new();
            for run_id in [run_of_other.as_str(), unknown] {
                let mut params = more.clone();
                params["run_id"] = json!(run_id);
                let mut answer = socket.call(method, params).await;
                answer["id"] = json!(0);
                answers.push(answer.to_string().replace(run_id, "?"));
            }
            assert_eq!(answers[0], answers[1], "{method}");
        }
    }
    let cancel = json!({"run_id": of_a, "idempotency_key": "k", "reason": "r"});
    let receipt = a.ok("runs.cancel", cancel).await;
    assert_eq!(
        (&receipt["status"], &receipt["principal"]),
        (&json!("cancelled_confirmed"), &json!("agent:agent-A"))
    );
    let cancel = json!({"run_id": of_host, "idempotency_key": "k", "reason": "r"});
    let receipt = host.ok("runs.cancel", cancel).await;
    assert_eq!(
        (&receipt["status"], &receipt["principal"]),
        (&json!("cancelled_confirmed"), &json!("host"))
    );
}

#[tokio::test]
async fn new_fork_has_no_runs() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let parent = thread(&mut socket).await;
    let first = turn(&mut socket, &parent, "one").await;
    socket.ended(&first).await;
    let fork = daemon
        .client
        .post(&format!("/v1/threads/{parent}/fork"), json!({}))
        .await
        .expect(201);
    let fork = text(&fork["id"]);
    assert_eq!(ids(&runs(&mut socket, json!({})).await), [first.as_str()]);
    let second = turn(&mut socket, &fork, "two").await;
    socket.ended(&second).await;
    let listed = runs(&mut socket, json!({})).await;
    assert_eq!(ids(&listed), [second.as_str(), first.as_str()]);
    assert_ne!(listed[0]["session_id"], listed[1]["session_id"]);
}

#[tokio::test]
async fn follower_ends_when_the_session_is_removed() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let thread = thread(&mut socket).await;
    let run_id = turn(&mut socket, &thread, "SLOW answer").await;
    socket.ok("runs.subscribe", json!({"run_id": run_id})).await;
    let session = daemon.runtime.session_ids().await.unwrap()[0];
    daemon.runtime.remove_session(session).await.unwrap();
    let gone = async {
        let params = json!({"run_id": run_id});
        while socket.ok("runs.unsubscribe", params.clone()).await["removed"] == true {
            socket.ok("runs.subscribe", params.clone()).await;
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIVENESS, gone).await.unwrap();
}
