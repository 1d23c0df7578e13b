//! Web pages: approvals, reachable hosts, and the configuration of both.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

use serde_json::json;
use windlass_testkit::skipped;

use crate::support::{Home, Model, text};

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
fn a_host_that_the_operator_names_is_read_and_others_are_asked_about() {
    let (open, other) = (page(), page());
    let calls = vec![
        ("web_fetch", json!({ "url": format!("http://{open}/a") })),
        ("web_fetch", json!({ "url": format!("http://{other}/b") })),
    ];
    let (model, told) = Model::calling(calls);
    let home = Home::with_model(&model.url());
    home.configure(&format!("[web]\nallow = [\"{open}\"]\n"));
    let daemon = home.start();
    let thread = daemon.thread(&json!({}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "go");
    let asked = events.until("approval.required").pop().unwrap();
    let read = told.results().pop().unwrap();
    assert!(read.contains("a page of this machine"), "{read}");
    let approval = text(&asked.data["payload"]["approval_id"]);
    let path = format!("/v1/approvals/{approval}");
    daemon
        .client
        .post(&path, &json!({"decision": "allow"}))
        .expect(200);
    events.until("turn.completed");
    let refused = told.results().pop().unwrap();
    assert!(refused.contains("not on the public internet"), "{refused}");
    assert!(told.tools().contains(&"web_fetch".to_owned()));
}

#[test]
fn a_turn_in_an_environment_without_a_network_reads_no_page() {
    let open = page();
    let call = ("web_fetch", json!({ "url": format!("http://{open}/") }));
    let (model, told) = Model::calling(vec![call]);
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
    let refused = told.results().pop().unwrap();
    assert!(
        refused.contains("environment `inside` has no network"),
        "{refused}"
    );
}

#[test]
fn the_web_can_be_switched_off() {
    let (model, told) = Model::calling(vec![("list", json!({}))]);
    let home = Home::with_model(&model.url());
    home.configure("[web]\nenabled = false\n");
    let daemon = home.start();
    let thread = daemon.thread(&json!({}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "go");
    events.until("turn.completed");
    let offered = told.tools();
    assert!(offered.contains(&"list".to_owned()), "{offered:?}");
    assert!(!offered.contains(&"web_fetch".to_owned()), "{offered:?}");
}

/// Returns the result that the model gets of a command that needs no approval, with this configuration.
fn ran(configuration: &str, files: &[(&str, &str)], command: &str) -> String {
    let call = ("shell", json!({ "command": command }));
    let (model, told) = Model::calling(vec![call]);
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
    told.results().pop().unwrap()
}

#[test]
fn commands_reach_hosts_that_are_named_and_no_others() {
    if !windlass_process::Confinement::Bubblewrap.works_here() {
        let test = "commands_reach_hosts_that_are_named_and_no_others";
        return skipped(test, "bubblewrap does not work on this machine");
    }
    let (open, other) = (page(), page());
    let ask = "ask() { exec 3<>/dev/tcp/127.0.0.1/${HTTPS_PROXY##*:} && printf \"GET http://$1/ HTTP/1.1\\r\\n\\r\\n\" >&3 && cat <&3; exec 3>&-; }";
    let direct = open.replace(':', "/");
    let command =
        format!("{ask}; ask {open}; ask {other}; (exec 3<>/dev/tcp/{direct}) || echo closed");
    let said = ran(
        &format!(
            "[shell]\nnetwork = \"filtered\"\nhosts = [\"{open}\"]\n[web]\nallow = [\"127.0.0.1/32\"]"
        ),
        &[],
        &command,
    );
    assert_eq!(said.matches("a page of this machine").count(), 1, "{said}");
    assert!(said.contains(&format!("{other} is not open")), "{said}");
    assert!(said.contains("closed"), "{said}");
}

#[test]
fn a_secret_that_is_named_goes_into_commands_and_is_shown_to_nobody() {
    let said = ran(
        "[secrets.TOKEN]\nfile = \"workspace/token\"\ncommands = true",
        &[("workspace/token", "s3cret-value-0042\n")],
        "echo ${#TOKEN} $TOKEN; printf %s \"$TOKEN\" | base64; cat token; true",
    );
    assert!(said.contains("17 [secret:TOKEN]"), "{said}");
    for form in ["s3cret-value", "czNjcmV0LXZhbHVl"] {
        assert!(!said.contains(form), "{said}");
    }
}

#[test]
fn commands_of_a_run_reach_what_the_operator_says() {
    if !windlass_process::Confinement::Bubblewrap.works_here() {
        let test = "commands_of_a_run_reach_what_the_operator_says";
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
        let (model, told) = Model::calling(vec![("shell", json!({ "command": command }))]);
        let home = Home::with_model(&model.url());
        home.configure(&format!("{configuration}{rules}"));
        let ran = home.command(&["run", "go"]).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{said}");
        let result = told.results().pop().unwrap();
        assert!(result.contains(expected), "{configuration}: {result}");
    }
}
