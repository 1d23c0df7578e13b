//! `windlass store`, with and without a running daemon.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

use crate::data::other_device;
use crate::support::{Daemon, Home, TOKEN};

fn stderr(out: &Output) -> String {
    String::from_utf8(out.stderr.clone()).unwrap()
}

fn store(home: &Home, arguments: &[&str]) -> Output {
    let arguments = [&["store"], arguments].concat();
    home.command(&arguments).output().unwrap()
}

/// Runs a subcommand with `--json` and returns its report.
#[track_caller]
fn report_of(home: &Home, arguments: &[&str]) -> Value {
    let out = store(home, &[arguments, &["--json"]].concat());
    assert!(out.status.success(), "{arguments:?}: {}", stderr(&out));
    serde_json::from_slice(&out.stdout).unwrap()
}

#[track_caller]
fn refused(home: &Home, arguments: &[&str], words: &[&str]) {
    let out = store(home, arguments);
    let complaint = stderr(&out);
    assert_eq!(out.status.code(), Some(2), "{arguments:?}: {complaint}");
    for word in words {
        assert!(complaint.contains(word), "{arguments:?}: {complaint}");
    }
}

fn turn(daemon: &Daemon, thread: &str) {
    let seen = daemon.detail(thread)["latest_seq"].as_u64();
    let mut events = daemon.client.events(thread, seen.unwrap_or(0));
    daemon.turn(thread, "hello");
    events.until("turn.completed");
}

