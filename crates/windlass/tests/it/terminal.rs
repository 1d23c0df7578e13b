//! Interactive commands: `demo`, `chat`, `doctor`, `completions`.

use std::io::Write;
use std::process::Stdio;

use rustix::termios::{LocalModes, tcgetattr};
use serde_json::Value;

use crate::run::{RunFixture, text, windlass};
use crate::support::{Sandbox, Terminal};

#[test]
fn killed_demonstration_resumes() {
    if Sandbox::all("killed_demonstration_resumes").is_empty() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join(".config/windlass");
    std::fs::create_dir_all(&directory).unwrap();
    // The output is the same whatever the user's configuration.
    std::fs::write(directory.join("windlass.toml"), "nonsense = 1").unwrap();
    let out = windlass(&["demo"], &[("HOME", home.path().to_str().unwrap())]);
    let (stdout, stderr) = (text(&out.stdout), text(&out.stderr));
    assert!(out.status.success(), "{stderr}");
    assert!(stdout.contains("outcome is unknown"), "{stdout}");
    // The answer reports the last count, and the count did not continue afterwards.
    let came = stdout.rsplit_once("The count reached ").unwrap().1;
    let came: usize = came.trim_end().trim_end_matches('.').parse().unwrap();
    assert!((4..12).contains(&came), "{stdout}");
    let proof = format!("the file had {came} lines at the kill and has {came} now");
    assert!(stderr.contains(&proof), "{stderr}");
}

#[test]
fn demonstration_restores_the_terminal() {
    if Sandbox::all("demonstration_restores_the_terminal").is_empty() {
        return;
    }
    let fixture = RunFixture::new();
    let mut terminal = Terminal::start(&mut fixture.command(&["demo"], &[]));
    terminal.until(&["the turn ended once"]);
    assert!(terminal.child.wait().unwrap().success());
    let modes = tcgetattr(&terminal.theirs).unwrap();
    assert!(modes.local_modes.contains(LocalModes::ECHO));
}

