//! Interactive commands: `demo`, `chat`, `doctor`, `completions`.

use std::io::Write;
use std::process::Stdio;

use rustix::termios::{LocalModes, tcgetattr};
use serde_json::Value;

use crate::run::{Place, text, windlass};
use crate::support::{Sandbox, Terminal};

#[test]
fn the_demonstration_is_killed_and_goes_on() {
    if Sandbox::all("the_demonstration_is_killed").is_empty() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join(".config/windlass");
    std::fs::create_dir_all(&directory).unwrap();
    // The output is the same whatever the user's configuration.
    std::fs::write(directory.join("windlass.toml"), "nonsense = 1").unwrap();
    let out = windlass(&["demo"], &[("HOME", home.path().to_str().unwrap())]);
    let (said, told) = (text(&out.stdout), text(&out.stderr));
    assert!(out.status.success(), "{told}");
    assert!(said.contains("outcome is unknown"), "{said}");
    // It reports how far the count got, and the count did not continue afterwards.
    let came = said.rsplit_once("The count reached ").unwrap().1;
    let came: usize = came.trim_end().trim_end_matches('.').parse().unwrap();
    assert!((4..12).contains(&came), "{said}");
    let proof = format!("the file had {came} lines at the kill and has {came} now");
    assert!(told.contains(&proof), "{told}");
}

#[test]
fn the_demonstration_leaves_the_terminal_as_it_was() {
    if Sandbox::all("the_demonstration_leaves_the_terminal").is_empty() {
        return;
    }
    let place = Place::new();
    let mut terminal = Terminal::start(&mut place.command(&["demo"], &[]));
    terminal.until(&["the turn ended once"]);
    assert!(terminal.child.wait().unwrap().success());
    let modes = tcgetattr(&terminal.theirs).unwrap();
    assert!(modes.local_modes.contains(LocalModes::ECHO));
}

