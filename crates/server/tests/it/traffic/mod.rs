//! The bytes of the contract: every route, the event streams and every socket method, with ids and times replaced.
//!
//! `traffic.txt` is the recording. A change of the contract shows as a diff of that file; `WINDLASS_BLESS=1` writes it anew.

mod recorder;

use serde_json::{Value, json};
use windlass_protocol::config::ProviderEntry;
use windlass_protocol::operations::OPERATIONS;
use windlass_server::Settings;
use windlass_tools::{CheckpointLimits, Checkpoints};

use crate::rpc::socket::Socket;
use crate::support::{Daemon, Setup, TOKEN, other_model, text, until};
use recorder::Recorder;

const RECORDING: &str = include_str!("../traffic.txt");

fn configure(settings: &mut Settings) {
    let entry = |id: &str, usable: bool| ProviderEntry {
        id: id.to_owned(),
        display_name: id.to_uppercase(),
        default_model: format!("{id}-usual"),
        env_vars: vec![format!("{}_KEY", id.to_uppercase())],
        usable,
        ..ProviderEntry::default()
    };
    settings.config.providers = vec![entry("far", true), entry("keyless", false)];
    settings.models.known = [("far/far-usual".to_owned(), other_model())].into();
    settings.config.reads_repository = true;
}

async fn start(data: &std::path::Path) -> Daemon {
    let checkpoints = data.join("checkpoints");
    let workspace = tempfile::tempdir().unwrap();
    let skill = workspace.path().join(".windlass/skills/pdf");
    std::fs::create_dir_all(&skill).unwrap();
    let about = "---\nname: pdf\ndescription: About PDF files\n---\nRead it.";
    std::fs::write(skill.join("SKILL.md"), about).unwrap();
    let setup = Setup {
        workspace,
        has_tools: true,
        starts_agents: true,
        ..Setup::settings(move |settings| {
            configure(settings);
            let kept = Checkpoints::open(checkpoints, CheckpointLimits::default()).unwrap();
            settings.environments.keep_checkpoints(kept);
        })
    };
    setup.start().await
}

#[tokio::test]
async fn recorded_traffic_is_unchanged() {
    let data = tempfile::tempdir().unwrap();
    let daemon = start(data.path()).await;
    let directory = |path: &std::path::Path| path.canonicalize().unwrap().display().to_string();
    let fixed = vec![
        (directory(daemon.workspace.path()), "<workspace>"),
        (directory(data.path()), "<data>"),
        (env!("CARGO_PKG_VERSION").to_owned(), "<version>"),
    ];
    let mut record = Recorder::new(daemon.client.clone(), fixed);
    host(&mut record).await;
    let thread = turns(&mut record, &daemon).await;
    history(&mut record, &daemon, &thread).await;
    environments(&mut record, data.path()).await;
    tasks(&mut record).await;
    automations(&mut record).await;
    fleet(&mut record).await;
    bad_input(&mut record).await;
    sockets(&mut record, &daemon).await;
    removal(&mut record, &thread).await;
    let (recorded, answered) = record.finish();
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/traffic.txt");
        std::fs::write(file, &recorded).unwrap();
    }
    let missing: Vec<_> = OPERATIONS
        .iter()
        .map(|it| format!("{} {}", it.method.as_str(), it.path))
        .filter(|route| !answered.contains(route))
        .collect();
    assert!(
        missing.is_empty(),
        "no success was recorded for {missing:#?}"
    );
    for (number, (recorded, expected)) in recorded.lines().zip(RECORDING.lines()).enumerate() {
        assert_eq!(recorded, expected, "line {} of traffic.txt", number + 1);
    }
    assert_eq!(recorded.lines().count(), RECORDING.lines().count());
}

