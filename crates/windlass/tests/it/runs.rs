//! Runs, and a daemon that is killed with SIGKILL while they are open.

use std::net::TcpStream;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

use crate::support::{Daemon, Home, TOKEN, text};

/// A WebSocket that is bound to an agent, or to the host.
pub(crate) struct RunSocket(WebSocket<TcpStream>);

impl RunSocket {
    pub(crate) fn connect(daemon: &Daemon, auth: Value) -> Self {
        let address = &daemon.client.address;
        let stream = TcpStream::connect(address).unwrap();
        let (socket, _) = client(format!("ws://{address}/"), stream).unwrap();
        let mut socket = Self(socket);
        socket.call("session.auth", auth);
        socket
    }

    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.0.send(Message::text(request.to_string())).unwrap();
        loop {
            let Message::Text(text) = self.0.read().unwrap() else {
                continue;
            };
            let answer: Value = serde_json::from_str(&text).unwrap();
            if answer["id"] == 1 {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    fn count(&mut self, status: &str) -> usize {
        let params = json!({"agent_id": "worker", "status": status, "limit": 200});
        self.call("runs.list", params)["runs"]
            .as_array()
            .unwrap()
            .len()
    }
}

fn token_of_worker(home: &Home) -> String {
    let made = home
        .command(&["token", "create", "--scope", "agent:worker", "--json"])
        .output()
        .unwrap();
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    text(&made["token"])
}

fn set_lease(home: &Home, milliseconds: u64) {
    home.configure(&format!("[runs]\nlease_ms = {milliseconds}\n"));
}

/// Starts a hundred runs with one turn each, and kills the daemon.
fn open_a_hundred_runs(home: &Home, auth: &Value) -> Vec<String> {
    let daemon = home.start();
    let mut socket = RunSocket::connect(&daemon, auth.clone());
    let runs: Vec<String> = (0..100)
        .map(|_| text(&socket.call("runs.start", json!({"intent": "i"}))["run_id"]))
        .collect();
    for run in &runs {
        let params = json!({"run_id": run, "turns": [{"tool": "t"}]});
        assert_eq!(socket.call("runs.record_turns", params)["ok"], true);
    }
    daemon.kill();
    runs
}

#[test]
fn n24_after_a_kill_a_hundred_open_runs_are_claimed_by_their_owners() {
    let home = Home::new();
    set_lease(&home, 600_000);
    let auth = json!({"agent_id": "worker", "token": token_of_worker(&home)});
    let runs = open_a_hundred_runs(&home, &auth);
    let daemon = home.start();
    let mut socket = RunSocket::connect(&daemon, auth);
    assert_eq!(socket.count("in_progress"), 100);
    for run in &runs {
        let resumed = socket.call("runs.resume", json!({"run_id": run}));
        assert_eq!(resumed["run_id"], run.as_str());
        let (from, now) = (&resumed["resumed_from_client_id"], &resumed["client_id"]);
        assert!(!text(from).is_empty() && from != now, "{resumed}");
        let params = json!({"run_id": run, "turns": [{"tool": "t"}]});
        assert_eq!(socket.call("runs.record_turns", params)["base_index"], 1);
        let params = json!({"run_id": run, "outcome": {"status": "success"}});
        socket.call("runs.complete", params);
    }
    assert_eq!(
        (socket.count("completed"), socket.count("in_progress")),
        (100, 0)
    );
}

#[test]
fn n24_runs_with_an_expired_lease_are_incomplete() {
    let home = Home::new();
    let auth = json!({"agent_id": "worker", "token": token_of_worker(&home)});
    let runs = open_a_hundred_runs(&home, &auth);
    set_lease(&home, 1);
    let daemon = home.start();
    let mut host = RunSocket::connect(&daemon, json!({"host_token": TOKEN}));
    let begin = std::time::Instant::now();
    while host.count("incomplete") < 100 {
        assert!(
            begin.elapsed().as_secs() < 60,
            "{} are open",
            host.count("in_progress")
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let trace = host.call("runs.get_trace", json!({"run_id": runs[0]}));
    let kinds: Vec<_> = trace["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| text(&record["record"]))
        .collect();
    assert_eq!(kinds, ["started", "turn", "ended"]);
    assert_eq!(
        trace["records"][2]["termination"],
        json!({"kind": "incomplete"})
    );
}

#[test]
fn unix_socket_serves_the_same_protocol_to_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let path = home.data().parent().unwrap().join("rpc.sock");
    let arguments = ["--token", TOKEN, "--unix-socket", path.to_str().unwrap()];
    // The socket file of a killed daemon does not prevent a start.
    home.start_with(&arguments).kill();
    let daemon = home.start_with(&arguments);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
    let (mut socket, _) = client("ws://localhost/", stream).unwrap();
    let auth =
        json!({"jsonrpc": "2.0", "id": 1, "method": "session.auth", "params": {"token": TOKEN}});
    socket.send(Message::text(auth.to_string())).unwrap();
    let answer = socket.read().unwrap().into_text().unwrap();
    assert!(answer.contains(r#""ok":true"#), "{answer}");
    drop(daemon);
}

pub(crate) fn lines(home: &Home, arguments: &[&str]) -> Vec<String> {
    let output = home.command(arguments).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{complaint}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn runs_are_listed_shown_and_followed_while_a_daemon_runs() {
    let home = Home::new();
    let daemon = home.start();
    let mut socket = RunSocket::connect(&daemon, json!({"token": TOKEN}));
    let mut start = |agent: &str| {
        let params = json!({"agent_id": agent, "intent": format!("work of {agent}")});
        text(&socket.call("runs.start", params)["run_id"])
    };
    let (first, second) = (start("x"), start("y"));
    let params = json!({"run_id": first, "turns": [{"tool": "bash", "output": "a.txt"}]});
    socket.call("runs.record_turns", params);

    let listed = lines(&home, &["runs", "list"]);
    assert_eq!(listed.len(), 3);
    assert!(listed[0].starts_with("ID "), "{listed:?}");
    let short = |id: &str| id[id.len() - 8..].to_owned();
    assert!(
        listed[1].starts_with(&short(&second)) && listed[1].ends_with("work of y"),
        "{listed:?}"
    );
    let of_x = lines(
        &home,
        &[
            "runs",
            "list",
            "--agent",
            "x",
            "--status",
            "in_progress",
            "--json",
        ],
    );
    let row: Value = serde_json::from_str(&of_x[0]).unwrap();
    assert_eq!(
        (&row["run_id"], &row["turn_count"]),
        (&json!(first), &json!(1))
    );

    let mut tail = home.command(&["runs", "tail", &short(&first), "--json"]);
    let tail = tail.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let params = json!({"run_id": first, "outcome": {"status": "give_up"}});
    socket.call("runs.complete", params);
    let tailed = tail.wait_with_output().unwrap();
    let tailed = String::from_utf8(tailed.stdout).unwrap();
    let kinds: Vec<String> = tailed
        .lines()
        .map(|line| text(&serde_json::from_str::<Value>(line).unwrap()["record"]))
        .collect();
    assert_eq!(kinds, ["started", "turn", "ended"]);
    let shown = lines(&home, &["runs", "show", &first]);
    assert!(shown[2].ends_with("ended: give_up"), "{shown:?}");
    assert_eq!(lines(&home, &["runs", "show", &short(&first)]), shown);
    // The filter accepts the displayed status and the status that it derives from.
    for status in ["give_up", "completed"] {
        let found = lines(&home, &["runs", "list", "--status", status]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[1].starts_with(&short(&first)), "{found:?}");
        assert!(found[1].contains(" give_up "), "{found:?}");
    }
    let none = lines(&home, &["runs", "list", "--status", "success"]);
    assert_eq!(none, Vec::<String>::new());
    let end = &first[first.len() - 3..];
    let unknown = home.command(&["runs", "show", end]).output().unwrap();
    assert!(!unknown.status.success(), "three letters are no id");
    let unknown = home.command(&["runs", "show", "nope"]).output().unwrap();
    let complaint = String::from_utf8(unknown.stderr).unwrap();
    assert!(
        !unknown.status.success() && complaint.contains("`nope`"),
        "{complaint}"
    );
}

#[test]
fn a19_external_text_cannot_forge_terminal_output() {
    let home = Home::new();
    let daemon = home.start();
    let mut socket = RunSocket::connect(&daemon, json!({"token": TOKEN}));
    let hostile = "x\u{1b}[2J\u{1b}]0;t\u{7}\rfake\nfake\u{202e}\u{9b}31m";
    let params = json!({"agent_id": "a", "intent": hostile});
    let run = text(&socket.call("runs.start", params)["run_id"]);
    let turn = json!({"tool": hostile, "parameters": {"p": hostile}, "output": hostile});
    socket.call("runs.record_turns", json!({"run_id": run, "turns": [turn]}));
    let made = home.command(&["token", "create", "--scope", "client", "--name", hostile]);
    { made }.output().unwrap();
    for (words, count) in [
        (vec!["runs", "list"], 2),
        (vec!["runs", "show", &run], 2),
        (vec!["token", "list"], 1),
    ] {
        let shown = lines(&home, &words);
        assert_eq!(shown.len(), count, "{shown:?}");
        let acts = |letter: char| letter.is_control() || letter == '\u{202e}';
        assert!(!shown.concat().contains(acts), "{words:?}: {shown:?}");
    }
}

#[test]
fn empty_run_list_explains_how_to_create_a_run() {
    let home = Home::new();
    let listed = home.command(&["runs", "list"]).output().unwrap();
    let stderr = String::from_utf8(listed.stderr).unwrap();
    assert!(listed.status.success(), "{stderr}");
    assert!(
        stderr.starts_with("there are no runs in ") && stderr.contains("windlass run"),
        "{stderr}"
    );
    let shown = home
        .command(&["runs", "show", "12345678"])
        .output()
        .unwrap();
    let stderr = String::from_utf8(shown.stderr).unwrap();
    assert_eq!(shown.status.code(), Some(2), "{stderr}");
    assert!(!stderr.contains("entity"), "{stderr}");
    assert!(!home.data().exists(), "looking makes nothing");

    // A daemon without any runs.
    let _daemon = home.start();
    let listed = home.command(&["runs", "list"]).output().unwrap();
    let stderr = String::from_utf8(listed.stderr).unwrap();
    assert!(
        listed.status.success() && stderr.contains("windlass run"),
        "{stderr}"
    );
}
