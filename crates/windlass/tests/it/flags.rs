//! Flags of the original program that clients still pass.

use std::process::Stdio;

use crate::support::{Daemon, Home, TOKEN};

/// Starts a daemon with these flags and returns its stderr.
fn said(home: &Home, arguments: &[&str]) -> String {
    let log = std::fs::File::create(home.path().join("stderr")).unwrap();
    let mut command = home.command(arguments);
    let daemon = Daemon::started(command.stderr(Stdio::from(log)));
    daemon.client.get("/health").expect(200);
    daemon.stop();
    std::fs::read_to_string(home.path().join("stderr")).unwrap()
}

#[test]
fn a_client_that_starts_the_daemon_with_flags_of_the_original_gets_one() {
    let home = Home::new();
    std::fs::write(home.path().join("own.toml"), "model = 'sim'").unwrap();
    for word in ["serve", "app-server"] {
        let told = said(
            &home,
            &[
                "--config",
                "own.toml",
                word,
                "--http",
                "--port",
                "0",
                "--insecure-no-auth",
                "--workers",
                "2",
                "--mobile",
            ],
        );
        let is_told = |said: &&str| said.starts_with("--mobile has no effect: ");
        assert_eq!(told.lines().filter(is_told).count(), 1, "{told}");
        assert!(!told.contains("--workers"), "{told}");
        assert!(
            told.contains("warning: --insecure: no token is required"),
            "{told}"
        );
    }
    let told = said(
        &home,
        &[
            "serve", "--port", "0", "--token", TOKEN, "--config", "own.toml",
        ],
    );
    assert!(
        !told.contains("effect") && !told.contains("insecure"),
        "{told}"
    );
}

#[test]
fn wrong_values_of_such_flags_are_refused() {
    let home = Home::new();
    for arguments in [
        &["serve", "--workers", "0"][..],
        &["serve", "--workers", "9"],
        &["serve", "--workers", "many"],
        &["serve", "--mobile=yes"],
        &["--config", "missing.toml", "serve"],
        &["serve", "--insecure-no-auth", "--token", "t"],
        &["serve", "--insecure-no-auth", "--host", "192.0.2.1"],
    ] {
        let refused = home.command(arguments).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
        assert!(!home.data().exists(), "{arguments:?}");
    }
}

#[test]
fn a_configuration_that_a_command_does_not_read_is_said_to_have_no_effect() {
    let home = Home::new();
    let listed = home.command(&["--config", "own.toml", "token", "list"]);
    let listed = { listed }.output().unwrap();
    assert!(listed.status.success());
    let told = String::from_utf8(listed.stderr).unwrap();
    let none = "there are no tokens yet; `windlass token create` creates one";
    assert_eq!(
        told,
        format!("--config has no effect on this command\n{none}\n")
    );
}

#[test]
fn a8_a_token_that_was_given_as_a_flag_is_in_no_list_of_processes() {
    let home = Home::new();
    let daemon = home.start();
    daemon.client.get("/v1/threads").expect(200);
    let line = std::fs::read(format!("/proc/{}/cmdline", daemon.pid())).unwrap();
    let line = String::from_utf8_lossy(&line).into_owned();
    assert!(line.contains("serve"), "{line}");
    assert!(!line.contains(TOKEN) && !line.contains("--token"), "{line}");
}

#[test]
fn wrong_values_are_told_without_words_of_a_program() {
    let home = Home::new();
    std::fs::write(home.path().join("c.toml"), "[limits]\nthreads = 'x'\n").unwrap();
    for (words, said) in [
        (&["threads", "list", "--limit", "0"][..], "1 or more"),
        (&["runs", "list", "--limit", "many"], "1 or more"),
        (&["serve", "--log", "loud"], "expected off, error, warn"),
        (
            &["serve", "--port", "0", "--config", "c.toml"],
            "c.toml, line 2: it is a text, but a whole number, 0 or more, is expected",
        ),
    ] {
        let out = home.command(words).output().unwrap();
        let told = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{words:?}: {told}");
        assert!(told.contains(said), "{words:?}: {told}");
        for word in ["usize", "struct", "parsing"] {
            assert!(!told.contains(word), "{words:?}: {told}");
        }
    }
    assert!(!home.data().exists());
}
