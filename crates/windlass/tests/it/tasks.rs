//! `windlass tasks` and `windlass automations`, with and without a running daemon.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Home, Terminal, text};

/// Turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(60);
const RULE: &str = "FREQ=HOURLY;INTERVAL=6";
const UNATTENDED: &str = "no daemon runs on this data";

/// Runs a command in the daemon's workspace.
fn output(home: &Home, arguments: &[&str]) -> Output {
    output_in(home, &home.workspace, arguments)
}

fn output_in(home: &Home, directory: &Path, arguments: &[&str]) -> Output {
    let mut command = home.command(arguments);
    command.current_dir(directory).output().unwrap()
}

/// Runs a command that must succeed, and returns its stdout and stderr.
#[track_caller]
fn succeed(home: &Home, arguments: &[&str]) -> (String, String) {
    let out = output(home, arguments);
    let stderr = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.success(), "{arguments:?}: {stderr}");
    (String::from_utf8(out.stdout).unwrap(), stderr)
}

#[track_caller]
fn json(home: &Home, arguments: &[&str]) -> Vec<Value> {
    let (stdout, _) = succeed(home, &[arguments, &["--json"]].concat());
    let lines = stdout.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

fn end(id: &str) -> &str {
    &id[id.len() - 8..]
}

/// Waits until a task has ended.
#[track_caller]
fn ended(home: &Home, id: &str) -> Value {
    let since = Instant::now();
    loop {
        let task = json(home, &["tasks", "show", id]).remove(0);
        if task["ended_at"].is_string() {
            return task;
        }
        assert!(since.elapsed() < PATIENCE, "{task}");
    }
}

#[test]
fn task_queued_without_a_daemon_waits_for_one() {
    let mut home = Home::new();
    let (none, stderr) = succeed(&home, &["tasks", "list"]);
    assert_eq!(none, "");
    assert!(stderr.contains("no tasks yet"), "{stderr}");
    assert!(!home.data().exists());

    // The command that queues a task does not need the daemon's model.
    let model = std::mem::take(&mut home.variables);
    let (id, stderr) = succeed(&home, &["tasks", "add", "first words"]);
    let id = id.trim_end();
    assert!(
        stderr.contains(UNATTENDED) && stderr.contains("`windlass serve`"),
        "{stderr}"
    );
    assert!(!stderr.contains("demonstration"), "{stderr}");
    home.variables = model;
    let (list, stderr) = succeed(&home, &["tasks", "list"]);
    assert!(list.contains(end(id)) && list.contains("queued"), "{list}");
    assert!(stderr.contains(UNATTENDED), "{stderr}");
    let (shown, _) = succeed(&home, &["tasks", "show", end(id)]);
    assert!(shown.contains("> first words"), "{shown}");
    let (second, _) = succeed(&home, &["tasks", "add", "second"]);
    let (_, stderr) = succeed(&home, &["tasks", "cancel", end(second.trim_end())]);
    assert!(stderr.contains("is canceled"), "{stderr}");
    let canceled = json(&home, &["tasks", "list", "--status", "canceled,failed"]);
    assert_eq!(canceled.len(), 1);
    assert_eq!(canceled[0]["id"], second.trim_end());

    let _daemon = home.start_with(&[]);
    let task = ended(&home, end(id));
    assert_eq!(
        (&task["status"], &task["model"]),
        (&"completed".into(), &"llmsim-model".into())
    );
    let (shown, stderr) = succeed(&home, &["tasks", "show", end(id)]);
    assert!(shown.contains("Echo: first words"), "{shown}");
    assert!(shown.contains(&text(&task["thread_id"])), "{shown}");
    assert_eq!(stderr, "");
    let (_, stderr) = succeed(&home, &["tasks", "cancel", end(id)]);
    assert!(stderr.contains("has already ended: completed"), "{stderr}");
    let (thread, _) = succeed(&home, &["threads", "show", &text(&task["thread_id"])]);
    assert!(thread.contains("> first words"), "{thread}");
    let (_, stderr) = succeed(&home, &["tasks", "add", "--cwd", ".", "third"]);
    assert_eq!(stderr, "");
}

#[test]
fn task_uses_the_current_directory_or_is_refused() {
    let home = Home::new();
    let (inner, outer) = (home.workspace.join("inner"), home.path().join("outer"));
    std::fs::create_dir(&inner).unwrap();
    std::fs::create_dir(&outer).unwrap();
    let add = ["tasks", "add", "look around"];
    let queued = |directory: &Path| {
        let out = output_in(&home, directory, &add);
        let stderr = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.success(), "{stderr}");
        let where_to_serve = format!("runs in {} or a parent directory", directory.display());
        assert!(stderr.contains(&where_to_serve), "{stderr}");
        String::from_utf8(out.stdout).unwrap().trim_end().to_owned()
    };
    let (here, elsewhere) = (queued(&inner), queued(&outer));
    let automation = ["automations", "add", "Watch", "look", "--rule", RULE];
    let out = output_in(&home, &inner, &automation);
    let stderr = String::from_utf8(out.stderr).unwrap();
    assert!(stderr.contains(&*inner.to_string_lossy()), "{stderr}");

    let daemon = home.start_with(&[]);
    let task = ended(&home, &here);
    assert_eq!(task["status"], "completed", "{task}");
    assert_eq!(text(&task["workspace"]), inner.to_string_lossy());
    let thread = json(&home, &["threads", "list"]).remove(0);
    assert_eq!(text(&thread["workspace"]), inner.to_string_lossy());
    let task = ended(&home, &elsewhere);
    let why = text(&task["error"]);
    assert_eq!(task["status"], "failed", "{task}");
    assert!(
        why.contains(&*outer.to_string_lossy()) && why.contains("--workspace"),
        "{why}"
    );
    let known = json(&home, &["automations", "list"]).remove(0);
    assert_eq!(known["cwds"][0], *inner.to_string_lossy());

    // A running daemon that cannot work in the directory rejects the job immediately.
    for words in [&add[..], &automation] {
        let out = output_in(&home, &outer, words);
        let stderr = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{stderr}");
        for part in [&*outer.to_string_lossy(), "--cwd", "--workspace"] {
            assert!(stderr.contains(part), "{stderr}");
        }
        let workspace = home.workspace.display().to_string();
        assert!(stderr.contains(&workspace), "{stderr}");
    }
    drop(daemon);
}