async fn host(record: &mut Recorder) {
    record.heading("host");
    for route in [
        "/health",
        "/ready",
        "/v1/runtime/info",
        "/v1/config",
        "/v1/providers",
    ] {
        record.send("GET", route, &[], None).await;
    }
    // The text of the metrics and the description of the API have tests of their own.
    let metrics = record.client().get("/metrics").await;
    record.line(&format!(
        "metrics {} {}",
        metrics.status,
        metrics.header("content-type").unwrap()
    ));
    record.exercised("GET /metrics");
    let openapi = record.client().get("/v1/openapi.json").await;
    record.line(&format!(
        "openapi {} {}",
        openapi.status,
        openapi.header("content-type").unwrap()
    ));
    record.exercised("GET /v1/openapi.json");
    let set = json!({"key": "reasoning_effort", "value": "high", "persist": true});
    record.send("POST", "/v1/config", &[], Some(set)).await;
    record
        .send("POST", "/v1/config/reload", &[], Some(json!({})))
        .await;
    record.exercised("POST /v1/config/reload");
    record
        .send("GET", "/v1/providers/{id}/models", &["far"], None)
        .await;
    record
        .send(
            "POST",
            "/v1/providers/{id}/switch",
            &["far"],
            Some(json!({})),
        )
        .await;
    record
        .send(
            "POST",
            "/v1/providers/{id}/switch",
            &["demo"],
            Some(json!({})),
        )
        .await;
    record.send("GET", "/v1/skills", &[], None).await;
    record
        .send(
            "POST",
            "/v1/skills/{name}",
            &["pdf"],
            Some(json!({"enabled": false})),
        )
        .await;
    record.send("GET", "/v1/apps/mcp/servers", &[], None).await;
    record.send("GET", "/v1/apps/mcp/tools", &[], None).await;
    record.send("GET", "/v1/workspace/status", &[], None).await;
}

/// Reads the events of a thread up to the end of its newest turn, and records the frames as they came.
async fn follow(
    record: &mut Recorder,
    daemon: &Daemon,
    thread: &str,
    since: u64,
    end: &str,
) -> Value {
    let path = format!("/v1/threads/{thread}");
    let mut stream = daemon.events(&path, since).await;
    let frames = stream.until(end).await;
    record.line(&format!("> GET {path}/events?since_seq={since}"));
    let blocks: Vec<_> = std::mem::take(&mut stream.blocks);
    let mut shown = 0;
    for block in &blocks {
        let is_frame = block.contains("event: ");
        shown += usize::from(is_frame);
        if shown <= frames.len() {
            record.line(block);
            record.line("");
        }
    }
    record.exercised("GET /v1/threads/{id}/events");
    frames.last().unwrap().data.clone()
}

fn last_seq(event: &Value) -> u64 {
    event["seq"].as_u64().unwrap()
}

