//! Git inspections by the daemon never execute programs that a repository configures.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_testkit::skipped;

use crate::support::{Daemon, Home, Sandbox, ScriptedModel, text};

/// A program that leaves a mark outside the workspace and then blocks its caller: in a sandbox where it cannot leave a mark, the delay reveals it.
fn malicious_script(home: &Home) -> (String, std::path::PathBuf) {
    let mark = home.path().join("mark");
    let script = format!(
        "#!/bin/sh\nenv > \"{0}\"; touch \"{0}\"; touch \"$PWD/mark\"; sleep 600\n",
        mark.display()
    );
    (script, mark)
}

fn has_git(test: &str) -> bool {
    let has = Command::new("git").arg("--version").output().is_ok();
    if !has {
        skipped(test, "there is no git");
    }
    has
}

/// Runs a turn, and makes the daemon inspect the workspace in both ways.
fn attack(home: &Home, daemon: &Daemon) -> Value {
    let thread = daemon.thread(&json!({"auto_approve": true}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "do it");
    let end = events.until("turn.completed").pop().unwrap();
    assert_eq!(end.data["payload"]["turn"]["status"], "completed");
    let began = Instant::now();
    let status = daemon.client.get("/v1/workspace/status").expect(200);
    // Lists inspect in the background: the second list shows the findings of the first.
    let summary = loop {
        let list = daemon.client.get("/v1/threads/summary").expect(200);
        let unknown = list[0]["git_unknown"].as_str().unwrap_or_default();
        if !unknown.contains("not looked at yet") {
            break list[0].clone();
        }
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::yield_now();
    };
    assert_eq!(
        summary.get("git_unknown"),
        status.get("git_unknown"),
        "{summary}"
    );
    assert_eq!(
        (&summary["branch"], &summary["dirty"]),
        (&status["branch"], &status["dirty"])
    );
    for mark in [home.path().join("mark"), home.workspace.join("mark")] {
        assert!(!mark.exists(), "a program ran: {status}");
    }
    status
}

/// Proves that the trap works: an ordinary git invocation executes the program.
fn assert_trap_works(home: &Home, mark: &Path) {
    let mut git = Command::new("git")
        .arg("-C")
        .arg(&home.workspace)
        .arg("status")
        .env("HOME", home.path())
        .process_group(0)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while !mark.exists() && began.elapsed() < Duration::from_secs(60) {
        std::thread::yield_now();
    }
    let group = format!("-{}", git.id());
    let killed = Command::new("kill").args(["-KILL", "--", &group]).status();
    assert!(killed.unwrap().success() && git.wait().is_ok());
    assert!(mark.exists(), "the trap does not work");
}

const SETTING_TRAPS: [(&str, &str); 3] = [
    ("fsmonitor", "git config core.fsmonitor \"'$PWD/evil.sh'\""),
    (
        "a filter of a tracked file",
        "git config filter.x=y.clean \"'$PWD/evil.sh'\"; git config filter.x=y.required true; \
         echo 'f filter=x=y' > .git/info/attributes; echo 'g filter=x=y' > .gitattributes; printf g > f",
    ),
    (
        "a process that filters, in a file that is included",
        "printf '[filter \"z\"]\\n process = %s\\n' \"'$PWD/evil.sh'\" > more; git config include.path ../more; \
         echo 'f filter=z' > .gitattributes; printf g > f",
    ),
];

#[test]
fn program_in_git_configuration_is_not_executed() {
    let test = "git::program_in_git_configuration_is_not_executed";
    if !has_git(test) {
        return;
    }
    for sandbox in Sandbox::all(test) {
        for (name, trap) in SETTING_TRAPS {
            let command = format!(
                "set -e; git init -q -b main .; printf f > f; git add f; \
                 git -c user.name=n -c user.email=e commit -qm one; printf '%s' \"$EVIL\" > evil.sh; chmod +x evil.sh; {trap}"
            );
            let mut home = Home::new();
            let (script, mark) = malicious_script(&home);
            let command = command.replace("\"$EVIL\"", &format!("'{script}'"));
            let (model, requests) =
                ScriptedModel::calling(vec![("shell", json!({"command": command}))]);
            home.variables = Home::with_model(&model.url()).variables;
            let daemon = home.start_in(sandbox.name());
            let status = attack(&home, &daemon);
            assert_eq!(
                status["git_repo"],
                true,
                "{name}: {status} {:?}",
                requests.results()
            );
            assert_eq!(status["branch"], "main", "{name}: {status}");
            assert_eq!(status.get("git_unknown"), None, "{name}: {status}");
            assert_eq!(status["dirty"], true, "{name}: {status}");
            drop(daemon);
            assert_trap_works(&home, &mark);
        }
    }
}

#[test]
fn bare_repository_written_by_file_tools_has_no_effect() {
    let test = "git::bare_repository_written_by_file_tools_has_no_effect";
    if !has_git(test) {
        return;
    }
    for sandbox in Sandbox::all(test) {
        let mut home = Home::new();
        let (script, mark) = malicious_script(&home);
        let program = home.workspace.join("evil.sh");
        // It could be any program of the machine; a script makes its execution visible.
        std::fs::write(&program, script).unwrap();
        assert!(
            Command::new("chmod")
                .arg("+x")
                .arg(&program)
                .status()
                .unwrap()
                .success()
        );
        let config = format!(
            "[core]\n\trepositoryformatversion = 0\n\tworktree = {}\n\tfsmonitor = '{}'\n",
            home.workspace.display(),
            program.display()
        );
        let file = |path: &str, content: &str| ("write", json!({"path": path, "content": content}));
        let calls = vec![
            file("HEAD", "ref: refs/heads/main\n"),
            file("config", &config),
            file("objects/x", ""),
            file("refs/x", ""),
        ];
        let (model, _) = ScriptedModel::calling(calls);
        home.variables = Home::with_model(&model.url()).variables;
        let daemon = home.start_in(sandbox.name());
        let status = attack(&home, &daemon);
        assert_eq!(status["git_repo"], false, "{status}");
        let unknown = text(&status["git_unknown"]);
        assert!(unknown.contains("bare repository"), "{status}");
        drop(daemon);
        assert_trap_works(&home, &mark);
    }
}

#[test]
fn git_state_is_reported_unknown_without_a_sandbox() {
    let test = "git::git_state_is_reported_unknown_without_a_sandbox";
    if !has_git(test) {
        return;
    }
    let (model, _) = ScriptedModel::calling(Vec::new());
    let home = Home::with_model(&model.url());
    let made = Command::new("git")
        .args(["init", "-q"])
        .arg(&home.workspace)
        .status();
    assert!(made.unwrap().success());
    let daemon = home.start_in(Sandbox::None.name());
    let status = attack(&home, &daemon);
    assert_eq!(
        (&status["git_repo"], &status["branch"]),
        (&json!(false), &Value::Null)
    );
    let unknown = text(&status["git_unknown"]);
    assert!(
        unknown.contains("no sandbox") && unknown.contains("bubblewrap"),
        "{unknown}"
    );
}

#[test]
fn directory_without_repository_has_no_git_state() {
    let test = "git::directory_without_repository_has_no_git_state";
    if !has_git(test) {
        return;
    }
    for sandbox in Sandbox::all(test) {
        let (model, _) = ScriptedModel::calling(Vec::new());
        let home = Home::with_model(&model.url());
        let daemon = home.start_in(sandbox.name());
        let status = attack(&home, &daemon);
        assert_eq!(status["git_repo"], false);
        assert_eq!(status.get("git_unknown"), None, "{status}");
    }
}
