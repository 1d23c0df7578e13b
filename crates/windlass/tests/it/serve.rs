//! `windlass serve`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};
use windlass_testkit::Answer;

use crate::support::{Daemon, Home, ScriptedModel, TOKEN};

struct RunningServer {
    child: Child,
    address: String,
    state: tempfile::TempDir,
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn windlass(state: &tempfile::TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command
        .args(arguments)
        .current_dir(state.path())
        .env_clear()
        .env("XDG_STATE_HOME", state.path())
        .stdin(Stdio::null());
    command
}

fn start(arguments: &[&str]) -> RunningServer {
    let state = tempfile::tempdir().unwrap();
    let mut child = windlass(&state, arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stdout = child.stdout.as_mut().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let (_, address) = line
        .trim_end()
        .rsplit_once("listening on http://")
        .unwrap_or_else(|| panic!("{line:?}"));
    RunningServer {
        address: address.to_owned(),
        child,
        state,
    }
}

/// Requests a path and returns the status line.
fn get(address: &str, path: &str, token: Option<&str>) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n"));
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{}\r\n",
        token.unwrap_or_default()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

fn refused(arguments: &[&str]) -> String {
    let state = tempfile::tempdir().unwrap();
    let Output {
        status,
        stdout,
        stderr,
    } = windlass(&state, arguments).output().unwrap();
    assert!(!status.success());
    assert!(stdout.is_empty(), "{stdout:?}");
    String::from_utf8(stderr).unwrap()
}

#[test]
fn r5_generated_token_is_readable_by_its_owner_only() {
    let running = start(&["serve", "--port", "0"]);
    let file = running.state.path().join("windlass/token");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let token = std::fs::read_to_string(&file).unwrap();
    assert!(token.len() >= 32);
    assert_eq!(
        get(&running.address, "/v1/threads", None),
        "HTTP/1.1 401 Unauthorized"
    );
    assert_eq!(
        get(&running.address, "/v1/threads", Some(&token)),
        "HTTP/1.1 200 OK"
    );
}

#[test]
fn original_invocations_are_accepted() {
    let running = start(&[
        "--workspace",
        ".",
        "serve",
        "--http",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--insecure",
    ]);
    assert_eq!(
        get(&running.address, "/v1/threads", None),
        "HTTP/1.1 200 OK"
    );
    let running = start(&[
        "app-server",
        "--http",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--auth-token",
        "T",
    ]);
    assert_eq!(
        get(&running.address, "/v1/threads", Some("T")),
        "HTTP/1.1 200 OK"
    );
    assert_eq!(get(&running.address, "/health", None), "HTTP/1.1 200 OK");
}

#[test]
fn command_socket_exists_only_with_tokens() {
    for (flag, is_there) in [("--token=t", true), ("--insecure", false)] {
        let running = start(&["serve", "--port", "0", flag]);
        let socket = running.state.path().join("windlass/daemon.sock");
        assert_eq!(socket.exists(), is_there, "{flag}");
    }
}

#[test]
fn token_is_read_from_a_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "from-a-file\n").unwrap();
    let path = file.path().display().to_string();
    let running = start(&["serve", "--port", "0", "--token-file", &path]);
    assert_eq!(
        get(&running.address, "/v1/threads", Some("from-a-file")),
        "HTTP/1.1 200 OK"
    );
}

#[test]
fn requests_without_a_token_are_rejected() {
    for arguments in [
        &["serve", "--port", "0", "--host", "0.0.0.0"][..],
        &["serve", "--port", "0", "--host", "0.0.0.0", "--insecure"][..],
    ] {
        let complaint = refused(arguments);
        assert!(complaint.contains("token"), "{complaint}");
    }
    let complaint = refused(&["serve", "--port", "0", "--token", " "]);
    assert!(complaint.contains("blank"), "{complaint}");
}

#[test]
fn configured_models_are_selectable_and_configured_limits_apply() {
    let model =
        ScriptedModel::answering(|request| Answer::text(&[request["model"].as_str().unwrap()]));
    let home = Home::with_model(&model.url());
    let config = "model = 'anthropic/first'\nmodels = ['anthropic/second']\n[limits]\nthreads = 5\nbody_bytes = 1000";
    home.configure(config);
    let daemon = home.start();
    for (requested, effective) in [
        (json!({}), "first"),
        (json!({"model": "auto"}), "first"),
        (json!({"model": "anthropic/first"}), "first"),
        (json!({"model": "anthropic/second"}), "second"),
        (json!({"model": "org/third:latest"}), "org/third:latest"),
    ] {
        let thread = daemon.thread(&requested);
        let mut events = daemon.client.events(&thread, 0);
        daemon.turn(&thread, "who are you?");
        let frames = events.until("turn.completed");
        let turn = &frames.last().unwrap().data["payload"]["turn"];
        assert_eq!(turn["effective_model"], effective);
        assert_eq!(daemon.detail(&thread)["items"][1]["detail"], effective);
    }
    let one_more = daemon.client.post("/v1/threads", &json!({}));
    assert_eq!(
        (one_more.status, one_more.code().as_str()),
        (429, "limit_reached")
    );
    let large = json!({"title": "x".repeat(2000)});
    assert_eq!(daemon.client.post("/v1/threads", &large).status, 413);
}

