//! Data of an earlier version opens: the answers are the same as that version gave, the chain is intact, and threads continue.
//!
//! Fixtures are never changed; a later version adds its own. `write_fixture` produces one with the binary under test.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use windlass_runtime::AgentBuilder;
use windlass_store::sqlite::SqliteOptions;
use windlass_store::{Records, SqliteStore};
use windlass_testkit::Answer;

use crate::runs::RunSocket;
use crate::support::{Daemon, Home, ScriptedModel, TOKEN, text};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
/// The provider's key, which no record may contain.
const KEY: &str = "sk-ant-a-key-that-is-masked-0123456789";
const CONFIG: &str = "[budget]\nday_tokens = 1000000000\n";
/// The directory of the threads when the fixture was written.
const WORKSPACE: &str = "/tmp/windlass-fixture";
const DATABASE: &str = "windlass.db";
const PACKED: &str = "windlass.db.gz";

fn home(model: &ScriptedModel) -> Home {
    let mut home = Home::with_model(&model.url());
    for (name, value) in &mut home.variables {
        if name == "ANTHROPIC_API_KEY" {
            KEY.clone_into(value);
        }
    }
    home.configure(CONFIG);
    home
}

/// Answers every prompt; `write it` and `delegate it` cause a tool call first.
fn model() -> ScriptedModel {
    ScriptedModel::answering(|request| {
        let messages = request["messages"].as_array().unwrap();
        let last = messages.last().unwrap()["content"].to_string();
        let call = |name, arguments: Value| {
            Answer::default().with_call("toolu_1", name, &[&arguments.to_string()])
        };
        match () {
            () if last.contains("write it") => {
                call("write", json!({"path": "made.txt", "content": "text"}))
            }
            () if last.contains("delegate it") => {
                call("spawn_agent", json!({"prompt": "help", "name": "helper"}))
            }
            () => Answer::text(&["done"]),
        }
    })
}