/// Tests an automation from its creation to its removal.
fn check_automation_lifecycle(home: &Home, is_attended: bool) {
    let add = [
        "automations",
        "add",
        "Nightly",
        "look at it",
        "--rule",
        RULE,
    ];
    let (id, stderr) = succeed(home, &add);
    let id = id.trim_end();
    assert!(stderr.contains("runs next at"), "{stderr}");
    assert_eq!(stderr.contains(UNATTENDED), !is_attended, "{stderr}");
    let (list, _) = succeed(home, &["automations", "list"]);
    assert!(list.contains(end(id)) && list.contains("Nightly"), "{list}");
    let (shown, _) = succeed(home, &["automations", "show", end(id)]);
    assert!(
        shown.contains(RULE) && shown.contains("> look at it"),
        "{shown}"
    );
    let (_, stderr) = succeed(home, &["automations", "pause", end(id)]);
    assert!(stderr.contains("is paused"), "{stderr}");
    let paused = json(home, &["automations", "list"]);
    assert_eq!(paused[0]["status"], "paused");
    let (_, stderr) = succeed(home, &["automations", "runs", end(id)]);
    assert!(stderr.contains("not run yet"), "{stderr}");
    let (task, stderr) = succeed(home, &["automations", "run", end(id)]);
    let task = task.trim_end();
    assert_eq!(stderr.contains(UNATTENDED), !is_attended, "{stderr}");
    if is_attended {
        assert_eq!(ended(home, task)["status"], "completed");
    }
    let (runs, _) = succeed(home, &["automations", "runs", end(id)]);
    assert!(runs.contains(end(task)), "{runs}");
    succeed(home, &["automations", "resume", end(id)]);
    assert_eq!(
        json(home, &["automations", "show", id])[0]["status"],
        "active"
    );

    let unconfirmed = output(home, &["automations", "delete", end(id)]);
    assert_eq!(
        unconfirmed.status.code(),
        Some(2),
        "there is no terminal to ask at"
    );
    succeed(home, &["automations", "delete", "--yes", end(id)]);
    assert_eq!(json(home, &["automations", "list"]), [Value::Null; 0]);
    // Queued tasks remain.
    assert_eq!(json(home, &["tasks", "show", end(task)]).len(), 1);
}