/// Types these lines in a chat; returns the answers and the messages.
fn chat(lines: &str) -> (String, String) {
    let place = Place::new();
    let mut command = place.command(&["chat", "--model", "sim"], &[]);
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
fn a_chat_takes_the_models_that_a_run_takes_and_says_who_answers() {
    let (said, told) =
        chat("/model acme/x\n/model sim/other\n/model gpt-4o\nfirst\n/model sim\n/new second\n");
    assert_eq!(said, "Echo: first\nEcho: second\n");
    assert!(told.contains("unknown provider `acme`"), "{told}");
    assert!(told.contains("there is no model `sim/other`"), "{told}");
    assert!(told.contains("did you mean openai/gpt-4o?"), "{told}");
    for refused in ["acme/x", "sim/other", "gpt-4o"] {
        assert!(!told.contains(&format!("{refused} is used")), "{told}");
    }
    assert!(told.contains("sim is used from now on\n"), "{told}");
}

#[test]
fn lists_with_nothing_in_them_say_so() {
    let place = Place::new();
    for (arguments, words) in [
        (&["token", "list"][..], "there are no tokens yet"),
        (&["config", "trust", "--list"], "no file is trusted yet"),
        // The output contains only characters of the locale.
        (&["threads", "list"], "`windlass run \"...\"` begins one"),
    ] {
        let out = place.run(arguments, &[("LANG", "C")]);
        assert!(out.status.success(), "{out:?}");
        assert_eq!(text(&out.stdout), "");
        assert!(text(&out.stderr).contains(words), "{out:?}");
    }
}

#[test]
fn a_directory_that_is_not_there_is_told_with_the_flag_that_named_it() {
    for flag in ["--cwd", "--workspace"] {
        let out = windlass(&["run", flag, "/does/not/exist", "x"], &[]);
        let told = format!("name another with {flag}");
        assert!(text(&out.stderr).contains(&told), "{out:?}");
        assert_eq!(out.status.code(), Some(2));
    }
}

#[test]
fn nobody_is_asked_about_a_thread_that_is_not_there_and_a_no_is_no_error() {
    let place = Place::new();
    let run = place.run(&["run", "--model", "sim", "hello"], &[]);
    assert!(run.status.success(), "{run:?}");
    let listed = place.run(&["threads", "list", "--json"], &[]);
    let thread: Value = serde_json::from_str(text(&listed.stdout)).unwrap();
    let id = thread["id"].as_str().unwrap();
    let none = "thr_00000000000000000000000000000000";
    for missing in ["abcdef", none] {
        let command = &mut place.command(&["threads", "delete", missing], &[]);
        let (seen, status) = Terminal::start(command).rest();
        assert_eq!(status.code(), Some(2), "{seen}");
        assert!(seen.contains(missing) && !seen.contains("[y/N]"), "{seen}");
    }
    let command = &mut place.command(&["threads", "delete", id], &[]);
    let mut terminal = Terminal::start(command);
    terminal.until(&["[y/N] "]);
    terminal.type_in("n");
    let (seen, status) = terminal.rest();
    assert_eq!(status.code(), Some(1), "{seen}");
    assert!(seen.contains("nothing was removed"), "{seen}");
    assert!(!seen.contains("error"), "{seen}");
    let shown = place.run(&["threads", "show", id], &[]);
    assert!(shown.status.success(), "{shown:?}");
}

#[test]
fn a_chat_keeps_a_thread_and_an_aside_does_not_become_part_of_it() {
    let place = Place::new();
    let mut child = place
        .command(&["chat", "--model", "sim"], &[])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = b"first\n/nonsense\n\nsecond\n/undo\nthird\n/btw aside\n/quit\nnever\n";
    child.stdin.take().unwrap().write_all(lines).unwrap();
    let out = child.wait_with_output().unwrap();
    let (said, told) = (text(&out.stdout), text(&out.stderr));
    assert!(out.status.success(), "{told}");
    assert_eq!(
        said,
        "Echo: first\nEcho: second\nEcho: third\nEcho: aside\n"
    );
    assert!(
        told.contains("/nonsense") && told.contains("undone: second"),
        "{told}"
    );
    // The newest thread is not the one of `/btw`.
    let next = place.run(&["run", "--continue", "--model", "sim", "fourth"], &[]);
    assert!(next.status.success());
    let id = told.trim_end().rsplit(' ').next().unwrap();
    let shown = place.run(&["threads", "show", id], &[]);
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
fn the_doctor_looks_at_everything_and_says_what_to_do() {
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
    assert_eq!(of("model")["standing"], "lacking");
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
fn the_doctor_says_what_is_wrong_with_a_home() {
    let place = Place::new();
    std::fs::write(place.here().join("file"), "").unwrap();
    let file = place.here().join("file").display().to_string();
    for (home, words) in [
        (None, &["HOME is not set", "there is no data directory"][..]),
        (Some(""), &["HOME is not set", "there is no data directory"]),
        (
            Some("some/where"),
            &["HOME is some/where", "begin with `/`", "no data directory"],
        ),
        (Some(&file), &["is not a directory", "cannot be created"]),
    ] {
        let mut command = place.command(&["doctor"], &[]);
        command.env_remove("WINDLASS_DATA");
        if let Some(home) = home {
            command.env("HOME", home);
        }
        let out = command.output().unwrap();
        let said = text(&out.stdout);
        for word in words {
            assert!(said.contains(word), "{word}: {said}");
        }
        assert_eq!(text(&out.stderr), "", "{said}");
        assert_eq!(out.status.code(), Some(1), "{said}");
    }
    // With an explicit data directory, no home is needed.
    let named = place.run(&["doctor"], &[]);
    assert!(text(&named.stdout).contains("MB left"), "{named:?}");
}

#[test]
fn shells_can_complete_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let out = windlass(&["completions", shell], &[]);
        assert!(text(&out.stdout).contains("doctor"), "{shell}");
    }
}

#[test]
fn wrong_words_end_with_status_2_and_leave_nothing() {
    let place = Place::new();
    let none = place.run(&["threads", "list"], &[]);
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
        &["run", "--backend", "nobody", "x"],
        &["run", "--cwd", "/does/not/exist", "x"],
        &["run", "--continue", "--resume", "abcd", "x"],
        &["completions", "cobol"],
        &["nonsense"],
    ] {
        let out = place.run(arguments, &[("WINDLASS_MODEL", "sim")]);
        assert_eq!(out.status.code(), Some(2), "{arguments:?}: {out:?}");
        assert!(!text(&out.stderr).is_empty(), "{arguments:?}");
        assert_eq!(text(&out.stdout), "", "{arguments:?}");
    }
}