/// The compared parts of a fixture: the recorded paths and their answers.
fn recorded(fixture: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(fixture.join("answers.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn unpack(fixture: &Path, home: &Home) {
    fs::create_dir_all(home.data()).unwrap();
    for file in fs::read_dir(fixture).unwrap() {
        let (file, data) = (file.unwrap().path(), home.data());
        match file.file_name().and_then(|name| name.to_str()).unwrap() {
            PACKED => {
                let mut bytes = Vec::new();
                let mut packed = GzDecoder::new(fs::File::open(&file).unwrap());
                packed.read_to_end(&mut bytes).unwrap();
                fs::write(data.join(DATABASE), bytes).unwrap();
            }
            "answers.json" | "threads.json" => {}
            name => drop(fs::copy(&file, data.join(name)).unwrap()),
        }
    }
}

fn verified(home: &Home) {
    let verified = home.command(&["store", "verify", "--json"]).output();
    let verified = verified.unwrap();
    assert!(verified.status.success(), "{verified:?}");
    let report: Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!(report["findings"], json!([]));
}

/// Returns the IDs of the fixture's threads, by their role.
fn threads(fixture: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(fixture.join("threads.json")).unwrap()).unwrap()
}

fn is_settled(daemon: &Daemon, thread: &str) -> bool {
    let detail = daemon.detail(thread);
    let turns = detail["turns"].as_array().unwrap();
    turns.iter().all(|turn| turn["status"] == "completed")
}

/// Waits until no turn of a thread is open.
fn settle(daemon: &Daemon, thread: &str) {
    let mut events = daemon.client.events(thread, 0);
    while !is_settled(daemon, thread) {
        assert!(events.next().is_some(), "{}", daemon.detail(thread));
    }
}

#[test]
fn data_from_before_thread_records_opens_and_its_threads_continue() {
    let fixture = PathBuf::from(FIXTURES).join("before-thread-records");
    let model = model();
    let home = home(&model);
    unpack(&fixture, &home);
    let database = fs::read(home.data().join(DATABASE)).unwrap();
    assert!(
        !database
            .windows(KEY.len())
            .any(|part| part == KEY.as_bytes())
    );
    verified(&home);

    let daemon = home.start();
    for (path, answer) in recorded(&fixture) {
        let body = daemon.client.get(&path).body;
        let body = body.replace(home.workspace.to_str().unwrap(), WORKSPACE);
        assert_eq!(body, answer, "{path}");
    }
    let config = daemon.client.get("/v1/config").expect(200);
    assert_eq!(config["allow_shell"], false, "set over the API");
    let environments = daemon.client.get("/v1/environments").expect(200);
    let staging = &environments["environments"][1];
    assert_eq!(staging["id"], "staging");
    assert_eq!(staging["policy"]["network"], "none");
    let mut socket = RunSocket::connect(&daemon, json!({"token": TOKEN}));
    let runs = socket.call("runs.list", json!({"agent_id": "worker", "limit": 9}));
    let runs = runs["runs"].as_array().unwrap();
    let intents: Vec<_> = runs.iter().map(|run| text(&run["intent"])).collect();
    assert_eq!(intents, ["still open", "ended", "hello"], "{runs:?}");

    let threads = threads(&fixture);
    // The call to the model is repeated.
    settle(&daemon, &text(&threads["open"]));
    // The fixture's approval has a deadline: it is either still required or has timed out.
    let parked = text(&threads["parked"]);
    if let Some(approval) = daemon.detail(&parked)["pending_approvals"].get(0) {
        let path = format!("/v1/approvals/{}", text(&approval["approval_id"]));
        let denied = daemon.client.post(&path, &json!({"decision": "deny"}));
        denied.expect(200);
    }
    settle(&daemon, &parked);

    for role in ["full", "fork", "child", "agent", "remembered"] {
        let path = text(&threads[role]);
        let before = daemon.detail(&path);
        let workspace = home.workspace.display().to_string();
        let place = json!([{"environment_id": "local", "cwd": workspace}]);
        let change = json!({"workspace": workspace, "environments": place});
        let change = daemon
            .client
            .request("PATCH", &path, &[], &change.to_string());
        let changed = change.expect(200);
        for (name, value) in before["thread"].as_object().unwrap() {
            if !["workspace", "environments", "updated_at"].contains(&name.as_str()) {
                assert_eq!(&changed[name], value, "{role}: {name}");
            }
        }
        daemon.turn(&path, "continue");
        settle(&daemon, &path);
        let turns = |detail: &Value| detail["turns"].as_array().unwrap().len();
        assert_eq!(turns(&daemon.detail(&path)), turns(&before) + 1, "{role}");
    }
    daemon.stop();
    verified(&home);
}

/// The table `removing` has rows only while a thread is being removed.
#[test]
fn every_table_has_rows_in_the_fixture() {
    let home = home(&model());
    unpack(
        &PathBuf::from(FIXTURES).join("before-thread-records"),
        &home,
    );
    let (newest, oldest) = (home.data().join(DATABASE), home.path().join("oldest.db"));
    // Reading a database leaves files next to it.
    let of_store = "../../../store/tests/fixtures/sqlite-1/windlass.db";
    fs::copy(Path::new(FIXTURES).join(of_store), &oldest).unwrap();
    let [newest, oldest] = [newest, oldest].map(|file| {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        rusqlite::Connection::open_with_flags(file, flags).unwrap()
    });
    let names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    let mut names = newest.prepare(names).unwrap();
    let names = names.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let has_rows = |database: &rusqlite::Connection, table: &str| {
        let query = format!("SELECT EXISTS (SELECT 1 FROM {table})");
        database
            .query_row(&query, [], |row| row.get(0))
            .unwrap_or(false)
    };
    let empty: Vec<_> = names
        .map(Result::unwrap)
        .filter(|table| !has_rows(&newest, table) && !has_rows(&oldest, table))
        .collect();
    assert_eq!(empty, ["removing"]);
}

#[test]
#[ignore = "writes a fixture with the binary under test"]
fn write_fixture() {
    let fixture = PathBuf::from(FIXTURES).join("new");
    fs::create_dir_all(&fixture).unwrap();
    fs::create_dir_all(WORKSPACE).unwrap();
    let model = model();
    let mut home = home(&model);
    home.workspace = WORKSPACE.into();
    let worker = home.command(&["token", "create", "--scope", "agent:worker", "--json"]);
    let worker: Value = serde_json::from_slice(&{ worker }.output().unwrap().stdout).unwrap();
    let worker = text(&worker["token"]);
    let daemon = home.start();
    let threads = fill(&daemon, &worker);
    let answer = |path: String| {
        let reply = daemon.client.get(&path);
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        (path, reply.body)
    };
    let answers: Vec<_> = compared(&daemon, &threads)
        .into_iter()
        .map(answer)
        .collect();
    daemon.stop();

    // A model call and its reservation are open when the process dies.
    let mut silent = ScriptedModel::start();
    for (name, value) in &mut home.variables {
        if name == "ANTHROPIC_BASE_URL" {
            *value = silent.url();
        }
    }
    let daemon = home.start();
    daemon.turn(&text(&threads["open"]), "begin");
    let call = silent.next_request();
    daemon.kill();
    drop(call);
    add_agent(&home);

    let packed = fs::File::create(fixture.join(PACKED)).unwrap();
    let mut packed = GzEncoder::new(packed, Compression::best());
    let bytes = fs::read(home.data().join(DATABASE)).unwrap();
    packed.write_all(&bytes).unwrap();
    packed.finish().unwrap();
    for name in ["windlass.commits", "secrets.key", "tokens.json"] {
        fs::copy(home.data().join(name), fixture.join(name)).unwrap();
    }
    let json = |name: &str, text: String| fs::write(fixture.join(name), text + "\n").unwrap();
    json("answers.json", serde_json::to_string(&answers).unwrap());
    json("threads.json", serde_json::to_string(&threads).unwrap());
}

/// Stores an agent, which only the library does, and closes the database so that one file contains everything.
fn add_agent(home: &Home) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let options = SqliteOptions::new(home.data());
        let store = SqliteStore::open(options).await.unwrap();
        let agent = AgentBuilder::new("reviewer", "Review the change.").build();
        store.records().add_agent(agent).await.unwrap();
        store.close().await;
    });
}

