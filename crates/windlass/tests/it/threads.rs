//! `windlass threads` and `windlass events`, with and without a running daemon.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Home, ScriptedModel, TOKEN, text};

/// Runs a command that must succeed, and returns its output.
#[track_caller]
fn stdout_of(home: &Home, arguments: &[&str]) -> String {
    let output = home.command(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn lines(text: &str) -> Vec<Value> {
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

fn ids(home: &Home) -> Vec<String> {
    let listed = stdout_of(home, &["threads", "list", "--json"]);
    let ids = lines(&listed);
    ids.iter().map(|thread| text(&thread["id"])).collect()
}

/// Tests a thread from its first prompt to its removal.
fn check_thread_lifecycle(home: &Home) {
    stdout_of(home, &["run", "first words"]);
    let listed = ids(home);
    let [id] = listed.as_slice() else {
        panic!("{listed:?}");
    };
    let short = &id[id.len() - 8..];
    stdout_of(home, &["run", "--resume", short, "second words"]);
    let table = stdout_of(home, &["threads", "list"]);
    assert!(table.contains(short), "{table}");
    let shown = stdout_of(home, &["threads", "show", short]);
    assert!(
        shown.contains("> first words") && shown.contains("> second words"),
        "{shown}"
    );

    let exported = lines(&stdout_of(home, &["threads", "export", short]));
    assert_eq!(text(&exported[0]["thread"]["id"]), *id);
    let events = lines(&stdout_of(home, &["events", "tail", "--no-follow", short]));
    assert_eq!(exported[1..], events);
    let ends = events.iter();
    let ends = ends.filter(|event| event["event"] == "turn.completed");
    assert_eq!(ends.count(), 2);
    let last = events.last().unwrap()["seq"].to_string();
    let tail = ["events", "tail", "--no-follow", "--since", &last, short];
    assert_eq!(stdout_of(home, &tail), "");

    let turn = events.iter().find_map(|event| event["turn_id"].as_str());
    let turn = turn.unwrap();
    let turn = &turn[turn.len() - 8..];
    let first = stdout_of(home, &["threads", "fork", "--turn", turn, short]);
    let first = first.trim_end();
    let shown = stdout_of(home, &["threads", "show", first]);
    assert!(
        shown.contains("> first words") && !shown.contains("> second words"),
        "{shown}"
    );
    stdout_of(home, &["threads", "delete", "--yes", first]);
    let fork = stdout_of(home, &["threads", "fork", short]);
    let rewound = stdout_of(home, &["threads", "rewind", short]);
    let (fork, rewound) = (fork.trim_end(), rewound.trim_end());
    let shown = stdout_of(home, &["threads", "show", fork]);
    assert!(shown.contains("> second words"), "{shown}");
    let shown = stdout_of(home, &["threads", "show", rewound]);
    assert!(
        shown.contains("> first words") && !shown.contains("> second words"),
        "{shown}"
    );

    let unconfirmed = home.command(&["threads", "delete", short]).output();
    let unconfirmed = unconfirmed.unwrap();
    assert!(
        !unconfirmed.status.success(),
        "there is no terminal to ask at"
    );
    stdout_of(home, &["threads", "delete", "--yes", short]);
    let mut left = ids(home);
    left.sort_unstable();
    let mut expected = [fork.to_owned(), rewound.to_owned()];
    expected.sort_unstable();
    assert_eq!(left, expected);
    let again = home.command(&["threads", "delete", "--yes", id]).output();
    let again = again.unwrap();
    let stderr = String::from_utf8_lossy(&again.stderr);
    assert!(!again.status.success() && stderr.contains(id), "{stderr}");
}

#[test]
fn thread_is_listed_shown_forked_rewound_exported_and_removed() {
    check_thread_lifecycle(&Home::new());
}

#[test]
fn tail_ends_with_the_daemon_and_preserves_an_open_turn() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let daemon = home.start_with(&[]);
    let thread = {
        let token = std::fs::read_to_string(home.data().join("token")).unwrap();
        let client = daemon.client.with_token(&token);
        let thread = client.post("/v1/threads", &json!({})).expect(201);
        let path = format!("/v1/threads/{}/turns", text(&thread["id"]));
        client
            .post(&path, &json!({ "prompt": "hello" }))
            .expect(201);
        text(&thread["id"])
    };
    let _exchange = model.next_request();
    // The list and the details show that a turn is open and how to continue it.
    let table = stdout_of(&home, &["threads", "list"]);
    assert!(
        table.contains("  open  ") && table.contains("  hello"),
        "{table}"
    );
    let shown = stdout_of(&home, &["threads", "show", &thread]);
    let end = format!("windlass run --resume {}\n", &thread[thread.len() - 8..]);
    assert!(
        shown.contains("[open] ") && shown.ends_with(&end),
        "{shown}"
    );
    let mut tail = home.command(&["events", "tail", &thread]);
    let tail = tail.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut tail = tail.spawn().unwrap();
    let mut first = String::new();
    let mut out = BufReader::new(tail.stdout.take().unwrap());
    out.read_line(&mut first).unwrap();
    daemon.kill();
    let mut followed = first;
    out.read_to_string(&mut followed).unwrap();
    let ended = tail.wait_with_output().unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert!(
        ended.status.success() && stderr.contains("has stopped"),
        "{stderr}"
    );
    // Without a daemon, the recorded events are shown.
    let alone = home.command(&["events", "tail", &thread]).output().unwrap();
    let stderr = String::from_utf8(alone.stderr).unwrap();
    assert!(
        alone.status.success() && stderr.contains("no daemon runs"),
        "{stderr}"
    );
    assert_eq!(String::from_utf8(alone.stdout).unwrap(), followed);
    assert!(followed.contains("turn.started") && !followed.contains("turn.completed"));
}

/// A command that connected to such a short-lived daemon would lose it in the middle of a turn.
#[test]
fn read_only_command_opens_no_socket() {
    let home = Home::new();
    let mut run = home.command(&["run", "-"]);
    let mut run = run.stdin(Stdio::piped()).spawn().unwrap();
    // More than the capacity of a pipe.
    let words = "words ".repeat(100_000);
    let mut stdin = run.stdin.take().unwrap();
    stdin.write_all(words.as_bytes()).unwrap();
    drop(stdin);
    assert!(run.wait().unwrap().success());
    let id = ids(&home).remove(0);
    let mut export = home.command(&["threads", "export", &id]);
    let mut export = export.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = export.stdout.take().unwrap();
    out.read_exact(&mut [0]).unwrap();
    assert!(!home.data().join("daemon.sock").exists());
    drop(out);
    assert!(export.wait().unwrap().success());
}

#[test]
fn missing_title_is_listed_as_null() {
    let home = Home::new();
    let daemon = home.start();
    daemon.thread(&json!({ "title": "the name" }));
    daemon.thread(&json!({}));
    drop(daemon);
    let listed = lines(&stdout_of(&home, &["threads", "list", "--json"]));
    let titles: Vec<_> = listed.iter().map(|thread| thread.get("title")).collect();
    assert!(titles.contains(&Some(&json!("the name"))), "{titles:?}");
    assert!(titles.contains(&Some(&Value::Null)), "{titles:?}");
    let table = stdout_of(&home, &["threads", "list"]);
    assert!(table.contains("  the name\n"), "{table}");
    assert!(!table.contains("  open  "), "{table}");
}

#[test]
fn commands_work_the_same_through_a_running_daemon() {
    let mut home = Home::new();
    let variable = ("WINDLASS_RUNTIME_TOKEN".to_owned(), TOKEN.to_owned());
    home.variables.push(variable);
    let daemon = home.start();
    check_thread_lifecycle(&home);
    let left = daemon.client.get("/v1/threads").expect(200);
    assert_eq!(left.as_array().unwrap().len(), 2);
}

#[test]
fn list_shows_directories_and_local_times_and_hides_rewound_threads() {
    let mut home = Home::new();
    let zone = ("TZ".to_owned(), "Asia/Kathmandu".to_owned());
    home.variables.push(zone);
    stdout_of(&home, &["run", "first words"]);
    stdout_of(&home, &["run", "--continue", "second words"]);
    let table = stdout_of(&home, &["threads", "list"]);
    let directory = home.path().canonicalize().unwrap();
    assert!(table.contains(directory.to_str().unwrap()), "{table}");
    assert!(table.contains(" +05:45 "), "{table}");
    let [id] = &ids(&home)[..] else {
        panic!("{table}");
    };
    let rewound = stdout_of(&home, &["threads", "rewind", id]);
    assert_eq!(ids(&home), [rewound.trim_end()]);
    let all = stdout_of(&home, &["threads", "list", "--all"]);
    assert!(all.contains(&id[id.len() - 8..]), "{all}");
}

#[test]
fn thread_is_shown_with_results_and_times() {
    let (model, _) = ScriptedModel::calling(vec![
        ("list", json!({})),
        ("read", json!({ "path": "none" })),
    ]);
    let home = Home::with_model(&model.url());
    std::fs::write(home.path().join("cargo.txt"), "").unwrap();
    stdout_of(&home, &["run", "what is here?"]);
    let id = ids(&home).remove(0);
    let shown = stdout_of(&home, &["threads", "show", &id]);
    let year = shown.lines().find(|line| line.contains("+00:00"));
    assert!(year.is_some(), "{shown}");
    assert!(shown.contains("cargo.txt"), "{shown}");
    assert!(
        shown.contains("x read  none  ") && shown.contains("(failed)"),
        "{shown}"
    );
}