/// A home whose daemon has run one turn and stopped; and the thread.
fn used() -> (Home, String) {
    let home = Home::new();
    let daemon = home.start();
    let thread = daemon.thread(&json!({}));
    turn(&daemon, &thread);
    daemon.stop();
    (home, thread)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn data_commands_that_write_are_refused_while_a_daemon_runs() {
    let home = Home::new();
    let daemon = home.start();
    let thread = daemon.thread(&json!({}));
    turn(&daemon, &thread);
    let verified = report_of(&home, &["verify", "--heads"]);
    assert_eq!(verified["findings"], json!([]));
    assert!(verified["records"].as_u64().unwrap() > 5, "{verified}");
    assert_eq!(
        verified["heads"].as_array().unwrap().len() as u64,
        verified["streams"].as_u64().unwrap()
    );
    let (file, backup) = (home.path().join("all.jsonl"), home.path().join("backup"));
    let exported = report_of(&home, &["export", text(&file)]);
    assert_eq!(exported["records"], verified["records"]);
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    report_of(&home, &["backup", text(&backup), "--verify"]);

    let pid = format!("process {}", daemon.pid());
    for arguments in [
        &["import", text(&file)][..],
        &["rebuild"],
        &["compact"],
        &["restore", text(&backup)],
    ] {
        refused(&home, arguments, &[&pid]);
    }
    turn(&daemon, &thread);
}

#[test]
fn restore_recovers_the_backup_and_preserves_the_replaced_data() {
    let (home, thread) = used();
    let made = home.command(&["token", "create", "--json"]).output();
    assert!(made.unwrap().status.success());
    let backup = home.path().join("backup");
    let report = report_of(&home, &["backup", text(&backup), "--with-secrets-key"]);
    assert_eq!(
        report["files"],
        json!(["secrets.key", "tokens.json", "windlass.db"])
    );
    refused(&home, &["backup", text(&backup)], &["exists already"]);

    let daemon = home.start();
    let later = daemon.thread(&json!({}));
    turn(&daemon, &later);
    daemon.kill();
    let restored = report_of(&home, &["restore", text(&backup)]);
    assert_eq!(restored["files"]["secrets.key"], "backup");
    assert_eq!(restored["files"]["tokens.json"], "existing");
    let former = restored["former"].as_str().unwrap();

    let daemon = home.start();
    turn(&daemon, &thread);
    assert_eq!(daemon.client.get(&later).status, 404);
    assert_eq!(report_of(&home, &["verify"])["findings"], json!([]));
    daemon.stop();
    // The former data is still a usable data directory, even after a kill.
    let daemon = home.start_with(&["--token", TOKEN, "--data", former]);
    turn(&daemon, &later);
}

#[test]
fn backup_contains_the_secrets_key_only_on_request() {
    let (home, _) = used();
    let backup = home.path().join("backup");
    let out = store(&home, &["backup", text(&backup)]);
    assert!(out.status.success(), "{}", stderr(&out));
    assert!(stderr(&out).contains("the backup does not contain secrets.key"));
    assert!(!backup.join("secrets.key").exists());
    fs::remove_file(home.data().join("secrets.key")).unwrap();
    let second = home.path().join("second");
    let with_key = ["backup", text(&second), "--with-secrets-key"];
    refused(&home, &with_key, &["there is no secrets.key"]);
    let out = store(&home, &["restore", text(&backup)]);
    assert!(out.status.success());
    assert!(
        stderr(&out).contains("--secrets-key-file"),
        "{}",
        stderr(&out)
    );
}

#[test]
fn backups_work_across_devices() {
    let Some(other) = other_device() else {
        return;
    };
    let (home, thread) = used();
    let backup = other.path().join("backup");
    report_of(&home, &["backup", text(&backup)]);
    report_of(&home, &["restore", text(&backup)]);
    let there = other.path().join("data");
    report_of(&home, &["restore", text(&backup), "--data", text(&there)]);
    turn(&home.start(), &thread);
    let daemon = home.start_with(&["--token", TOKEN, "--data", text(&there)]);
    turn(&daemon, &thread);
}

#[test]
fn backup_is_never_modified() {
    let (home, thread) = used();
    let backup = home.path().join("backup");
    report_of(&home, &["backup", text(&backup)]);
    let names = || {
        let mut names: Vec<_> = fs::read_dir(&backup)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    let before = names();
    for words in [&["threads", "list"][..], &["run", "hello"]] {
        let words = [words, &["--data", text(&backup)]].concat();
        let out = home.command(&words).output().unwrap();
        assert!(!out.status.success());
        let complaint = stderr(&out);
        assert!(complaint.contains("is a backup"), "{complaint}");
    }
    assert_eq!(names(), before);
    report_of(&home, &["restore", text(&backup)]);
    turn(&home.start(), &thread);
}

#[test]
fn invalid_backups_are_refused_without_changes() {
    let (home, thread) = used();
    let backup = home.path().join("backup");
    report_of(&home, &["backup", text(&backup)]);
    let manifest = backup.join("backup.json");
    let changed = fs::read_to_string(&manifest).unwrap();
    let mut changed: Value = serde_json::from_str(&changed).unwrap();
    changed["schema"] = 99.into();
    fs::write(&manifest, changed.to_string()).unwrap();
    let words = ["another version", "99", "nothing was changed", "newer"];
    refused(&home, &["restore", text(&backup)], &words);
    let workspace = text(home.path());
    refused(
        &home,
        &["restore", workspace],
        &["is no backup", "store backup"],
    );
    refused(&home, &["restore", "missing"], &["is no backup"]);
    refused(&home, &["import", "missing"], &["cannot read missing"]);
    let nowhere = store(&home, &["backup", "no/such/place"]);
    let complaint = stderr(&nowhere);
    assert_eq!(complaint.matches("No such file").count(), 1, "{complaint}");
    refused(&home, &["import", text(&manifest)], &["not an export"]);
    turn(&home.start(), &thread);

    let empty = Home::new();
    for arguments in [
        &["verify"][..],
        &["export"],
        &["rebuild"],
        &["backup", "b"],
        &["import", text(&manifest)],
        &["restore", text(&backup)],
    ] {
        refused(&empty, arguments, &[]);
        assert!(!empty.data().exists(), "{arguments:?}");
    }
    refused(&empty, &["verify"], &["there is no store", "--data"]);
}

#[test]
fn exported_data_can_be_imported() {
    let (home, thread) = used();
    let out = store(&home, &["export"]);
    assert!(out.status.success());
    let file = home.path().join("all.jsonl");
    fs::write(&file, &out.stdout).unwrap();
    refused(&home, &["export", text(&file)], &["exists already"]);

    let mut second = Home::new();
    // The thread's directory stays the same.
    second.workspace.clone_from(&home.workspace);
    let imported = report_of(&second, &["import", text(&file)]);
    assert_eq!(imported["findings"], json!([]));
    let again = store(&second, &["export"]);
    assert_eq!(again.stdout, out.stdout);
    let rebuilt = report_of(&second, &["rebuild"]);
    assert_eq!(rebuilt["streams"], imported["streams"]);
    turn(&second.start(), &thread);

    // Existing threads are listed, and the exit code is 1.
    let repeated = store(&second, &["import", text(&file)]);
    assert_eq!(repeated.status.code(), Some(1));
    assert!(stderr(&repeated).contains("exists already"));
}

/// Changes the recorded input of an export's only turn.
fn changed(export: &str, change: impl Fn(&mut Value)) -> String {
    let lines = export.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        match line.pointer_mut("/record/event") {
            Some(event) if event["type"] == "input.message" => change(event),
            _ => {}
        }
        line.to_string() + "\n"
    });
    lines.collect()
}

