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
fn done(home: &Home, arguments: &[&str]) -> (String, String) {
    let out = output(home, arguments);
    let told = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.success(), "{arguments:?}: {told}");
    (String::from_utf8(out.stdout).unwrap(), told)
}

#[track_caller]
fn json(home: &Home, arguments: &[&str]) -> Vec<Value> {
    let (said, _) = done(home, &[arguments, &["--json"]].concat());
    let lines = said.lines().map(serde_json::from_str);
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
fn a_task_that_is_queued_without_a_daemon_waits_for_one() {
    let mut home = Home::new();
    let (none, told) = done(&home, &["tasks", "list"]);
    assert_eq!(none, "");
    assert!(told.contains("no tasks yet"), "{told}");
    assert!(!home.data().exists());

    // The command that queues a task does not need the daemon's model.
    let model = std::mem::take(&mut home.variables);
    let (id, told) = done(&home, &["tasks", "add", "first words"]);
    let id = id.trim_end();
    assert!(
        told.contains(UNATTENDED) && told.contains("`windlass serve`"),
        "{told}"
    );
    assert!(!told.contains("demonstration"), "{told}");
    home.variables = model;
    let (list, told) = done(&home, &["tasks", "list"]);
    assert!(list.contains(end(id)) && list.contains("queued"), "{list}");
    assert!(told.contains(UNATTENDED), "{told}");
    let (shown, _) = done(&home, &["tasks", "show", end(id)]);
    assert!(shown.contains("> first words"), "{shown}");
    let (second, _) = done(&home, &["tasks", "add", "second"]);
    let (_, told) = done(&home, &["tasks", "cancel", end(second.trim_end())]);
    assert!(told.contains("is canceled"), "{told}");
    let canceled = json(&home, &["tasks", "list", "--status", "canceled,failed"]);
    assert_eq!(canceled.len(), 1);
    assert_eq!(canceled[0]["id"], second.trim_end());

    let _daemon = home.start_with(&[]);
    let task = ended(&home, end(id));
    assert_eq!(
        (&task["status"], &task["model"]),
        (&"completed".into(), &"llmsim-model".into())
    );
    let (shown, told) = done(&home, &["tasks", "show", end(id)]);
    assert!(shown.contains("Echo: first words"), "{shown}");
    assert!(shown.contains(&text(&task["thread_id"])), "{shown}");
    assert_eq!(told, "");
    let (_, told) = done(&home, &["tasks", "cancel", end(id)]);
    assert!(told.contains("has already ended: completed"), "{told}");
    let (thread, _) = done(&home, &["threads", "show", &text(&task["thread_id"])]);
    assert!(thread.contains("> first words"), "{thread}");
    let (_, told) = done(&home, &["tasks", "add", "--cwd", ".", "third"]);
    assert_eq!(told, "");
}

#[test]
fn a_task_works_where_it_was_typed_or_is_refused() {
    let home = Home::new();
    let (inner, outer) = (home.workspace.join("inner"), home.path().join("outer"));
    std::fs::create_dir(&inner).unwrap();
    std::fs::create_dir(&outer).unwrap();
    let add = ["tasks", "add", "look around"];
    let queued = |directory: &Path| {
        let out = output_in(&home, directory, &add);
        let told = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.success(), "{told}");
        let where_to_serve = format!("runs in {} or a parent directory", directory.display());
        assert!(told.contains(&where_to_serve), "{told}");
        String::from_utf8(out.stdout).unwrap().trim_end().to_owned()
    };
    let (here, elsewhere) = (queued(&inner), queued(&outer));
    let automation = ["automations", "add", "Watch", "look", "--rule", RULE];
    let out = output_in(&home, &inner, &automation);
    let told = String::from_utf8(out.stderr).unwrap();
    assert!(told.contains(&*inner.to_string_lossy()), "{told}");

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
        let told = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{told}");
        for part in [&*outer.to_string_lossy(), "--cwd", "--workspace"] {
            assert!(told.contains(part), "{told}");
        }
        let workspace = home.workspace.display().to_string();
        assert!(told.contains(&workspace), "{told}");
    }
    drop(daemon);
}

