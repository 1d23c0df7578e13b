//! External agents: detection, login checks, and access to the user's home.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use windlass_testkit::Answer;

use crate::support::{Daemon, Home, Sandbox, ScriptedModel};

/// Creates a fake agent whose version output reports what it can see.
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
    let stderr = String::from_utf8(out.stderr).unwrap();
    (out.status.code(), lines.collect(), stderr)
}

#[test]
fn built_in_and_configured_backends_are_listed() {
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
fn check_reports_the_version_or_how_to_install_the_backend() {
    if !Sandbox::Landlock.is_here("backends") && !Sandbox::Bubblewrap.is_here("backends") {
        return;
    }
    let home = Home::new();
    let command = agent(home.path(), "echo 1.2.3");
    home.configure(&format!(
        "[backends.mine]\nkind = 'acp'\ncommand = '{command}'\n[backends.lost]\nkind = 'codex'\ncommand = 'no-such-agent'"
    ));
    let (status, report, _) = checked(&home, &["check", "mine"]);
    assert_eq!((status, &report[0]["version"]), (Some(0), &"1.2.3".into()));
    // The login location of a generic agent is unknown.
    assert_eq!(report[0]["logged_in"], "unknown");
    let (status, report, _) = checked(&home, &["check", "lost"]);
    assert_eq!(status, Some(1));
    assert!(
        report[0]["error"].as_str().unwrap().contains("npm install"),
        "{report:?}"
    );
    let (status, _, stderr) = checked(&home, &["check", "unknown"]);
    assert_eq!(status, Some(2), "{stderr}");
    assert!(stderr.contains("backends list"), "{stderr}");
}

/// A home directory with files in it. Not below `/tmp`: a sandbox has a private one.
fn user_home(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let home = directory.path().canonicalize().unwrap();
    for (name, content) in files {
        let path = home.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    (directory, home)
}

/// Returns the version output of a fake Claude Code in a workspace of a home.
fn version_in(home: &Path, workspace: &str, sandbox: Sandbox, entry: &str) -> String {
    let daemon = Home::new();
    let config = daemon.path().join("windlass.toml");
    let text = format!(
        "[shell]\nsandbox = '{}'\n[backends.claude-code]\n{entry}",
        sandbox.name()
    );
    fs::write(&config, text).unwrap();
    let mut all = daemon.command(&["backends", "--json", "check", "claude-code"]);
    all.arg("--config").arg(config);
    all.arg("--workspace").arg(home.join(workspace));
    all.env("HOME", home)
        .env("NAMED_KEY", "n")
        .env("OTHER_KEY", "o");
    String::from_utf8(all.output().unwrap().stdout).unwrap()
}

const FILES: [(&str, &str); 9] = [
    ("private/letter", "letter"),
    (".ssh/id", "key"),
    (".claude/.credentials.json", "login"),
    (".claude/settings.json", "hooks"),
    (".codex/auth.json", "login-of-codex"),
    (".claude.json", "history"),
    (".local/share/keyring", "keyring"),
    ("work/other/letter", "other"),
    ("work/own/file", "mine"),
];

/// Returns a script that reads each of the files by its path in the home and prints the contents in one line.
fn read_all(home: &Path) -> String {
    let files = FILES.map(|(name, _)| format!("'{}'", home.join(name).display()));
    let files = files.join(" ");
    format!("seen=$(for file in {files}; do cat \"$file\"; echo; done 2>/dev/null | tr '\\n' ' ')")
}

#[test]
fn agent_gets_its_own_home_the_login_and_only_named_variables() {
    for sandbox in Sandbox::all("backends") {
        let (_directory, home) = user_home(&FILES);
        let (read, at) = (read_all(&home), home.display().to_string());
        let script = format!(
            "{read}; lent=$(cat \"$HOME/.claude/.credentials.json\"); echo new > \"$HOME/.claude/.credentials.json\"
            {{ echo evil > '{at}/.claude/settings.json'; echo evil > '{at}/.claude/made'; }} 2>/dev/null
            made=$(: > \"$HOME/made\" && echo made); echo \"seen=$seen lent=$lent k=$NAMED_KEY o=$OTHER_KEY $made\""
        );
        let command = agent(&home, &script);
        let entry = format!("command = '{command}'\nvariables = ['NAMED_KEY', 'HOME']");
        let output = version_in(&home, "work/own", sandbox, &entry);
        let words: Vec<_> = output.split_ascii_whitespace().collect();
        let words = words.join(" ");
        let expected = "seen= login mine lent=login k=n o= made";
        assert!(words.contains(expected), "{sandbox:?}: {output}");
        let read = |name: &str| fs::read_to_string(home.join(name)).unwrap_or_default();
        assert_eq!(read(".claude/.credentials.json"), "new\n", "{sandbox:?}");
        assert_eq!(read(".claude/settings.json"), "hooks", "{sandbox:?}");
        assert!(!home.join(".claude/made").exists(), "{sandbox:?}");
        assert!(!home.join("made").exists(), "{sandbox:?}");
    }
}

#[test]
fn agent_with_the_user_home_sees_only_its_settings_and_workspace() {
    for sandbox in Sandbox::all("backends") {
        let (_directory, home) = user_home(&FILES);
        let script = format!(
            "{}; made=$(: > \"$HOME/.claude/made\" && echo made); echo \"seen=$seen $made\"",
            read_all(&home)
        );
        let command = agent(&home, &script);
        let entry = format!("command = '{command}'\nhome = 'user'");
        let output = version_in(&home, "work/own", sandbox, &entry);
        let words: Vec<_> = output.split_ascii_whitespace().collect();
        let words = words.join(" ");
        let expected = "seen= login hooks history mine made";
        assert!(words.contains(expected), "{sandbox:?}: {output}");
        assert!(home.join(".claude/made").exists(), "{sandbox:?}");

        // A symlink to a hidden directory is not accepted as a settings directory.
        fs::remove_dir_all(home.join(".claude")).unwrap();
        std::os::unix::fs::symlink(".ssh", home.join(".claude")).unwrap();
        let output = version_in(&home, "work/own", sandbox, &entry);
        assert!(
            output.contains("contains a symlink"),
            "{sandbox:?}: {output}"
        );
    }
}

#[test]
fn agent_working_in_the_home_sees_no_keys_or_other_logins() {
    for sandbox in Sandbox::all("backends") {
        let (_directory, home) = user_home(&FILES);
        let command = agent(&home, &format!("{}; echo \"seen=$seen\"", read_all(&home)));
        let output = version_in(&home, "", sandbox, &format!("command = '{command}'"));
        let words: Vec<_> = output.split_ascii_whitespace().collect();
        let words = words.join(" ");
        let expected = "seen=letter login keyring other mine";
        assert!(words.contains(expected), "{sandbox:?}: {output}");
    }
}

#[test]
fn incomplete_or_contradictory_backend_entry_is_refused() {
    let home = Home::new();
    let config = home.path().join("windlass.toml");
    for (entry, named) in [
        ("[backends.mine]", "kind"),
        ("[backends.mine]\nkind = 'acp'", "command"),
        ("[backends.mine]\nkind = 'telepathy'", "telepathy"),
        ("[backends.codex]\ncomand = 'codex'", "comand"),
        (
            "[backends.mine]\nkind = 'acp'\ncommand = 'x'\nhome = 'user'",
            "settings",
        ),
        (
            "[backends.mine]\nkind = 'acp'\ncommand = 'x'\nhome = 'user'\nsettings = '.config'",
            "many programs",
        ),
        (
            "[backends.codex]\nhome = 'user'\nsettings = '../other'",
            "home directory",
        ),
        ("[backends.codex]\nsettings = '.codex'", "home = \"user\""),
        (
            "[backends.'../../home']\nkind = 'codex'\nhome = 'own'",
            "cannot be named",
        ),
    ] {
        fs::write(&config, entry).unwrap();
        let (status, _, stderr) = checked(&home, &["list"]);
        assert_eq!(status, Some(2), "{entry}: {stderr}");
        assert!(stderr.contains(named), "{entry}: {stderr}");
    }
}

/// A fake Claude Code: one turn for each line, with a tool call. It waits once, at `SLOW`.
const CLAUDE: &str = r#"
session=none
while [ $# -gt 0 ]; do
  case "$1" in
    --session-id|--resume) echo "$1" >> started; session=$2; shift;;
    --version) echo 2.1.0; exit;;
  esac
  shift
done
cat "$HOME/../../../secrets.key" "$HOME/../../../tokens.json" "$HOME/../../other/login" > stolen 2>/dev/null
ls "$HOME/.." >> stolen 2>/dev/null
echo "$HOME" > home
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

/// A daemon with such an agent, and a thread that uses it.
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
fn external_agent_runs_the_turns_of_a_thread() {
    for sandbox in Sandbox::all("external_agent_runs_the_turns_of_a_thread") {
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
        // The agent cannot read the data directory that contains its home.
        let stolen = fs::read_to_string(home.path().join("work/stolen")).unwrap();
        let stolen = stolen.trim();
        assert!(
            stolen.is_empty() || stolen == "operator",
            "{sandbox:?}: {stolen}"
        );
        // Both turns used one process.
        let started = fs::read_to_string(home.path().join("work/started")).unwrap();
        assert_eq!(started, "--session-id\n", "{sandbox:?}");
        daemon.stop();
    }
}

#[test]
fn external_agent_resumes_its_session_after_the_daemon_is_killed() {
    for sandbox in Sandbox::all("external_agent_resumes_its_session_after_the_daemon_is_killed") {
        let home = Home::new();
        let (daemon, thread) = with_claude(&home, sandbox);
        let mut events = daemon.client.events(&thread, 0);
        daemon.turn(&thread, "SLOW");
        // The session is recorded together with the tool call.
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
fn missing_backend_or_network_is_reported() {
    if Sandbox::all("missing_backend_or_network_is_reported").is_empty() {
        return;
    }
    let home = Home::new();
    let daemon = home.start();
    let refused = daemon
        .client
        .post("/v1/threads", &json!({"backend": "unknown"}));
    assert_eq!(refused.status, 422);
    let root = home.path().join("work");
    fs::create_dir_all(&root).unwrap();
    let shut = json!({"id": "shut", "root": root, "policy": {"network": "none"}});
    daemon.client.post("/v1/environments", &shut).expect(201);
    for (environment, reason) in [("local", "npm install"), ("shut", "restricts the network")] {
        let at = json!([{"environment_id": environment, "cwd": ""}]);
        let thread = daemon.thread(&json!({"backend": "codex", "environments": at}));
        let mut events = daemon.client.events(&thread, 0);
        daemon.turn(&thread, "hello");
        events.until("turn.completed");
        let detail = daemon.detail(&thread);
        assert_eq!(detail["turns"][0]["status"], "failed");
        assert!(detail.to_string().contains(reason), "{reason}: {detail}");
        // The thread is still usable.
        daemon.turn(&thread, "again");
        events.until("turn.completed");
    }
}

#[test]
fn agent_tokens_get_a_separate_home() {
    for sandbox in Sandbox::all("agent_tokens_get_a_separate_home") {
        let (mut home, root) = (Home::new(), tempfile::tempdir_in("/var/tmp").unwrap());
        let (_directory, user) = user_home(&[]);
        let of_user = ("HOME".to_owned(), user.display().to_string());
        home.variables.push(of_user);
        let command = agent(root.path(), CLAUDE);
        home.configure(&format!(
            "[shell]\nsandbox = '{}'\n[backends.claude-code]\ncommand = '{command}'
            [backends.mine]\nkind = 'claude-code'\ncommand = '{command}'\nhome = 'user'",
            sandbox.name()
        ));
        let daemon = home.start();
        let made = home.command(&["token", "create", "--scope", "agent:one", "--json"]);
        let made: Value = serde_json::from_slice(&{ made }.output().unwrap().stdout).unwrap();
        let of_agent = daemon.client.with_token(made["token"].as_str().unwrap());
        let environment =
            json!({"id": "work", "root": root.path(), "policy": {"network": "inherit"}});
        daemon
            .client
            .post("/v1/environments", &environment)
            .expect(201);
        let at = json!([{"environment_id": "work", "cwd": ""}]);
        let mut homes = Vec::new();
        for (client, backend, status) in [
            (&daemon.client, "claude-code", "completed"),
            (&of_agent, "claude-code", "completed"),
            (&daemon.client, "mine", "completed"),
            (&of_agent, "mine", "failed"),
        ] {
            let body = json!({"backend": backend, "environments": at});
            let made = client.post("/v1/threads", &body).expect(201);
            let thread = format!("/v1/threads/{}", made["id"].as_str().unwrap());
            let mut events = daemon.client.events(&thread, 0);
            let path = format!("{thread}/turns");
            client.post(&path, &json!({"prompt": "hello"})).expect(201);
            events.until("turn.completed");
            let detail = daemon.detail(&thread);
            assert_eq!(
                detail["turns"][0]["status"], status,
                "{sandbox:?}: {detail}"
            );
            if status == "completed" {
                homes.push(fs::read_to_string(root.path().join("home")).unwrap());
            } else {
                assert!(detail.to_string().contains("home = "), "{detail}");
            }
        }
        let data = home.data().canonicalize().unwrap();
        let homes: Vec<_> = homes.iter().map(|home| Path::new(home.trim())).collect();
        assert_eq!(homes[0], data.join("backends/claude-code/operator"));
        assert_eq!(homes[1].parent(), homes[0].parent());
        assert_ne!(homes[1], homes[0]);
        assert_eq!(homes[2], user);
        daemon.stop();
    }
}

#[test]
fn without_tokens_no_external_agent_starts_and_a_model_is_never_an_option() {
    let home = Home::new();
    let daemon = home.start_with(&["--insecure"]);
    let body = json!({"backend": "claude-code"});
    let refused = daemon.client.post("/v1/threads", &body);
    assert_eq!(refused.status, 422);
    let body = json!({"model": "--dangerously-skip-permissions"});
    let refused = daemon.client.post("/v1/threads", &body);
    assert_eq!(refused.status, 422);
    daemon.stop();
}

#[test]
fn external_agent_turn_does_not_resume_without_tokens() {
    let sandboxes = Sandbox::all("external_agent_turn_does_not_resume_without_tokens");
    if let Some(sandbox) = sandboxes.first() {
        let home = Home::new();
        let (daemon, thread) = with_claude(&home, *sandbox);
        let mut events = daemon.client.events(&thread, 0);
        daemon.turn(&thread, "SLOW");
        while !events.next().unwrap().data.to_string().contains("Bash") {}
        drop(events);
        daemon.kill();
        let daemon = home.start_with(&["--insecure"]);
        let resumed = daemon.client.post(&format!("{thread}/resume"), &json!({}));
        assert_eq!(resumed.code(), "not_configured", "{}", resumed.body);
        assert_eq!(daemon.detail(&thread)["turns"][0]["status"], "in_progress");
        daemon.stop();
        let started = fs::read_to_string(home.path().join("work/started")).unwrap();
        assert_eq!(started, "--session-id\n", "it was not started again");
        // The turn was postponed, and nothing is lost.
        let daemon = home.start();
        daemon.client.events(&thread, 0).until("turn.completed");
        daemon.stop();
    }
}

#[test]
fn provider_with_a_key_is_a_native_backend() {
    let model = ScriptedModel::answering(|request| {
        if request.to_string().contains("tool_result") {
            Answer::text(&["done"])
        } else {
            Answer::default().with_call("toolu_1", "list", &["{}"])
        }
    });
    let home = Home::with_model(&model.url());
    home.configure("");
    let (_, listed, _) = checked(&home, &["list"]);
    let is_api = |it: &&Value| it["name"] == "anthropic-api" && it["kind"] == "api";
    assert!(listed.iter().any(|it| is_api(&it)), "{listed:?}");
    let daemon = home.start();
    let thread = daemon.thread(&json!({"backend": "anthropic-api"}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "what is here?");
    events.until("turn.completed");
    let detail = daemon.detail(&thread);
    assert_eq!(detail["thread"]["backend"], "anthropic-api");
    assert_eq!(detail["turns"][0]["status"], "completed", "{detail:#}");
    // The agent's own tool call, not one that was only observed.
    let items = detail["items"].as_array().unwrap();
    let call = items
        .iter()
        .find(|item| item["kind"] == "tool_call")
        .unwrap();
    assert!(call["metadata"].get("origin").is_none(), "{call}");
    let refused = daemon
        .client
        .post("/v1/threads", &json!({"backend": "openai-api"}));
    assert_eq!(refused.status, 422, "{}", refused.body);
}
