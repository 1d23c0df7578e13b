//! Recorded traffic of every route, the event streams and every socket method, with IDs and times replaced.
//!
//! The recording is `traffic.txt`: a change of the contract is a diff of that file. `WINDLASS_BLESS=1` regenerates it.

mod declared;
mod history;
mod inputs;
mod jobs;
mod recorder;
mod socket;

use serde_json::{Value, json};
use windlass_protocol::config::ProviderEntry;
use windlass_protocol::operations::OPERATIONS;
use windlass_server::Settings;
use windlass_tools::{CheckpointLimits, Checkpoints};

use crate::support::{Setup, TestDaemon, other_model, text};
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

async fn start(data: &std::path::Path) -> TestDaemon {
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
            let checkpoints = Checkpoints::open(checkpoints, CheckpointLimits::default()).unwrap();
            settings.environments.enable_checkpoints(checkpoints);
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
    history::history(&mut record, &daemon, &thread).await;
    history::environments(&mut record, data.path()).await;
    jobs::tasks(&mut record).await;
    jobs::automations(&mut record).await;
    jobs::fleet(&mut record).await;
    bad_input(&mut record).await;
    socket::sockets(&mut record, &daemon).await;
    jobs::agents(&mut record, &daemon).await;
    removal(&mut record, &thread).await;
    inputs::queue(&mut record, &daemon).await;
    inputs::attachments(&mut record, &daemon).await;
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
        "/v1/models",
        "/v1/providers",
    ] {
        record.send("GET", route, &[], None).await;
    }
    // Other tests cover the metrics and the OpenAPI document.
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

/// Reads the events of a thread up to the first of a name, and records them. They are recorded from a second stream once the last
/// event exists, because the point at which a stream catches up with a running turn depends on time.
async fn follow(
    record: &mut Recorder,
    daemon: &TestDaemon,
    thread: &str,
    since: u64,
    end: &str,
) -> Value {
    let path = format!("/v1/threads/{thread}");
    daemon.events(&path, since).await.until(end).await;
    let mut stream = daemon.events(&path, since).await;
    let frames = stream.until(end).await;
    record.line(&format!("> GET {path}/events?since_seq={since}"));
    let blocks: Vec<_> = std::mem::take(&mut stream.blocks);
    let mut shown = 0;
    for block in &blocks {
        let is_frame = block.contains("event: ");
        if shown < frames.len() {
            record.line(block);
            record.line("");
        }
        shown += usize::from(is_frame);
    }
    record.exercised("GET /v1/threads/{id}/events");
    frames.last().unwrap().data.clone()
}

fn last_seq(event: &Value) -> u64 {
    event["seq"].as_u64().unwrap()
}

async fn turns(record: &mut Recorder, daemon: &TestDaemon) -> String {
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
    record.send("GET", "/v1/waits", &[], None).await;
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

async fn removal(record: &mut Recorder, id: &str) {
    record.heading("removal");
    record.send("DELETE", "/v1/threads/{id}", &[id], None).await;
    record.send("GET", "/v1/threads/{id}", &[id], None).await;
}
