//! Agents of others: which are known, whether they answer, and what they see of the home.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Daemon, Home, Sandbox};

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
    // Nobody knows where any agent keeps its login.
    assert_eq!(told[0]["logged_in"], "unknown");
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
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        let home = home.path().canonicalize().unwrap();
        let command = agent(
            &home,
            "seen=$(cat $HOME/private/letter $HOME/.ssh/id 2>&1 | tr '\\n' ' '); made=$(: > $HOME/.claude/made && echo made)
            echo \"$seen k=$NAMED_KEY o=$OTHER_KEY $made\"",
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
        assert!(told.contains("k=n o= made"), "{sandbox:?}: {told}");
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
        (
            "[backends.'../../home']\nkind = 'codex'\nhome = 'own'",
            "cannot be called",
        ),
    ] {
        fs::write(&config, entry).unwrap();
        let (status, _, told) = checked(&home, &["list"]);
        assert_eq!(status, Some(2), "{entry}: {told}");
        assert!(told.contains(named), "{entry}: {told}");
    }
}

/// Speaks as Claude Code does: one turn for each line, with a tool of its own. It waits at `SLOW`, once.
const CLAUDE: &str = r#"
session=none
while [ $# -gt 0 ]; do
  case "$1" in
    --session-id|--resume) echo "$1" >> started; session=$2; shift;;
    --version) echo 2.1.0; exit;;
  esac
  shift
done
cat "$HOME/../../secrets.key" "$HOME/../../tokens.json" "$HOME/../other/login" > stolen 2>/dev/null
ls "$HOME/.." >> stolen 2>/dev/null
say() { printf '%s\n' "$1"; }
while IFS= read -r line; do
  case "$line" in
    *'"type":"user"'*)
      say "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"$session\",\"model\":\"fake\",\"tools\":[]}"
      say "{\"type\":\"assistant\",\"message\":{\"id\":\"m1\",\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"Bash\",\"input\":{\"command\":\"true\"}}]},\"session_id\":\"$session\"}"
      case "$line" in *SLOW*) if [ ! -e waited ]; then : > waited; sleep 600; fi;; esac
      say "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":[{\"tool_use_id\":\"t1\",\"type\":\"tool_result\",\"content\":\"done\",\"is_error\":false}]},\"session_id\":\"$session\"}"
      say "{\"type\":\"assistant\",\"message\":{\"id\":\"m2\",\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"Carried by another.\"}]},\"session_id\":\"$session\"}"
      say "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"Carried by another.\",\"session_id\":\"$session\",\"total_cost_usd\":0.01,\"usage\":{\"input_tokens\":5,\"output_tokens\":7}}";;
  esac
done
"#;

/// A daemon with such an agent, and a thread on it.
fn with_claude(home: &Home, sandbox: Sandbox) -> (Daemon, String) {
    let root = home.path().join("work");
    fs::create_dir_all(&root).unwrap();
    let command = agent(&root, CLAUDE);
    home.configure(&format!(
        "[shell]\nsandbox = '{}'\n[backends.claude-code]\ncommand = '{command}'\nhome = 'own'",
        sandbox.name()
    ));
    let login = home.data().join("backends/other/login");
    fs::create_dir_all(login.parent().unwrap()).unwrap();
    fs::write(login, "the login of another").unwrap();
    let daemon = home.start();
    let environment = json!({"id": "work", "root": root, "policy": {"network": "inherit"}});
    daemon
        .client
        .post("/v1/environments", &environment)
        .expect(201);
    let at = json!([{"environment_id": "work", "cwd": ""}]);
    let thread = daemon.thread(&json!({"backend": "claude-code", "environments": at}));
    (daemon, thread)
}

#[test]
fn a_thread_is_carried_by_an_agent_of_others() {
    for sandbox in Sandbox::all("a_thread_is_carried_by_an_agent_of_others") {
        let home = Home::new();
        let (daemon, thread) = with_claude(&home, sandbox);
        let mut events = daemon.client.events(&thread, 0);
        for _ in 0..2 {
            daemon.turn(&thread, "hello");
            events.until("turn.completed");
        }
        let detail = daemon.detail(&thread);
        assert_eq!(detail["thread"]["backend"], "claude-code");
        for turn in detail["turns"].as_array().unwrap() {
            assert_eq!(turn["status"], "completed", "{sandbox:?}: {detail}");
        }
        let items = detail["items"].to_string();
        assert!(
            items.contains("Carried by another."),
            "{sandbox:?}: {items}"
        );
        assert!(items.contains("Bash"), "{sandbox:?}: {items}");
        // It sees nothing of the data that its home is in.
        let stolen = fs::read_to_string(home.path().join("work/stolen")).unwrap();
        let stolen = stolen.trim();
        assert!(
            stolen.is_empty() || stolen == "claude-code",
            "{sandbox:?}: {stolen}"
        );
        // Both turns had one process.
        let started = fs::read_to_string(home.path().join("work/started")).unwrap();
        assert_eq!(started, "--session-id\n", "{sandbox:?}");
        daemon.stop();
    }
}

#[test]
fn an_agent_of_others_goes_on_with_its_session_after_a_kill_of_the_daemon() {
    for sandbox in Sandbox::all("an_agent_of_others_goes_on_with_its_session") {
        let home = Home::new();
        let (daemon, thread) = with_claude(&home, sandbox);
        let mut events = daemon.client.events(&thread, 0);
        daemon.turn(&thread, "SLOW");
        // Its session is recorded when its call is.
        while !events.next().unwrap().data.to_string().contains("Bash") {}
        drop(events);
        daemon.kill();
        let daemon = home.start();
        let mut events = daemon.client.events(&thread, 0);
        let frames = events.until("turn.completed");
        assert_eq!(
            daemon.detail(&thread)["turns"][0]["status"],
            "completed",
            "{sandbox:?}"
        );
        assert!(frames.len() > 3);
        let started = fs::read_to_string(home.path().join("work/started")).unwrap();
        assert_eq!(started, "--session-id\n--resume\n", "{sandbox:?}");
        daemon.stop();
    }
}

#[test]
fn a_backend_that_is_not_there_or_has_no_network_is_told() {
    if Sandbox::all("a_backend_that_is_not_there").is_empty() {
        return;
    }
    let home = Home::new();
    let daemon = home.start();
    let refused = daemon
        .client
        .post("/v1/threads", &json!({"backend": "nobody"}));
    assert_eq!(refused.status, 422);
    let root = home.path().join("work");
    fs::create_dir_all(&root).unwrap();
    let shut = json!({"id": "shut", "root": root, "policy": {"network": "none"}});
    daemon.client.post("/v1/environments", &shut).expect(201);
    for (environment, told) in [("local", "npm install"), ("shut", "no network")] {
        let at = json!([{"environment_id": environment, "cwd": ""}]);
        let thread = daemon.thread(&json!({"backend": "codex", "environments": at}));
        let mut events = daemon.client.events(&thread, 0);
        daemon.turn(&thread, "hello");
        events.until("turn.completed");
        let detail = daemon.detail(&thread);
        assert_eq!(detail["turns"][0]["status"], "failed");
        assert!(detail.to_string().contains(told), "{told}: {detail}");
        // The thread can still be used.
        daemon.turn(&thread, "again");
        events.until("turn.completed");
    }
}