#[test]
fn unreadable_export_is_not_imported() {
    let (home, _) = used();
    let out = store(&home, &["export"]);
    let export = String::from_utf8(out.stdout).unwrap();
    let controls = "/data/message/controls";
    for (place, value, named) in [
        ("/hints", json!({"turn_wishes": {}}), "turn_wishes"),
        (
            "/hints",
            json!({"turn_environment": {}}),
            "turn_environment",
        ),
        ("/turn/denied_hosts", json!([]), "denied_hosts"),
        ("/turn/environment/write", json!("no"), "a boolean"),
        ("/turn/environment/network", json!(1), "network"),
        ("/turn/allowed_tools", json!(7), "sequence"),
        ("/turn/approve_all", json!(1), "a boolean"),
        ("/turn/labels", json!({"tenant": 1}), "tenant"),
        ("/sandbox", json!("off"), "sandbox"),
    ] {
        let (parent, name) = place.rsplit_once('/').unwrap();
        let parent = format!("{controls}{parent}");
        let mut count = std::cell::Cell::new(0);
        let file = home.path().join("changed.jsonl");
        let text_of = changed(&export, |event| {
            count.set(count.get() + 1);
            event.pointer_mut(&parent).unwrap()[name] = value.clone();
        });
        assert_eq!(*count.get_mut(), 1, "one input was changed");
        fs::write(&file, text_of).unwrap();
        let second = Home::new();
        refused(
            &second,
            &["import", text(&file)],
            &["line", "input.message", named],
        );
        let listed = second.start().client.get("/v1/threads").expect(200);
        assert_eq!(listed, json!([]), "{place}: nothing was taken in");
    }
}

#[test]
fn truncated_export_leaves_no_data() {
    let (home, _) = used();
    let export = store(&home, &["export"]).stdout;
    let file = home.path().join("cut.jsonl");
    fs::write(&file, &export[..export.len() - 9]).unwrap();
    let second = Home::new();
    let words = ["ends in the middle of line", "nothing was imported"];
    refused(&second, &["import", text(&file)], &words);
    assert!(!second.data().exists());
    // An existing empty directory is not removed.
    fs::create_dir(second.data()).unwrap();
    refused(&second, &["import", text(&file)], &words);
    assert_eq!(fs::read_dir(second.data()).unwrap().count(), 0);
    // An existing store is not changed either.
    refused(&home, &["import", text(&file)], &words);
    assert_eq!(store(&home, &["export"]).stdout, export);
}

#[test]
fn backup_inside_the_data_directory_is_refused() {
    let (home, _) = used();
    std::os::unix::fs::symlink(home.data(), home.path().join("link")).unwrap();
    for inside in [
        home.data().join("backup"),
        home.data().join("a/../b"),
        home.path().join("link/backup"),
    ] {
        let words = ["is inside the data directory", "name a directory outside"];
        refused(&home, &["backup", text(&inside)], &words);
    }
    assert!(!home.data().join("backup").exists());
}

#[test]
fn damage_is_reported_with_the_recovery_command() {
    let (home, _) = used();
    {
        let database = rusqlite::Connection::open(home.data().join("windlass.db")).unwrap();
        let change = "UPDATE records SET chain = zeroblob(32) WHERE position = 2";
        assert_eq!(database.execute(change, []).unwrap(), 1);
    }
    let out = store(&home, &["verify"]);
    assert_eq!(out.status.code(), Some(1));
    let complaint = stderr(&out);
    assert!(complaint.contains("record 2"), "{complaint}");
    for command in ["store export", "store rebuild", "store restore"] {
        assert!(complaint.contains(command), "{complaint}");
    }
    let out = store(&home, &["export", "saved.jsonl"]);
    assert_eq!(out.status.code(), Some(1));
    let saved = fs::read_to_string(home.path().join("saved.jsonl")).unwrap();
    assert!(saved.contains("\"damaged\""), "{saved}");

    let database = home.data().join("windlass.db");
    let length = fs::metadata(&database).unwrap().len();
    let file = fs::OpenOptions::new().write(true).open(&database).unwrap();
    file.set_len(length / 2).unwrap();
    let out = home.command(&["serve", "--port", "0"]).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    let complaint = stderr(&out);
    for command in ["windlass store export", "windlass store restore"] {
        assert!(complaint.contains(command), "{complaint}");
    }
}

#[test]
fn compact_reports_both_sizes() {
    let (home, thread) = used();
    let report = report_of(&home, &["compact"]);
    let (before, after) = (
        report["bytes_before"].as_u64(),
        report["bytes_after"].as_u64(),
    );
    assert!(after.unwrap() > 0 && after <= before, "{report}");
    assert_eq!(report_of(&home, &["verify"])["findings"], json!([]));
    turn(&home.start(), &thread);
}