async fn turns(record: &mut Recorder, daemon: &Daemon) -> String {
    record.heading("threads and turns");
    let body = json!({"title": "Port", "mode": "agent", "allow_shell": true});
    let made = record
        .send("POST", "/v1/threads", &[], Some(body))
        .await
        .expect(201);
    let id = text(&made["id"]);
    let start = "/v1/threads/{id}/turns";
    record
        .send("POST", start, &[&id], Some(json!({"prompt": "hello"})))
        .await;
    let end = follow(record, daemon, &id, 0, "turn.completed").await;

    record.heading("an approval");
    let begun = record
        .send("POST", start, &[&id], Some(json!({"prompt": "SHELL now"})))
        .await
        .expect(201);
    let wait = follow(record, daemon, &id, last_seq(&end), "approval.required").await;
    let approval = text(&wait["payload"]["approval_id"]);
    record.send("GET", "/v1/threads/{id}", &[&id], None).await;
    let decision = json!({"decision": "allow", "remember": false});
    record
        .send(
            "POST",
            "/v1/approvals/{approval_id}",
            &[&approval],
            Some(decision),
        )
        .await;
    let end = follow(record, daemon, &id, last_seq(&wait), "turn.completed").await;
    let turn = text(&begun["turn"]["id"]);
    record
        .send(
            "GET",
            "/v1/threads/{id}/turns/{turn_id}",
            &[&id, &turn],
            None,
        )
        .await;

    record.heading("a question to the user");
    record
        .send("POST", start, &[&id], Some(json!({"prompt": "ASK me"})))
        .await;
    let wait = follow(record, daemon, &id, last_seq(&end), "user_input.required").await;
    let input = text(&wait["payload"]["input_id"]);
    let answers = json!({"answers": [{"id": "colour", "label": "Red", "value": "Red"}]});
    record
        .send(
            "POST",
            "/v1/user-input/{thread_id}/{input_id}",
            &[&id, &input],
            Some(answers),
        )
        .await;
    let end = follow(record, daemon, &id, last_seq(&wait), "turn.completed").await;

    record.heading("a tool of the client");
    let tool = json!({
        "namespace": "tau_bench", "name": "get_reservation", "description": "Look up a reservation.",
        "input_schema": {"type": "object", "properties": {"reservation_id": {"type": "string"}}, "required": ["reservation_id"]}
    });
    let body = json!({"prompt": "LOOKUP it", "dynamic_tools": [tool]});
    let begun = record
        .send("POST", start, &[&id], Some(body))
        .await
        .expect(201);
    let turn = text(&begun["turn"]["id"]);
    let wait = follow(record, daemon, &id, last_seq(&end), "tool_call.requested").await;
    let call = text(&wait["payload"]["call_id"]);
    let result = json!({"success": true, "content": [{"type": "input_text", "text": "confirmed"}]});
    let submit = "/v1/threads/{id}/turns/{turn_id}/tool-calls/{call_id}/result";
    record
        .send("POST", submit, &[&id, &turn, &call], Some(result))
        .await;
    let end = follow(record, daemon, &id, last_seq(&wait), "turn.completed").await;

    record.heading("steer and interrupt");
    let begun = record
        .send(
            "POST",
            start,
            &[&id],
            Some(json!({"prompt": "SLOW please"})),
        )
        .await
        .expect(201);
    let turn = text(&begun["turn"]["id"]);
    let shown = follow(record, daemon, &id, last_seq(&end), "item.delta").await;
    let steer = json!({"prompt": "and this"});
    record
        .send(
            "POST",
            "/v1/threads/{id}/turns/{turn_id}/steer",
            &[&id, &turn],
            Some(steer),
        )
        .await;
    record
        .send("POST", start, &[&id], Some(json!({"prompt": "too early"})))
        .await;
    record
        .send(
            "POST",
            "/v1/threads/{id}/turns/{turn_id}/interrupt",
            &[&id, &turn],
            Some(json!({})),
        )
        .await;
    let end = follow(record, daemon, &id, last_seq(&shown), "turn.completed").await;

    record.heading("a failed model call");
    record
        .send("POST", start, &[&id], Some(json!({"prompt": "ERR500 now"})))
        .await;
    let end = follow(record, daemon, &id, last_seq(&end), "turn.completed").await;

    record.heading("a changed file");
    let call = json!({"path": "a.txt", "content": "one"});
    let body = json!({"prompt": format!("CALL write {call}"), "auto_approve": true});
    record.send("POST", start, &[&id], Some(body)).await;
    follow(record, daemon, &id, last_seq(&end), "turn.completed").await;

    record.heading("an agent that the model starts");
    let made = record
        .send("POST", "/v1/threads", &[], Some(json!({})))
        .await
        .expect(201);
    let parent = text(&made["id"]);
    record
        .send(
            "POST",
            start,
            &[&parent],
            Some(json!({"prompt": "SPAWN hello"})),
        )
        .await;
    follow(record, daemon, &parent, 0, "turn.completed").await;

    record.heading("one request, one stream");
    let body = json!({"prompt": "hello stream"});
    let mut stream = daemon.client.post_stream("/v1/stream", body).await;
    stream.rest().await;
    for block in &stream.blocks {
        record.line(block);
        record.line("");
    }
    record.exercised("POST /v1/stream");
    id
}