#[test]
fn automation_is_created_listed_paused_run_and_removed() {
    check_automation_lifecycle(&Home::new(), false);
    let home = Home::new();
    let _daemon = home.start_with(&[]);
    check_automation_lifecycle(&home, true);
}

#[test]
fn control_characters_are_escaped_and_lists_fit_the_terminal() {
    let home = Home::new();
    let evil = format!("red \u{1b}[31m and a bell \u{7} {}", "long ".repeat(40));
    let (id, _) = succeed(&home, &["tasks", "add", &evil]);
    let rule = ["--rule", RULE];
    let name = "name ".repeat(20);
    let add = [&["automations", "add", name.trim_end(), &evil][..], &rule].concat();
    let (automation, _) = succeed(&home, &add);
    succeed(&home, &["automations", "run", automation.trim_end()]);
    for words in [
        &["tasks", "list"][..],
        &["tasks", "show", id.trim_end()],
        &["automations", "list"],
        &["automations", "show", automation.trim_end()],
        &["automations", "runs", automation.trim_end()],
    ] {
        let (stdout, _) = succeed(&home, words);
        assert!(!stdout.contains(['\u{1b}', '\u{7}']), "{words:?}: {stdout}");
        for line in json(&home, words) {
            let line = line.to_string();
            assert!(!line.contains(['\u{1b}', '\u{7}']), "{line}");
        }
        if words[1] == "show" {
            continue;
        }
        let mut command = home.command(words);
        command.env("NO_COLOR", "1");
        let (shown, _) = Terminal::of_width(80, &mut command).rest();
        for line in shown.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}

#[test]
fn invalid_task_exits_with_2() {
    let home = Home::new();
    let add = ["automations", "add", "x", "y", "--rule"];
    for (words, why) in [
        (&["tasks", "show", "12345678"][..], "no tasks in"),
        (&["tasks", "add", " "], "the prompt is empty"),
        (
            &["tasks", "add", "--cwd", "/does/not/exist", "x"],
            "cannot work in",
        ),
        (&["tasks", "add", "--backend", "acme", "x"], "acme"),
        (
            &["tasks", "show", "12345678"],
            "there is no task `12345678`",
        ),
        (
            &["tasks", "cancel", "task_00000000000000000000000000000000"],
            "task_not_found",
        ),
        (&["tasks", "show", "../threads"], "is not an ID"),
        (&["tasks", "list", "--status", "done"], "queued"),
        (
            &["automations", "pause", "12345678"],
            "there is no automation",
        ),
        (&[&add[..], &["FREQ=YEARLY"]].concat(), "invalid_schedule"),
    ] {
        let out = output(&home, words);
        let stderr = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{words:?}: {stderr}");
        assert!(stderr.contains(why), "{words:?}: {stderr}");
        assert_eq!(String::from_utf8(out.stdout).unwrap(), "", "{words:?}");
    }
}

#[test]
fn chat_preserves_the_queue_and_starts_no_tasks() {
    let home = Home::new();
    let mut chat = home.command(&["chat"]);
    let mut chat = chat
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let since = Instant::now();
    while !home.data().join("daemon.sock").exists() {
        assert!(since.elapsed() < PATIENCE, "no daemon came");
        std::thread::yield_now();
    }
    let out = output(&home, &["tasks", "add", "x"]);
    let stderr = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.success(), "{stderr}");
    assert!(
        stderr.contains("starts no tasks") && stderr.contains("when `windlass serve` runs"),
        "{stderr}"
    );
    drop(chat.stdin.take());
    assert!(chat.wait().unwrap().success());
}