/// Tests an automation from its creation to its removal.
fn kept_in_order(home: &Home, is_attended: bool) {
    let add = [
        "automations",
        "add",
        "Nightly",
        "look at it",
        "--rule",
        RULE,
    ];
    let (id, told) = done(home, &add);
    let id = id.trim_end();
    assert!(told.contains("runs next at"), "{told}");
    assert_eq!(told.contains(UNATTENDED), !is_attended, "{told}");
    let (list, _) = done(home, &["automations", "list"]);
    assert!(list.contains(end(id)) && list.contains("Nightly"), "{list}");
    let (shown, _) = done(home, &["automations", "show", end(id)]);
    assert!(
        shown.contains(RULE) && shown.contains("> look at it"),
        "{shown}"
    );
    let (_, told) = done(home, &["automations", "pause", end(id)]);
    assert!(told.contains("is paused"), "{told}");
    let paused = json(home, &["automations", "list"]);
    assert_eq!(paused[0]["status"], "paused");
    let (_, told) = done(home, &["automations", "runs", end(id)]);
    assert!(told.contains("not run yet"), "{told}");
    let (task, told) = done(home, &["automations", "run", end(id)]);
    let task = task.trim_end();
    assert_eq!(told.contains(UNATTENDED), !is_attended, "{told}");
    if is_attended {
        assert_eq!(ended(home, task)["status"], "completed");
    }
    let (runs, _) = done(home, &["automations", "runs", end(id)]);
    assert!(runs.contains(end(task)), "{runs}");
    done(home, &["automations", "resume", end(id)]);
    assert_eq!(
        json(home, &["automations", "show", id])[0]["status"],
        "active"
    );

    let unasked = output(home, &["automations", "delete", end(id)]);
    assert_eq!(unasked.status.code(), Some(2), "nobody could be asked");
    done(home, &["automations", "delete", "--yes", end(id)]);
    assert_eq!(json(home, &["automations", "list"]), [Value::Null; 0]);
    // Queued tasks remain.
    assert_eq!(json(home, &["tasks", "show", end(task)]).len(), 1);
}

#[test]
fn an_automation_is_made_listed_paused_run_and_removed() {
    kept_in_order(&Home::new(), false);
    let home = Home::new();
    let _daemon = home.start_with(&[]);
    kept_in_order(&home, true);
}

#[test]
fn nothing_acts_on_a_terminal_and_lists_fit_it() {
    let home = Home::new();
    let evil = format!("red \u{1b}[31m and a bell \u{7} {}", "long ".repeat(40));
    let (id, _) = done(&home, &["tasks", "add", &evil]);
    let rule = ["--rule", RULE];
    let name = "name ".repeat(20);
    let add = [&["automations", "add", name.trim_end(), &evil][..], &rule].concat();
    let (automation, _) = done(&home, &add);
    done(&home, &["automations", "run", automation.trim_end()]);
    for words in [
        &["tasks", "list"][..],
        &["tasks", "show", id.trim_end()],
        &["automations", "list"],
        &["automations", "show", automation.trim_end()],
        &["automations", "runs", automation.trim_end()],
    ] {
        let (said, _) = done(&home, words);
        assert!(!said.contains(['\u{1b}', '\u{7}']), "{words:?}: {said}");
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
fn what_cannot_be_is_told_with_status_2() {
    let home = Home::new();
    let add = ["automations", "add", "x", "y", "--rule"];
    for (words, why) in [
        (&["tasks", "show", "12345678"][..], "no tasks in"),
        (&["tasks", "add", " "], "the prompt is empty"),
        (
            &["tasks", "add", "--cwd", "/does/not/exist", "x"],
            "cannot work in",
        ),
        (&["tasks", "add", "--backend", "nobody", "x"], "nobody"),
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
        let told = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{words:?}: {told}");
        assert!(told.contains(why), "{words:?}: {told}");
        assert_eq!(String::from_utf8(out.stdout).unwrap(), "", "{words:?}");
    }
}

#[test]
fn a_chat_keeps_the_queue_and_says_that_it_starts_no_tasks() {
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
    let told = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.success(), "{told}");
    assert!(
        told.contains("starts no tasks") && told.contains("when `windlass serve` runs"),
        "{told}"
    );
    drop(chat.stdin.take());
    assert!(chat.wait().unwrap().success());
}
