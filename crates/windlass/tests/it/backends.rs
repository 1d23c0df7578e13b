//! Agents of others: which are known, whether they answer, and what they see of the home.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use crate::support::{Home, Sandbox};

/// Puts a program there that tells what it sees when it is asked for its version.
fn agent(home: &Path, script: &str) -> String {
    let path = home.join("bin/agent");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

fn checked(home: &Home, arguments: &[&str]) -> (Option<i32>, Vec<Value>, String) {
    let config = home.path().join("windlass.toml");
    let mut all = vec!["backends", "--json", "--config", config.to_str().unwrap()];
    all.extend(arguments);
    let out = home.command(&all).output().unwrap();
    let lines = String::from_utf8(out.stdout).unwrap();
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let told = String::from_utf8(out.stderr).unwrap();
    (out.status.code(), lines.collect(), told)
}

#[test]
fn those_that_everybody_knows_and_those_that_are_configured_are_listed() {
    let home = Home::new();
    let command = agent(home.path(), "echo 1.2.3");
    home.configure(&format!(
        "[backends.mine]\nkind = 'acp'\ncommand = '{command}'"
    ));
    let (status, listed, _) = checked(&home, &["list"]);
    let names: Vec<_> = listed
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        (status, &names[..]),
        (Some(0), &["claude-code", "codex", "gemini", "mine"][..])
    );
}

#[test]
fn one_that_answers_tells_its_version_and_one_that_is_missing_how_to_get_it() {
    if !Sandbox::Landlock.is_here("backends") && !Sandbox::Bubblewrap.is_here("backends") {
        return;
    }
    let home = Home::new();
    let command = agent(home.path(), "echo 1.2.3");
    home.configure(&format!(
        "[backends.mine]\nkind = 'acp'\ncommand = '{command}'\n[backends.lost]\nkind = 'codex'\ncommand = 'no-such-agent'"
    ));
    let (status, told, _) = checked(&home, &["check", "mine"]);
    assert_eq!((status, &told[0]["version"]), (Some(0), &"1.2.3".into()));
    let (status, told, _) = checked(&home, &["check", "lost"]);
    assert_eq!(status, Some(1));
    assert!(
        told[0]["error"].as_str().unwrap().contains("npm install"),
        "{told:?}"
    );
    let (status, _, told) = checked(&home, &["check", "nobody"]);
    assert_eq!(status, Some(2), "{told}");
    assert!(told.contains("backends list"), "{told}");
}

#[test]
fn an_agent_sees_of_the_home_what_it_needs_and_no_variable_that_is_not_named() {
    for sandbox in Sandbox::all("backends") {
        let daemon = Home::new();
        // Not below `/tmp`, of which a sandbox has its own.
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let home = home.path().canonicalize().unwrap();
        let command = agent(
            &home,
            "cat $HOME/private/letter $HOME/.ssh/id 2>&1; echo \"k=$NAMED_KEY o=$OTHER_KEY\"; : > $HOME/.claude/made && echo made",
        );
        for (name, content) in [
            ("private/letter", "dear"),
            (".ssh/id", "a key"),
            ("work/own", ""),
        ] {
            let path = home.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let config = daemon.path().join("windlass.toml");
        let text = format!(
            "[shell]\nsandbox = '{}'\n[backends.claude-code]\ncommand = '{command}'\nvariables = ['NAMED_KEY']",
            sandbox.name()
        );
        fs::write(&config, text).unwrap();
        let mut all = daemon.command(&["backends", "--json", "check", "claude-code"]);
        all.arg("--config").arg(config);
        all.arg("--workspace").arg(home.join("work"));
        all.env("HOME", &home)
            .env("NAMED_KEY", "n")
            .env("OTHER_KEY", "o");
        let out = all.output().unwrap();
        let told = String::from_utf8(out.stdout).unwrap();
        assert!(told.contains("k=n o=\\nmade"), "{sandbox:?}: {told}");
        assert!(
            !told.contains("dear") && !told.contains("a key"),
            "{sandbox:?}: {told}"
        );
        assert!(home.join(".claude/made").exists(), "{sandbox:?}");
    }
}

#[test]
fn an_entry_that_says_too_little_or_too_much_is_refused() {
    let home = Home::new();
    let config = home.path().join("windlass.toml");
    for (entry, named) in [
        ("[backends.mine]", "kind"),
        ("[backends.mine]\nkind = 'acp'", "command"),
        ("[backends.mine]\nkind = 'telepathy'", "telepathy"),
        ("[backends.codex]\ncomand = 'codex'", "comand"),
    ] {
        fs::write(&config, entry).unwrap();
        let (status, _, told) = checked(&home, &["list"]);
        assert_eq!(status, Some(2), "{entry}: {told}");
        assert!(told.contains(named), "{entry}: {told}");
    }
}