#[test]
fn unconfigured_models_are_refused_when_the_operator_forbids_them() {
    let model =
        ScriptedModel::answering(|request| Answer::text(&[request["model"].as_str().unwrap()]));
    let home = Home::with_model(&model.url());
    let file = home.data().with_file_name("own.toml");
    let file = file.to_str().unwrap();
    let config = "model = 'anthropic/first'\nmodels = ['anthropic/second']\nunknown_models = ";
    std::fs::write(file, format!("{config}'refuse'")).unwrap();
    let daemon = home.start_with(&["--token", TOKEN, "--config", file]);
    for name in ["third", "anthropic/third", "First"] {
        let unknown = daemon.client.post("/v1/threads", &json!({"model": name}));
        assert_eq!(
            (unknown.status, unknown.code().as_str()),
            (422, "invalid_field")
        );
        let known = unknown.body.contains("anthropic/second");
        assert!(known, "{}", unknown.body);
    }
    daemon.thread(&json!({"model": "anthropic/second"}));
    assert!(daemon.stop().success());

    std::fs::write(file, format!("{config}'maybe'")).unwrap();
    let mut command = home.command(&["serve", "--port", "0", "--config", file]);
    let refused = command.output().unwrap();
    let complaint = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && complaint.contains("default_provider"),
        "{complaint}"
    );
}

#[test]
fn demonstration_model_answers_to_every_name() {
    let home = Home::new();
    let daemon = home.start();
    let thread = daemon.thread(&json!({"model": "deepseek-v4-pro", "mode": "act"}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "hello");
    let frames = events.until("turn.completed");
    let turn = &frames.last().unwrap().data["payload"]["turn"];
    assert_eq!(
        (&turn["status"], &turn["effective_model"]),
        (&json!("completed"), &json!("deepseek-v4-pro"))
    );
}

#[test]
fn log_has_every_request_id_and_no_token() {
    let home = Home::new();
    let path = home.data().with_file_name("log");
    let daemon = home.start_logging(std::fs::File::create(&path).unwrap());
    daemon.thread(&json!({}));
    daemon.client.get("/v1/nothing");
    assert!(daemon.stop().success());
    let log = std::fs::read_to_string(&path).unwrap();
    assert!(!log.contains(TOKEN), "{log}");
    let lines = log.lines().filter(|line| line.starts_with('{'));
    let lines: Vec<serde_json::Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let is_logged = |path: &str, status: u16| {
        lines.iter().any(|line| {
            let is_named = line["request"]
                .as_str()
                .is_some_and(|id| id.starts_with("req_"));
            is_named && line["path"] == path && line["status"] == status
        })
    };
    assert!(
        is_logged("/v1/threads", 201) && is_logged("/v1/nothing", 404),
        "{log}"
    );
}

#[test]
fn occupied_port_is_reported_once() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let refused = home.command(&["serve", "--port", &port]).output().unwrap();
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert_eq!(stderr.matches("in use").count(), 1, "{stderr}");
}

#[test]
fn json_log_contains_only_json_and_the_start() {
    let home = Home::new();
    let path = home.path().join("log");
    let start = |file: &std::path::Path| {
        let file = std::fs::File::create(file).unwrap();
        let arguments = ["serve", "--port", "0", "--mobile", "--log-format", "json"];
        let mut command = home.command(&arguments);
        command.arg("--workspace").arg(&home.workspace);
        Daemon::started(command.stderr(file))
    };
    let daemon = start(&path);
    let address = daemon.client.address.clone();
    // A daemon that cannot open the data reports it in the same format.
    let second = home
        .command(&["serve", "--port", "0", "--log-format", "json"])
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(2));
    assert!(daemon.stop().success());
    let log = std::fs::read_to_string(&path).unwrap();
    let refusal = String::from_utf8(second.stderr).unwrap();
    let lines = |text: &str| -> Vec<Value> {
        let lines = text.lines().map(serde_json::from_str);
        lines
            .collect::<Result<_, _>>()
            .unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    assert_eq!(lines(&refusal).last().unwrap()["level"], "ERROR");
    let lines = lines(&log);
    let log_entry = |words: &str| {
        let found = lines.iter().find(|line| {
            let message = line["message"].as_str();
            message.is_some_and(|message| message.contains(words))
        });
        found.unwrap_or_else(|| panic!("{words} in {log}"))
    };
    log_entry("--mobile has no effect");
    log_entry("stopping");
    let started = log_entry("windlass has started");
    assert_eq!(started["level"], "INFO");
    assert_eq!(started["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(started["data"], home.data().to_str().unwrap());
    assert_eq!(started["address"], address);
    assert_eq!(started["model"], "llmsim/llmsim-model");
    assert_eq!(started["resumed_turns"], 0);
    assert!(started["sandbox"].is_string(), "{started}");
}