/// The paths of everything that no longer changes.
fn compared(daemon: &Daemon, threads: &Value) -> Vec<String> {
    let mut paths = vec![
        "/v1/sessions".to_owned(),
        "/v1/tasks".to_owned(),
        "/v1/automations".to_owned(),
        "/v1/fleet/runs".to_owned(),
    ];
    for role in ["full", "fork", "child", "agent", "remembered"] {
        let path = text(&threads[role]);
        paths.push(format!("{path}/export"));
        paths.push(path);
    }
    for (list, field) in [("/v1/tasks", "tasks"), ("/v1/fleet/runs", "runs")] {
        for entry in daemon.client.get(list).expect(200)[field]
            .as_array()
            .unwrap()
        {
            paths.push(format!("{list}/{}", text(&entry["id"])));
        }
    }
    let automations = daemon.client.get("/v1/automations").expect(200);
    let automation = text(&automations[0]["id"]);
    paths.push(format!("/v1/automations/{automation}/runs"));
    paths
}

fn fill(daemon: &Daemon, worker: &str) -> Value {
    let client = &daemon.client;
    let environment = json!({"id": "staging", "root": WORKSPACE, "policy": {"write": true, "shell": false, "network": "none"}});
    client.post("/v1/environments", &environment).expect(201);
    let setting = json!({"key": "allow_shell", "value": "false", "persist": true});
    client.post("/v1/config", &setting).expect(200);
    let tool = json!({
        "namespace": "desk", "name": "lookup", "description": "Looks up a name.", "input_schema": {"type": "object"},
        "timeout_ms": 5_000,
    });
    let full = json!({
        "title": "stored", "system_prompt": format!("Be brief. {KEY}"), "mode": "plan", "allow_shell": true, "trust_mode": true,
        "auto_approve": true, "environments": [{"environment_id": "staging", "cwd": WORKSPACE}], "task_id": "ticket-7",
        "budget": {"turn_tokens": 1_000_000, "thread_usd": 2.5}, "reasoning_effort": "low", "dynamic_tools": [tool],
        "on_restart": "interrupt", "model_provider_id": "house",
    });
    let created = client.request(
        "POST",
        "/v1/threads",
        &[("idempotency-key", "once")],
        &full.to_string(),
    );
    let full = format!("/v1/threads/{}", text(&created.expect(201)["id"]));
    daemon.turn(&full, &format!("hello {KEY}"));
    settle(daemon, &full);
    let title = json!({"title": "changed"}).to_string();
    client.request("PATCH", &full, &[], &title).expect(200);
    let fork = client.post(&format!("{full}/fork"), &json!({})).expect(201);
    let save = json!({"thread_id": full.rsplit('/').next(), "title": "a place"});
    client.post("/v1/sessions", &save).expect(201);

    let remembered = daemon.thread(&json!({}));
    allow(
        daemon,
        &remembered,
        &json!({"decision": "allow", "remember": true}),
    );
    let parent = daemon.thread(&json!({"auto_approve": true}));
    daemon.turn(&parent, "delegate it");
    settle(daemon, &parent);
    let listed = client.get("/v1/threads").expect(200);
    let is_child = |thread: &&Value| thread["parent"].is_object();
    let child = listed.as_array().unwrap().iter().find(is_child).unwrap();

    let agents = client.with_token(worker);
    let archived = json!({"title": "an agent's thread", "archived": true});
    let agent = agents.post("/v1/threads", &archived).expect(201);
    let agent = format!("/v1/threads/{}", text(&agent["id"]));
    daemon.turn(&agent, "hello");
    settle(daemon, &agent);

    let removed = daemon.thread(&json!({}));
    daemon.turn(&removed, "hello");
    settle(daemon, &removed);
    client.request("DELETE", &removed, &[], "").expect(204);
    jobs(daemon);
    let mut socket = RunSocket::connect(daemon, json!({"agent_id": "worker", "token": worker}));
    let ended = text(&socket.call("runs.start", json!({"intent": "ended"}))["run_id"]);
    let turns = json!({"run_id": ended, "turns": [{"tool": "grep"}]});
    socket.call("runs.record_turns", turns);
    let complete = json!({"run_id": ended, "outcome": {"status": "success"}});
    socket.call("runs.complete", complete);
    socket.call("runs.start", json!({"intent": "still open"}));

    let parked = daemon.thread(&json!({"allow_shell": false}));
    let mut events = client.events(&parked, 0);
    daemon.turn(&parked, "write it");
    events.until("approval.required");
    let path = |thread: &Value| format!("/v1/threads/{}", text(&thread["id"]));
    json!({
        "full": full, "fork": path(&fork), "child": path(child), "agent": agent, "remembered": remembered,
        "parked": parked, "open": daemon.thread(&json!({})),
    })
}

