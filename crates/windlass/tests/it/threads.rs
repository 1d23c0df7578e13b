//! `windlass threads` and `windlass events`, with and without a running daemon.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Home, Model, TOKEN, text};

/// Runs a command that must succeed, and returns its output.
#[track_caller]
fn said(home: &Home, arguments: &[&str]) -> String {
    let output = home.command(arguments).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {told}");
    String::from_utf8(output.stdout).unwrap()
}

fn lines(text: &str) -> Vec<Value> {
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

fn ids(home: &Home) -> Vec<String> {
    let listed = said(home, &["threads", "list", "--json"]);
    let ids = lines(&listed);
    ids.iter().map(|thread| text(&thread["id"])).collect()
}

/// Tests a thread from its first prompt to its removal.
fn kept_in_order(home: &Home) {
    said(home, &["run", "first words"]);
    let listed = ids(home);
    let [id] = listed.as_slice() else {
        panic!("{listed:?}");
    };
    let short = &id[id.len() - 8..];
    said(home, &["run", "--resume", short, "second words"]);
    let table = said(home, &["threads", "list"]);
    assert!(table.contains(short), "{table}");
    let shown = said(home, &["threads", "show", short]);
    assert!(
        shown.contains("> first words") && shown.contains("> second words"),
        "{shown}"
    );

    let exported = lines(&said(home, &["threads", "export", short]));
    assert_eq!(text(&exported[0]["thread"]["id"]), *id);
    let events = lines(&said(home, &["events", "tail", "--no-follow", short]));
    assert_eq!(exported[1..], events);
    let ends = events.iter();
    let ends = ends.filter(|event| event["event"] == "turn.completed");
    assert_eq!(ends.count(), 2);
    let last = events.last().unwrap()["seq"].to_string();
    let tail = ["events", "tail", "--no-follow", "--since", &last, short];
    assert_eq!(said(home, &tail), "");

    let turn = events.iter().find_map(|event| event["turn_id"].as_str());
    let turn = turn.unwrap();
    let turn = &turn[turn.len() - 8..];
    let first = said(home, &["threads", "fork", "--turn", turn, short]);
    let first = first.trim_end();
    let shown = said(home, &["threads", "show", first]);
    assert!(
        shown.contains("> first words") && !shown.contains("> second words"),
        "{shown}"
    );
    said(home, &["threads", "delete", "--yes", first]);
    let fork = said(home, &["threads", "fork", short]);
    let rewound = said(home, &["threads", "rewind", short]);
    let (fork, rewound) = (fork.trim_end(), rewound.trim_end());
    let shown = said(home, &["threads", "show", fork]);
    assert!(shown.contains("> second words"), "{shown}");
    let shown = said(home, &["threads", "show", rewound]);
    assert!(
        shown.contains("> first words") && !shown.contains("> second words"),
        "{shown}"
    );

    let unasked = home.command(&["threads", "delete", short]).output();
    let unasked = unasked.unwrap();
    assert!(!unasked.status.success(), "nobody could be asked");
    said(home, &["threads", "delete", "--yes", short]);
    let mut left = ids(home);
    left.sort_unstable();
    let mut expected = [fork.to_owned(), rewound.to_owned()];
    expected.sort_unstable();
    assert_eq!(left, expected);
    let again = home.command(&["threads", "delete", "--yes", id]).output();
    let again = again.unwrap();
    let told = String::from_utf8_lossy(&again.stderr);
    assert!(!again.status.success() && told.contains(id), "{told}");
}

#[test]
fn a_thread_is_listed_shown_forked_rewound_exported_and_removed() {
    kept_in_order(&Home::new());
}

#[test]
fn a_tail_ends_with_the_daemon_and_leaves_an_open_turn_alone() {
    let mut model = Model::start();
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
    let _exchange = model.asked();
    // The list and the details show that a turn is open and how to continue it.
    let table = said(&home, &["threads", "list"]);
    assert!(table.contains("[open] hello"), "{table}");
    let shown = said(&home, &["threads", "show", &thread]);
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
    let told = String::from_utf8(ended.stderr).unwrap();
    assert!(
        ended.status.success() && told.contains("has stopped"),
        "{told}"
    );
    // Without a daemon, the recorded events are shown.
    let alone = home.command(&["events", "tail", &thread]).output().unwrap();
    let told = String::from_utf8(alone.stderr).unwrap();
    assert!(
        alone.status.success() && told.contains("no daemon runs"),
        "{told}"
    );
    assert_eq!(String::from_utf8(alone.stdout).unwrap(), followed);
    assert!(followed.contains("turn.started") && !followed.contains("turn.completed"));
}

/// A command that connected to such a short-lived daemon would lose it in the middle of a turn.
#[test]
fn a_command_that_only_looks_is_found_by_nobody() {
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
fn a_title_is_listed_and_its_absence_too() {
    let home = Home::new();
    let daemon = home.start();
    daemon.thread(&json!({ "title": "the name" }));
    daemon.thread(&json!({}));
    drop(daemon);
    let listed = lines(&said(&home, &["threads", "list", "--json"]));
    let titles: Vec<_> = listed.iter().map(|thread| thread.get("title")).collect();
    assert!(titles.contains(&Some(&json!("the name"))), "{titles:?}");
    assert!(titles.contains(&Some(&Value::Null)), "{titles:?}");
    let table = said(&home, &["threads", "list"]);
    assert!(table.contains("  the name\n"), "{table}");
    assert!(!table.contains("[open]"), "{table}");
}

#[test]
fn a_daemon_that_runs_does_the_same_for_the_commands() {
    let mut home = Home::new();
    let variable = ("WINDLASS_RUNTIME_TOKEN".to_owned(), TOKEN.to_owned());
    home.variables.push(variable);
    let daemon = home.start();
    kept_in_order(&home);
    let left = daemon.client.get("/v1/threads").expect(200);
    assert_eq!(left.as_array().unwrap().len(), 2);
}

#[test]
fn a_list_has_directories_local_times_and_no_thread_that_was_rewound() {
    let mut home = Home::new();
    let zone = ("TZ".to_owned(), "Asia/Kathmandu".to_owned());
    home.variables.push(zone);
    said(&home, &["run", "first words"]);
    said(&home, &["run", "--continue", "second words"]);
    let table = said(&home, &["threads", "list"]);
    let directory = home.path().canonicalize().unwrap();
    assert!(table.contains(directory.to_str().unwrap()), "{table}");
    assert!(table.contains(" +05:45 "), "{table}");
    let [id] = &ids(&home)[..] else {
        panic!("{table}");
    };
    let rewound = said(&home, &["threads", "rewind", id]);
    assert_eq!(ids(&home), [rewound.trim_end()]);
    let all = said(&home, &["threads", "list", "--all"]);
    assert!(all.contains(&id[id.len() - 8..]), "{all}");
}

#[test]
fn a_thread_is_shown_with_results_and_times() {
    let (model, _) = Model::calling(vec![
        ("list", json!({})),
        ("read", json!({ "path": "none" })),
    ]);
    let home = Home::with_model(&model.url());
    std::fs::write(home.path().join("cargo.txt"), "").unwrap();
    said(&home, &["run", "what is here?"]);
    let id = ids(&home).remove(0);
    let shown = said(&home, &["threads", "show", &id]);
    let year = shown.lines().find(|line| line.contains("+00:00"));
    assert!(year.is_some(), "{shown}");
    assert!(shown.contains("cargo.txt"), "{shown}");
    assert!(shown.contains("[read] none  (failed)\n  "), "{shown}");
}