async fn history(record: &mut Recorder, daemon: &Daemon, id: &str) {
    record.heading("reading and changing threads");
    record.send("GET", "/v1/threads", &[], None).await;
    record.send("GET", "/v1/threads?limit=1", &[], None).await;
    record
        .send("GET", "/v1/threads?state=waiting", &[], None)
        .await;
    record.send("GET", "/v1/threads/summary", &[], None).await;
    record.send("GET", "/v1/threads/{id}", &[id], None).await;
    record
        .send("GET", "/v1/threads/{id}/export", &[id], None)
        .await;
    let patch = json!({"title": "Harbour", "archived": true});
    record
        .send("PATCH", "/v1/threads/{id}", &[id], Some(patch))
        .await;
    record
        .send(
            "PATCH",
            "/v1/threads/{id}",
            &[id],
            Some(json!({"archived": false})),
        )
        .await;
    record
        .send("POST", "/v1/threads/{id}/resume", &[id], Some(json!({})))
        .await;
    record
        .send("POST", "/v1/threads/{id}/fork", &[id], Some(json!({})))
        .await;
    record
        .send(
            "POST",
            "/v1/threads/{id}/patch-undo",
            &[id],
            Some(json!({})),
        )
        .await;
    let undone = record
        .send("POST", "/v1/threads/{id}/undo", &[id], Some(json!({})))
        .await;
    record.line(&format!("undone {}", undone.status));
    let compacted = record
        .send(
            "POST",
            "/v1/threads/{id}/compact",
            &[id],
            Some(json!({"reason": "test"})),
        )
        .await;
    let turn = text(&compacted.json()["turn"]["id"]);
    let path = format!("/v1/threads/{id}/turns/{turn}");
    until(record.client(), &path, |turn| {
        turn["turn"]["status"] == "completed" || turn["status"] == "completed"
    })
    .await;
    let retried = record
        .send("POST", "/v1/threads/{id}/retry", &[id], Some(json!({})))
        .await
        .json();
    if let (Some(thread), Some(turn)) = (
        retried["thread"]["id"].as_str(),
        retried["turn"]["id"].as_str(),
    ) {
        let path = format!("/v1/threads/{thread}/turns/{turn}");
        until(record.client(), &path, |turn| {
            turn["turn"]["status"] != "in_progress" && turn["status"] != "in_progress"
        })
        .await;
    }
    record
        .send("POST", "/v1/threads/{id}/replay", &[id], Some(json!({})))
        .await;
    record
        .send("GET", "/v1/usage?group_by=model", &[], None)
        .await;
    record.send("GET", "/v1/agent-runs", &[], None).await;
    let runs = daemon.client.get("/v1/agent-runs").await.expect(200);
    let run = text(&runs["runs"][0]["spec"]["run_id"]);
    record
        .send("GET", "/v1/agent-runs/{run_id}", &[&run], None)
        .await;
    record.send("GET", "/v1/snapshots", &[], None).await;
    let snapshots = daemon.client.get("/v1/snapshots").await.expect(200);
    let snapshots = snapshots
        .as_array()
        .or_else(|| snapshots["snapshots"].as_array())
        .cloned()
        .unwrap_or_default();
    if let Some(snapshot) = snapshots.first() {
        let snapshot = text(&snapshot["id"]);
        record
            .send(
                "POST",
                "/v1/snapshots/{id}/restore",
                &[&snapshot],
                Some(json!({})),
            )
            .await;
    }

    record.heading("saved sessions");
    let saved = record
        .send(
            "POST",
            "/v1/sessions",
            &[],
            Some(json!({"thread_id": id, "title": "A place"})),
        )
        .await;
    let session = text(&saved.json()["session_id"]);
    record.send("GET", "/v1/sessions", &[], None).await;
    record.send("GET", "/v1/sessions/summary", &[], None).await;
    record
        .send("GET", "/v1/sessions/{id}", &[&session], None)
        .await;
    record
        .send(
            "PATCH",
            "/v1/sessions/{id}",
            &[&session],
            Some(json!({"title": "Another"})),
        )
        .await;
    let update = json!({"session_id": session, "thread_id": id});
    record.send("PUT", "/v1/sessions", &[], Some(update)).await;
    record
        .send(
            "POST",
            "/v1/sessions/{id}/resume-thread",
            &[&session],
            Some(json!({})),
        )
        .await;
    record
        .send("DELETE", "/v1/sessions/{id}", &[&session], None)
        .await;
}

async fn environments(record: &mut Recorder, data: &std::path::Path) {
    record.heading("environments");
    let root = data.join("staging");
    std::fs::create_dir(&root).unwrap();
    let body = json!({"id": "staging", "root": root.canonicalize().unwrap(), "policy": {"shell": false, "network": "none"}});
    record
        .send("POST", "/v1/environments", &[], Some(body))
        .await;
    record.send("GET", "/v1/environments", &[], None).await;
    record
        .send("GET", "/v1/environments/{id}", &["staging"], None)
        .await;
    record
        .send("DELETE", "/v1/environments/{id}", &["staging"], None)
        .await;
}

async fn tasks(record: &mut Recorder) {
    record.heading("tasks");
    let made = record
        .send("POST", "/v1/tasks", &[], Some(json!({"prompt": "hi"})))
        .await
        .json();
    let task = text(&made["id"]);
    until(record.client(), &format!("/v1/tasks/{task}"), |task| {
        task["status"] == "completed"
    })
    .await;
    record.send("GET", "/v1/tasks/{id}", &[&task], None).await;
    record.send("GET", "/v1/tasks", &[], None).await;
    record
        .send("POST", "/v1/tasks/{id}/cancel", &[&task], Some(json!({})))
        .await;
}