fn allow(daemon: &Daemon, thread: &str, answer: &Value) {
    let mut events = daemon.client.events(thread, 0);
    daemon.turn(thread, "write it");
    let frames = events.until("approval.required");
    let id = text(&frames.last().unwrap().data["payload"]["approval_id"]);
    let path = format!("/v1/approvals/{id}");
    daemon.client.post(&path, answer).expect(200);
    settle(daemon, thread);
}

/// Creates a task, a paused automation that ran once, and a fleet run, all of them ended.
fn jobs(daemon: &Daemon) {
    let client = &daemon.client;
    let options =
        json!({"mode": "agent", "allow_shell": false, "trust_mode": false, "auto_approve": true});
    let with = |mut body: Value| {
        let options = options.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(options);
        body
    };
    let until = |path: &str, is_done: &dyn Fn(&Value) -> bool| {
        for _ in 0..100_000 {
            if is_done(&client.get(path).expect(200)) {
                return;
            }
        }
        panic!("{path}: {}", client.get(path).body);
    };
    let task = client.post(
        "/v1/tasks",
        &with(json!({"prompt": "hello", "max_attempts": 2})),
    );
    let task = format!("/v1/tasks/{}", text(&task.expect(201)["id"]));
    until(&task, &|task| task["status"] == "completed");
    let body = with(json!({
        "name": "weekly", "prompt": "hello", "rrule": "FREQ=WEEKLY;BYDAY=MO;BYHOUR=2;BYMINUTE=30",
        "cwds": [WORKSPACE], "time_zone": "Europe/Berlin", "missed": "once",
    }));
    let automation = client.post("/v1/automations", &body).expect(201);
    let automation = format!("/v1/automations/{}", text(&automation["id"]));
    let none = json!({});
    client.post(&format!("{automation}/run"), &none).expect(200);
    let runs = format!("{automation}/runs");
    until(&runs, &|runs| runs[0]["status"] == "completed");
    client
        .post(&format!("{automation}/pause"), &none)
        .expect(200);
    let tasks = json!([{"id": "t0", "instructions": "hello", "mode": "act", "allow_shell": false, "worker": {"role": "reader"}}]);
    let body =
        json!({"name": "port", "tasks": tasks, "max_workers": 1, "roles": [{"name": "reader"}]});
    let run = client.post("/v1/fleet/runs", &body).expect(201);
    let run = format!("/v1/fleet/runs/{}", text(&run["run"]["id"]));
    client.post(&format!("{run}/start"), &none).expect(202);
    until(&run, &|run| !run["completed_at"].is_null());
}
