//! Web pages: approvals, reachable hosts, and the configuration of both.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

use serde_json::json;
use windlass_testkit::skipped;

use crate::support::{Home, ScriptedModel, text};

/// Serves one page on this machine until the test ends; returns its address.
fn page() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            lines
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .for_each(drop);
            let body = "<title>Here</title><p>a page of this machine";
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            );
        }
    });
    address
}

#[test]
fn allowed_host_is_fetched_and_others_need_an_approval() {
    let (open, other) = (page(), page());
    let calls = vec![
        ("web_fetch", json!({ "url": format!("http://{open}/a") })),
        ("web_fetch", json!({ "url": format!("http://{other}/b") })),
    ];
    let (model, requests) = ScriptedModel::calling(calls);
    let home = Home::with_model(&model.url());
    home.configure(&format!("[web]\nallow = [\"{open}\"]\n"));
    let daemon = home.start();
    let thread = daemon.thread(&json!({}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "go");
    let approval = events.until("approval.required").pop().unwrap();
    let read = requests.results().pop().unwrap();
    assert!(read.contains("a page of this machine"), "{read}");
    let approval = text(&approval.data["payload"]["approval_id"]);
    let path = format!("/v1/approvals/{approval}");
    daemon
        .client
        .post(&path, &json!({"decision": "allow"}))
        .expect(200);
    events.until("turn.completed");
    let refused = requests.results().pop().unwrap();
    assert!(refused.contains("not on the public internet"), "{refused}");
    assert!(requests.tools().contains(&"web_fetch".to_owned()));
}

#[test]
fn turn_in_an_environment_without_network_fetches_no_page() {
    let open = page();
    let call = ("web_fetch", json!({ "url": format!("http://{open}/") }));
    let (model, requests) = ScriptedModel::calling(vec![call]);
    let home = Home::with_model(&model.url());
    std::fs::create_dir(home.path().join("inside")).unwrap();
    home.configure(&format!(
        "[web]\nallow = [\"{open}\"]\n[environments.inside]\nroot = \"inside\"\nnetwork = \"none\"\n"
    ));
    let daemon = home.start();
    let at = json!({"environments": [{"environment_id": "inside", "cwd": "."}]});
    let thread = daemon.thread(&at);
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "go");
    events.until("turn.completed");
    let refused = requests.results().pop().unwrap();
    assert!(
        refused.contains("environment `inside` allows no network"),
        "{refused}"
    );
}

#[test]
fn web_tools_can_be_disabled() {
    let (model, requests) = ScriptedModel::calling(vec![("list", json!({}))]);
    let home = Home::with_model(&model.url());
    home.configure("[web]\nenabled = false\n");
    let daemon = home.start();
    let thread = daemon.thread(&json!({}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "go");
    events.until("turn.completed");
    let offered = requests.tools();
    assert!(offered.contains(&"list".to_owned()), "{offered:?}");
    assert!(!offered.contains(&"web_fetch".to_owned()), "{offered:?}");
}

/// Returns the result that the model gets of a command that needs no approval, with this configuration.
fn ran(configuration: &str, files: &[(&str, &str)], command: &str) -> String {
    let call = ("shell", json!({ "command": command }));
    let (model, requests) = ScriptedModel::calling(vec![call]);
    let home = Home::with_model(&model.url());
    for (name, content) in files {
        std::fs::write(home.path().join(name), content).unwrap();
    }
    home.configure(&format!(
        "{configuration}\n[approvals]\ndefault = \"allow\"\n"
    ));
    let daemon = home.start();
    let thread = daemon.thread(&json!({"allow_shell": true}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "go");
    events.until("turn.completed");
    requests.results().pop().unwrap()
}

#[test]
fn commands_reach_only_allowed_hosts() {
    if !windlass_process::Confinement::Bubblewrap.works_here() {
        let test = "commands_reach_only_allowed_hosts";
        return skipped(test, "bubblewrap does not work on this machine");
    }
    let (open, other) = (page(), page());
    let ask = "ask() { exec 3<>/dev/tcp/127.0.0.1/${HTTPS_PROXY##*:} && printf \"GET http://$1/ HTTP/1.1\\r\\n\\r\\n\" >&3 && cat <&3; exec 3>&-; }";
    let direct = open.replace(':', "/");
    let command =
        format!("{ask}; ask {open}; ask {other}; (exec 3<>/dev/tcp/{direct}) || echo closed");
    let result = ran(
        &format!(
            "[shell]\nnetwork = \"filtered\"\nhosts = [\"{open}\"]\n[web]\nallow = [\"127.0.0.1/32\"]"
        ),
        &[],
        &command,
    );
    assert_eq!(
        result.matches("a page of this machine").count(),
        1,
        "{result}"
    );
    assert!(result.contains(&format!("{other} is not open")), "{result}");
    assert!(result.contains("closed"), "{result}");
}

#[test]
fn named_secret_reaches_commands_and_is_never_shown() {
    let result = ran(
        "[secrets.TOKEN]\nfile = \"workspace/token\"\ncommands = true",
        &[("workspace/token", "s3cret-value-0042\n")],
        "echo ${#TOKEN} $TOKEN; printf %s \"$TOKEN\" | base64; cat token; true",
    );
    assert!(result.contains("17 [secret:TOKEN]"), "{result}");
    for form in ["s3cret-value", "czNjcmV0LXZhbHVl"] {
        assert!(!result.contains(form), "{result}");
    }
}

#[test]
fn commands_of_a_run_obey_the_network_policy() {
    if !windlass_process::Confinement::Bubblewrap.works_here() {
        let test = "commands_of_a_run_obey_the_network_policy";
        return skipped(test, "bubblewrap does not work on this machine");
    }
    let direct = page().replace(':', "/");
    let command = format!("(exec 3<>/dev/tcp/{direct}) && echo open || echo closed");
    let rules = "[approvals]\ndefault = \"allow\"\n";
    for (configuration, expected) in [
        ("", "open"),
        ("[shell]\nnetwork = \"none\"\n", "closed"),
        (
            "[environments.work]\nroot = \".\"\nnetwork = \"none\"\n",
            "closed",
        ),
    ] {
        let (model, requests) =
            ScriptedModel::calling(vec![("shell", json!({ "command": command }))]);
        let home = Home::with_model(&model.url());
        home.configure(&format!("{configuration}{rules}"));
        let ran = home.command(&["run", "go"]).output().unwrap();
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{stderr}");
        let result = requests.results().pop().unwrap();
        assert!(result.contains(expected), "{configuration}: {result}");
    }
}