async fn automations(record: &mut Recorder) {
    record.heading("automations");
    let body = json!({"name": "Nightly", "prompt": "hi", "rrule": "FREQ=WEEKLY;BYDAY=MO;BYHOUR=2;BYMINUTE=30"});
    let made = record
        .send("POST", "/v1/automations", &[], Some(body))
        .await
        .json();
    let id = text(&made["id"]);
    record.send("GET", "/v1/automations", &[], None).await;
    record
        .send("GET", "/v1/automations/{id}", &[&id], None)
        .await;
    record
        .send(
            "PATCH",
            "/v1/automations/{id}",
            &[&id],
            Some(json!({"name": "Weekly"})),
        )
        .await;
    record
        .send("POST", "/v1/automations/{id}/run", &[&id], Some(json!({})))
        .await;
    let ended = |runs: &Value| runs[0]["status"] == "completed";
    until(
        record.client(),
        &format!("/v1/automations/{id}/runs"),
        ended,
    )
    .await;
    record
        .send("GET", "/v1/automations/{id}/runs", &[&id], None)
        .await;
    record
        .send(
            "POST",
            "/v1/automations/{id}/pause",
            &[&id],
            Some(json!({})),
        )
        .await;
    record
        .send(
            "POST",
            "/v1/automations/{id}/resume",
            &[&id],
            Some(json!({})),
        )
        .await;
    record
        .send("DELETE", "/v1/automations/{id}", &[&id], None)
        .await;
}

async fn fleet(record: &mut Recorder) {
    record.heading("fleet");
    let tasks = json!([{"id": "t0", "instructions": "hi"}]);
    let body = json!({"name": "port", "tasks": tasks, "max_workers": 1});
    let made = record
        .send("POST", "/v1/fleet/runs", &[], Some(body))
        .await
        .json();
    let run = text(&made["run"]["id"]);
    record
        .send(
            "POST",
            "/v1/fleet/runs/{run_id}/start",
            &[&run],
            Some(json!({})),
        )
        .await;
    until(record.client(), &format!("/v1/fleet/runs/{run}"), |run| {
        !run["completed_at"].is_null()
    })
    .await;
    record
        .send("GET", "/v1/fleet/runs/{run_id}", &[&run], None)
        .await;
    record.send("GET", "/v1/fleet/runs", &[], None).await;
    let workers = record
        .send("GET", "/v1/fleet/runs/{run_id}/workers", &[&run], None)
        .await
        .json();
    record
        .send(
            "GET",
            "/v1/fleet/runs/{run_id}/events/replay",
            &[&run],
            None,
        )
        .await;
    let mut stream = record
        .client()
        .stream(&format!("/v1/fleet/runs/{run}/events"))
        .await;
    if let Some(frame) = stream.next().await {
        record.line(&format!("event: {} {}", frame.event, frame.data));
    }
    record.exercised("GET /v1/fleet/runs/{run_id}/events");
    let worker = text(&workers["workers"][0]["worker_id"]);
    record
        .send("GET", "/v1/fleet/workers/{worker_id}", &[&worker], None)
        .await;
    for verb in ["interrupt", "stop", "restart"] {
        let route = format!("/v1/fleet/workers/{{worker_id}}/{verb}");
        record
            .send("POST", &route, &[&worker], Some(json!({})))
            .await;
        // The run is over, so a refusal is the recorded answer.
        record.exercised(&format!("POST {route}"));
    }
    record
        .send(
            "POST",
            "/v1/fleet/runs/{run_id}/stop",
            &[&run],
            Some(json!({})),
        )
        .await;
}

/// Every route with a body gets an unknown field, a wrong type and no JSON at all.
async fn bad_input(record: &mut Recorder) {
    record.heading("bad input");
    for operation in OPERATIONS {
        let (method, path) = (operation.method.as_str(), operation.path);
        if method == "GET" || method == "DELETE" {
            continue;
        }
        let holes = path.matches('{').count();
        let ids = vec!["none"; holes];
        for body in [json!({"no_such_field": 1}), json!([1]), json!("{not json")] {
            record.send(method, path, &ids, Some(body)).await;
        }
    }
    record
        .send(
            "POST",
            "/v1/threads",
            &[],
            Some(json!({"mode": "sideways"})),
        )
        .await;
    record
        .send("POST", "/v1/threads", &[], Some(json!({"title": 7})))
        .await;
    record.send("GET", "/v1/no-such-route", &[], None).await;
    record.send("PUT", "/v1/threads", &[], None).await;
    record
        .send("GET", "/v1/threads?limit=many", &[], None)
        .await;
    record
        .send(
            "GET",
            "/v1/threads/{id}",
            &["thr_00000000000000000000000000000000"],
            None,
        )
        .await;
}