/// Types these lines in a chat; returns the answers and the messages.
fn chat(lines: &str) -> (String, String) {
    let fixture = RunFixture::new();
    let mut command = fixture.command(&["chat", "--model", "sim"], &[]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(lines.as_bytes()).unwrap();
    drop(stdin);
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{out:?}");
    (text(&out.stdout).to_owned(), text(&out.stderr).to_owned())
}

#[test]
fn chat_accepts_models_like_run_and_names_the_answering_model() {
    let (stdout, stderr) =
        chat("/model acme/x\n/model sim/other\n/model gpt-4o\nfirst\n/model sim\n/new second\n");
    assert_eq!(stdout, "Echo: first\nEcho: second\n");
    assert!(stderr.contains("unknown provider `acme`"), "{stderr}");
    assert!(stderr.contains("there is no model `sim/other`"), "{stderr}");
    assert!(stderr.contains("did you mean openai/gpt-4o?"), "{stderr}");
    for refused in ["acme/x", "sim/other", "gpt-4o"] {
        assert!(!stderr.contains(&format!("{refused} is used")), "{stderr}");
    }
    assert!(stderr.contains("sim is used from now on\n"), "{stderr}");
}

#[test]
fn empty_lists_are_reported() {
    let fixture = RunFixture::new();
    for (arguments, words) in [
        (&["token", "list"][..], "there are no tokens yet"),
        (&["config", "trust", "--list"], "no file is trusted yet"),
        // The output contains only characters of the locale.
        (&["threads", "list"], "`windlass run \"...\"` begins one"),
    ] {
        let out = fixture.run(arguments, &[("LANG", "C")]);
        assert!(out.status.success(), "{out:?}");
        assert_eq!(text(&out.stdout), "");
        assert!(text(&out.stderr).contains(words), "{out:?}");
    }
}

#[test]
fn missing_directory_is_reported_with_its_flag() {
    for flag in ["--cwd", "--workspace"] {
        let out = windlass(&["run", flag, "/does/not/exist", "x"], &[]);
        let hint = format!("name another with {flag}");
        assert!(text(&out.stderr).contains(&hint), "{out:?}");
        assert_eq!(out.status.code(), Some(2));
    }
}

#[test]
fn missing_thread_needs_no_confirmation_and_a_no_is_not_an_error() {
    let fixture = RunFixture::new();
    let run = fixture.run(&["run", "--model", "sim", "hello"], &[]);
    assert!(run.status.success(), "{run:?}");
    let listed = fixture.run(&["threads", "list", "--json"], &[]);
    let thread: Value = serde_json::from_str(text(&listed.stdout)).unwrap();
    let id = thread["id"].as_str().unwrap();
    let none = "thr_00000000000000000000000000000000";
    for missing in ["abcdef", none] {
        let command = &mut fixture.command(&["threads", "delete", missing], &[]);
        let (seen, status) = Terminal::start(command).rest();
        assert_eq!(status.code(), Some(2), "{seen}");
        assert!(seen.contains(missing) && !seen.contains("[y/N]"), "{seen}");
    }
    let command = &mut fixture.command(&["threads", "delete", id], &[]);
    let mut terminal = Terminal::start(command);
    terminal.until(&["[y/N] "]);
    terminal.type_in("n");
    let (seen, status) = terminal.rest();
    assert_eq!(status.code(), Some(1), "{seen}");
    assert!(seen.contains("nothing was removed"), "{seen}");
    assert!(!seen.contains("error"), "{seen}");
    let shown = fixture.run(&["threads", "show", id], &[]);
    assert!(shown.status.success(), "{shown:?}");
}

#[test]
fn chat_uses_one_thread_and_excludes_side_questions() {
    let fixture = RunFixture::new();
    let mut child = fixture
        .command(&["chat", "--model", "sim"], &[])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = b"first\n/nonsense\n\nsecond\n/undo\nthird\n/btw aside\n/quit\nnever\n";
    child.stdin.take().unwrap().write_all(lines).unwrap();
    let out = child.wait_with_output().unwrap();
    let (stdout, stderr) = (text(&out.stdout), text(&out.stderr));
    assert!(out.status.success(), "{stderr}");
    assert_eq!(
        stdout,
        "Echo: first\nEcho: second\nEcho: third\nEcho: aside\n"
    );
    assert!(
        stderr.contains("/nonsense") && stderr.contains("undone: second"),
        "{stderr}"
    );
    // The newest thread is not the one of `/btw`.
    let next = fixture.run(&["run", "--continue", "--model", "sim", "fourth"], &[]);
    assert!(next.status.success());
    let id = stderr.trim_end().rsplit(' ').next().unwrap();
    let shown = fixture.run(&["threads", "show", id], &[]);
    let shown = text(&shown.stdout);
    for (part, is_there) in [
        ("first", true),
        ("third", true),
        ("fourth", true),
        ("second", false),
        ("aside", false),
    ] {
        assert_eq!(shown.contains(part), is_there, "{part}: {shown}");
    }
}

#[test]
fn doctor_checks_everything_and_suggests_fixes() {
    let out = windlass(&["doctor", "--json"], &[]);
    let findings = text(&out.stdout).lines();
    let findings: Vec<Value> = findings
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |about: &str| findings.iter().find(|it| it["about"] == about).unwrap();
    for about in [
        "version",
        "configuration",
        "bubblewrap",
        "landlock",
        "model",
        "data",
        "daemon",
    ] {
        assert!(!of(about)["text"].as_str().unwrap().is_empty(), "{about}");
    }
    assert_eq!(of("model")["status"], "lacking");
    assert!(
        of("model")["advice"]
            .as_str()
            .unwrap()
            .contains("ANTHROPIC_API_KEY")
    );
    let unset = windlass(&["doctor"], &[("WINDLASS_MODEL", "")]);
    assert!(
        !text(&unset.stdout).contains("unknown provider"),
        "{unset:?}"
    );
    let broken = windlass(&["doctor"], &[("WINDLASS_MODEL", "acme/x")]);
    assert_eq!(broken.status.code(), Some(1));
    assert!(text(&broken.stdout).contains("unknown provider `acme`"));
}

#[test]
fn doctor_reports_problems_of_the_home() {
    let fixture = RunFixture::new();
    std::fs::write(fixture.workspace().join("file"), "").unwrap();
    let file = fixture.workspace().join("file").display().to_string();
    for (home, words) in [
        (None, &["HOME is not set", "there is no data directory"][..]),
        (Some(""), &["HOME is not set", "there is no data directory"]),
        (
            Some("some/where"),
            &["HOME is some/where", "begin with `/`", "no data directory"],
        ),
        (Some(&file), &["is not a directory", "cannot be created"]),
    ] {
        let mut command = fixture.command(&["doctor"], &[]);
        command.env_remove("WINDLASS_DATA");
        if let Some(home) = home {
            command.env("HOME", home);
        }
        let out = command.output().unwrap();
        let stdout = text(&out.stdout);
        for word in words {
            assert!(stdout.contains(word), "{word}: {stdout}");
        }
        assert_eq!(text(&out.stderr), "", "{stdout}");
        assert_eq!(out.status.code(), Some(1), "{stdout}");
    }
    // With an explicit data directory, no home is needed.
    let named = fixture.run(&["doctor"], &[]);
    assert!(text(&named.stdout).contains("MB left"), "{named:?}");
}

#[test]
fn shell_completions_are_generated() {
    for shell in ["bash", "zsh", "fish"] {
        let out = windlass(&["completions", shell], &[]);
        assert!(text(&out.stdout).contains("doctor"), "{shell}");
    }
}

#[test]
fn invalid_arguments_exit_with_2_and_create_nothing() {
    let fixture = RunFixture::new();
    let none = fixture.run(&["threads", "list"], &[]);
    assert!(none.status.success() && text(&none.stderr).contains("no threads yet"));
    for arguments in [
        &["threads", "show", "abc"][..],
        &["run", "--resume", "nothing", "x"],
        &[
            "run",
            "--resume",
            "thr_00000000000000000000000000000000",
            "x",
        ],
        &["run", "--continue", "x"],
        &["run", "--backend", "unknown", "x"],
        &["run", "--cwd", "/does/not/exist", "x"],
        &["run", "--continue", "--resume", "abcd", "x"],
        &["completions", "cobol"],
        &["nonsense"],
    ] {
        let out = fixture.run(arguments, &[("WINDLASS_MODEL", "sim")]);
        assert_eq!(out.status.code(), Some(2), "{arguments:?}: {out:?}");
        assert!(!text(&out.stderr).is_empty(), "{arguments:?}");
        assert_eq!(text(&out.stdout), "", "{arguments:?}");
    }
}
