//! Three ways to back up a store while eight sessions are active. Each copy verifies, starts and continues the sessions.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::json;
use windlass_testkit::{Answer, skipped};

use crate::support::{Client, Daemon, Frame, Home, ScriptedModel, TOKEN, assert_sound};

const SESSIONS: usize = 8;
/// Turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(60);

fn model() -> ScriptedModel {
    ScriptedModel::answering(|_| Answer::text(&["Heave ", "ho."]))
}

/// Runs one turn to its end.
fn turn(client: &Client, thread: &str, seen: u64) -> u64 {
    let mut events = client.events(thread, seen);
    let body = json!({"prompt": "pull"});
    client.post(&format!("{thread}/turns"), &body).expect(201);
    events.until("turn.completed").last().unwrap().seq
}

/// Runs turns in eight sessions while `act` runs, and until each session has completed a turn after it.
fn with_eight_busy_sessions(daemon: &Daemon, act: impl FnOnce()) -> Vec<String> {
    let threads: Vec<String> = (0..SESSIONS).map(|_| daemon.thread(&json!({}))).collect();
    let is_done = AtomicBool::new(false);
    let (worked, works) = mpsc::channel();
    std::thread::scope(|scope| {
        for (number, thread) in threads.iter().enumerate() {
            let (worked, is_done) = (worked.clone(), &is_done);
            scope.spawn(move || {
                let mut seen = 0;
                while !is_done.load(Ordering::SeqCst) {
                    seen = turn(&daemon.client, thread, seen);
                    worked.send(number).unwrap();
                }
            });
        }
        let all_have_worked = || {
            let mut waiting: Vec<usize> = (0..SESSIONS).collect();
            while !waiting.is_empty() {
                let number = works.recv_timeout(PATIENCE).unwrap();
                waiting.retain(|waiting| *waiting != number);
            }
        };
        all_have_worked();
        act();
        while works.try_recv().is_ok() {}
        all_have_worked();
        is_done.store(true, Ordering::SeqCst);
    });
    threads
}

#[track_caller]
fn verifies(home: &Home, data: &str) {
    let verify = ["store", "verify", "--data", data];
    let out = home.command(&verify).output().unwrap();
    assert!(out.status.success(), "{out:?}");
}

/// Starts a daemon on a copy: each session is intact, its open turn completes, and the next turn runs.
fn continues(home: &Home, data: &Path, threads: &[String]) {
    let data = data.to_str().unwrap();
    verifies(home, data);
    let daemon = home.start_with(&["--token", TOKEN, "--data", data]);
    for thread in threads {
        let mut events = daemon.client.events(thread, 0);
        let mut frames = events.replay();
        let count = |frames: &[Frame], name: &str| {
            frames.iter().filter(|frame| frame.event == name).count()
        };
        assert!(count(&frames, "turn.started") > 0, "each had worked before");
        if count(&frames, "turn.started") > count(&frames, "turn.completed") {
            frames.extend(events.until("turn.completed"));
        }
        assert_sound(&frames, 0);
        turn(&daemon.client, thread, frames.last().unwrap().seq);
    }
    let listed = daemon.client.get("/v1/threads").expect(200);
    assert_eq!(listed.as_array().unwrap().len(), SESSIONS);
    verifies(home, data);
    daemon.stop();
    verifies(home, data);
}

/// Backs up a store in use and continues on the copy.
fn saved_by(save: impl FnOnce(&Home, &Path)) {
    let model = model();
    let home = Home::with_model(&model.url());
    let saved = home.path().join("saved");
    let daemon = home.start();
    let threads = with_eight_busy_sessions(&daemon, || save(&home, &saved));
    daemon.stop();
    continues(&home, &saved, &threads);
    continues(&home, &home.data(), &threads);
}

#[test]
fn backup_of_a_busy_daemon_starts_verifies_and_resumes() {
    saved_by(|home, to| {
        let backup = to.to_str().unwrap();
        let out = home.command(&["store", "backup", backup]).output().unwrap();
        assert!(out.status.success(), "{out:?}");
        // Without this file, the copy is an ordinary data directory.
        std::fs::remove_file(to.join("backup.json")).unwrap();
    });
}

#[test]
fn restored_backup_starts_verifies_and_resumes() {
    saved_by(|home, to| {
        let backup = home.path().join("backup");
        let backup = backup.to_str().unwrap();
        let out = home.command(&["store", "backup", backup]).output().unwrap();
        assert!(out.status.success(), "{out:?}");
        let to = to.to_str().unwrap();
        let restore = ["store", "restore", "--data", to, backup];
        let out = home.command(&restore).output().unwrap();
        assert!(out.status.success(), "{out:?}");
    });
}

#[test]
fn operator_token_is_unchanged_by_a_restore() {
    let home = Home::new();
    home.start_with(&[]).stop();
    let token = fs::read_to_string(home.data().join("token")).unwrap();
    let backup = home.path().join("backup");
    for arguments in [["store", "backup"], ["store", "restore"]] {
        let out = home.command(&arguments).arg(&backup).output().unwrap();
        assert!(out.status.success(), "{out:?}");
    }
    let current = fs::read_to_string(home.data().join("token")).unwrap();
    assert_eq!(current, token);
}

#[test]
fn backup_by_sqlite3_of_a_busy_daemon_starts_verifies_and_resumes() {
    if Command::new("sqlite3").arg("--version").output().is_err() {
        return skipped("a backup by sqlite3", "it is not installed");
    }
    saved_by(|home, to| {
        fs::create_dir(to).unwrap();
        let backup = format!(".backup '{}'", to.join("windlass.db").display());
        let out = Command::new("sqlite3")
            .arg(home.data().join("windlass.db"))
            .arg(backup)
            .output();
        let out = out.unwrap();
        assert!(out.status.success(), "{out:?}");
    });
}

#[test]
fn copied_directory_of_a_busy_daemon_starts_verifies_and_resumes() {
    saved_by(|home, to| {
        let copied = Command::new("cp")
            .arg("-r")
            .arg(home.data())
            .arg(to)
            .status();
        assert!(copied.unwrap().success());
    });
}