async fn sockets(record: &mut Recorder, daemon: &Daemon) {
    record.heading("the socket");
    let mut socket = Socket::connect(daemon.client.address).await;
    let call = async |record: &mut Recorder, socket: &mut Socket, method: &str, params: Value| {
        record.line(&format!("> {method} {params}"));
        let answer = socket.call(method, params).await;
        record.line(&format!("< {answer}"));
        answer["result"].clone()
    };
    call(record, &mut socket, "session.auth", json!({"token": TOKEN})).await;
    call(
        record,
        &mut socket,
        "server.handshake",
        json!({"protocol_version": "1.0"}),
    )
    .await;
    call(record, &mut socket, "session.init", json!({"tools": []})).await;
    let made = call(
        record,
        &mut socket,
        "runs.start",
        json!({"agent_id": "a", "intent": "sail"}),
    )
    .await;
    let run = text(&made["run_id"]);
    call(
        record,
        &mut socket,
        "runs.subscribe",
        json!({"run_id": run}),
    )
    .await;
    let turns =
        json!({"run_id": run, "turns": [{"tool": "t", "parameters": {"x": 1}, "output": "y"}]});
    call(record, &mut socket, "runs.record_turns", turns).await;
    call(
        record,
        &mut socket,
        "runs.record_model_turn",
        json!({"run_id": run, "turn_index": 1}),
    )
    .await;
    call(
        record,
        &mut socket,
        "runs.get_trace",
        json!({"run_id": run}),
    )
    .await;
    call(
        record,
        &mut socket,
        "runs.unsubscribe",
        json!({"run_id": run}),
    )
    .await;
    call(record, &mut socket, "runs.resume", json!({"run_id": run})).await;
    let done = json!({"run_id": run, "outcome": {"status": "success"}});
    call(record, &mut socket, "runs.complete", done).await;
    call(record, &mut socket, "runs.list", json!({"agent_id": "a"})).await;
    let cancel = json!({"run_id": run, "idempotency_key": "k", "reason": "r"});
    call(record, &mut socket, "runs.cancel", cancel).await;
    let made = call(
        record,
        &mut socket,
        "threads.create",
        json!({"title": "socket"}),
    )
    .await;
    let id = text(&made["id"]);
    let tools = json!([{"name": "echo", "description": "", "input_schema": {"type": "object"}}]);
    call(
        record,
        &mut socket,
        "tools.register",
        json!({"thread_id": id, "tools": tools}),
    )
    .await;
    let begun = call(
        record,
        &mut socket,
        "turns.start",
        json!({"thread_id": id, "prompt": "SLOW please"}),
    )
    .await;
    let turn = text(&begun["turn"]["id"]);
    call(
        record,
        &mut socket,
        "turns.steer",
        json!({"thread_id": id, "turn_id": turn, "prompt": "more"}),
    )
    .await;
    call(
        record,
        &mut socket,
        "turns.interrupt",
        json!({"thread_id": id, "turn_id": turn}),
    )
    .await;
    call(record, &mut socket, "no.such_method", json!({})).await;
    call(record, &mut socket, "turns.start", json!({"thread_id": id})).await;
    let mut events = Socket::connect(daemon.client.address).await;
    events.ok("session.auth", json!({"token": TOKEN})).await;
    call(
        record,
        &mut events,
        "events.subscribe",
        json!({"thread_id": id, "since_seq": 0}),
    )
    .await;
    loop {
        let event = match events.others.pop_front() {
            Some(event) => event,
            None => events.frame().await.unwrap(),
        };
        record.line(&format!("< {event}"));
        if event["params"]["event"]["event"] == "turn.completed" {
            break;
        }
    }
}

async fn removal(record: &mut Recorder, id: &str) {
    record.heading("removal");
    record.send("DELETE", "/v1/threads/{id}", &[id], None).await;
    record.send("GET", "/v1/threads/{id}", &[id], None).await;
}
