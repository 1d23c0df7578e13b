//! Flags of the original program that clients still pass.

use std::process::Stdio;

use crate::support::{Daemon, Home, TOKEN};

/// Starts a daemon with these flags and returns its stderr.
fn stderr_of(home: &Home, arguments: &[&str]) -> String {
    let log = std::fs::File::create(home.path().join("stderr")).unwrap();
    let mut command = home.command(arguments);
    let daemon = Daemon::started(command.stderr(Stdio::from(log)));
    daemon.client.get("/health").expect(200);
    daemon.stop();
    std::fs::read_to_string(home.path().join("stderr")).unwrap()
}

#[test]
fn original_flags_start_a_daemon() {
    let home = Home::new();
    std::fs::write(home.path().join("own.toml"), "model = 'sim'").unwrap();
    for word in ["serve", "app-server"] {
        let stderr = stderr_of(
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
        let is_reported = |line: &&str| line.starts_with("--mobile has no effect: ");
        assert_eq!(stderr.lines().filter(is_reported).count(), 1, "{stderr}");
        assert!(!stderr.contains("--workers"), "{stderr}");
        assert!(
            stderr.contains("warning: --insecure: no token is required"),
            "{stderr}"
        );
    }
    let stderr = stderr_of(
        &home,
        &[
            "serve", "--port", "0", "--token", TOKEN, "--config", "own.toml",
        ],
    );
    assert!(
        !stderr.contains("effect") && !stderr.contains("insecure"),
        "{stderr}"
    );
}

#[test]
fn invalid_values_of_original_flags_are_refused() {
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
fn unused_config_flag_causes_a_warning() {
    let home = Home::new();
    let listed = home.command(&["--config", "own.toml", "token", "list"]);
    let listed = { listed }.output().unwrap();
    assert!(listed.status.success());
    let stderr = String::from_utf8(listed.stderr).unwrap();
    let none = "there are no tokens yet; `windlass token create` creates one";
    assert_eq!(
        stderr,
        format!("--config has no effect on this command\n{none}\n")
    );
}

#[test]
fn a8_token_flag_is_hidden_from_process_lists() {
    let home = Home::new();
    let daemon = home.start();
    daemon.client.get("/v1/threads").expect(200);
    let line = std::fs::read(format!("/proc/{}/cmdline", daemon.pid())).unwrap();
    let line = String::from_utf8_lossy(&line).into_owned();
    assert!(line.contains("serve"), "{line}");
    assert!(!line.contains(TOKEN) && !line.contains("--token"), "{line}");
}

#[test]
fn invalid_values_are_reported_without_internal_terms() {
    let home = Home::new();
    std::fs::write(home.path().join("c.toml"), "[limits]\nthreads = 'x'\n").unwrap();
    for (words, expected) in [
        (&["threads", "list", "--limit", "0"][..], "1 or more"),
        (&["runs", "list", "--limit", "many"], "1 or more"),
        (&["serve", "--log", "loud"], "expected off, error, warn"),
        (
            &["serve", "--port", "0", "--config", "c.toml"],
            "c.toml, line 2: it is a text, but a whole number, 0 or more, is expected",
        ),
    ] {
        let out = home.command(words).output().unwrap();
        let stderr = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{words:?}: {stderr}");
        assert!(stderr.contains(expected), "{words:?}: {stderr}");
        for word in ["usize", "struct", "parsing"] {
            assert!(!stderr.contains(word), "{words:?}: {stderr}");
        }
    }
    assert!(!home.data().exists());
}
