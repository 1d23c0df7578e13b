//! Commands have their own empty home, and see only the configured paths of the user's home.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;

use crate::support::{Home, Sandbox, ScriptedModel, TOKEN};

/// Files in which programs store keys; some of them are in no known list.
const SECRETS: [&str; 6] = [
    ".pgpass",
    ".vault-token",
    ".config/git/credentials",
    ".local/share/keyrings/login.keyring",
    ".unheard-of/token",
    "notes.txt",
];

/// A home outside `/tmp`, because a sandbox may have a private `/tmp`.
fn user_home() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let home = directory.path().canonicalize().unwrap();
    for name in SECRETS {
        put(&home, name, "s3cret");
    }
    put(&home, "tools/bin/greet", "#!/bin/sh\necho greeted\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(home.join("tools/bin/greet"), mode).unwrap();
    put(&home, ".opened/file", "opened");
    put(&home, ".cache/tool/file", "cached");
    (directory, home)
}

fn put(home: &Path, name: &str, text: &str) {
    let path = home.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Runs a command in a directory of the user's home and returns its result.
fn run(user: &Path, sandbox: Sandbox, shell: &str, command: &str) -> String {
    let (model, requests) = ScriptedModel::calling(vec![("shell", json!({ "command": command }))]);
    let mut home = Home::with_model(&model.url());
    home.workspace = user.join("work/project");
    fs::create_dir_all(&home.workspace).unwrap();
    let path = format!("/usr/bin:/bin:{}", user.join("tools/bin").display());
    for (name, value) in [("HOME", user.to_str().unwrap()), ("PATH", &path)] {
        home.variables.push((name.to_owned(), value.to_owned()));
    }
    let config = home.path().join("home.toml");
    let text = format!("[shell]\nsandbox = \"{}\"\n{shell}", sandbox.name());
    fs::write(&config, text).unwrap();
    let config = config.display().to_string();
    let daemon = home.start_with(&["--token", TOKEN, "--config", &config]);
    let thread = daemon.thread(&json!({"auto_approve": true}));
    daemon.turn(&thread, "go");
    daemon.client.events(&thread, 0).until("turn.completed");
    requests.results().remove(0)
}

#[test]
fn command_has_an_empty_home_and_cannot_read_the_users() {
    for sandbox in Sandbox::all("home::command_has_an_empty_home_and_cannot_read_the_users") {
        let (_directory, user) = user_home();
        let read: Vec<_> = SECRETS
            .map(|name| format!("{0}/{name} ~/{name}", user.display()))
            .into();
        let command = format!(
            "cat {}; ls -A ~ {}; echo stored > ~/made && cat ~/made; echo work > in-work; greet",
            read.join(" "),
            user.display()
        );
        let result = run(&user, sandbox, "", &command);
        for unseen in ["s3cret", "notes.txt"] {
            let left = result.replace("notes.txt:", "");
            assert!(!left.contains(unseen), "{sandbox:?}: {result}");
        }
        assert!(
            result.contains("stored") && result.contains("greeted"),
            "{sandbox:?}: {result}"
        );
        assert!(!user.join("made").exists(), "{sandbox:?}");
        assert!(user.join("work/project/in-work").exists(), "{sandbox:?}");
    }
}

#[test]
fn command_sees_only_the_configured_parts_of_the_home() {
    for sandbox in Sandbox::all("home::command_sees_only_the_configured_parts_of_the_home") {
        let (_directory, user) = user_home();
        let shell = "home_paths = [\"~/.opened\"]\nwritable_home_paths = [\"~/.cache/tool\"]\n";
        let command = format!(
            "cat ~/.opened/file {0}/.opened/file ~/.cache/tool/file; echo no > ~/.opened/file; echo more > ~/.cache/tool/more; cat ~/.pgpass",
            user.display()
        );
        let result = run(&user, sandbox, shell, &command);
        assert!(
            result.contains("openedopenedcached"),
            "{sandbox:?}: {result}"
        );
        assert!(!result.contains("s3cret"), "{sandbox:?}: {result}");
        assert_eq!(
            fs::read_to_string(user.join(".opened/file")).unwrap(),
            "opened"
        );
        assert!(
            user.join(".cache/tool/more").exists(),
            "{sandbox:?}: {result}"
        );
    }
}
