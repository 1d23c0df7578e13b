//! The agent cannot access the daemon's own files, whatever the workspace.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Daemon, Home, ModelRequests, Sandbox, ScriptedModel, text};

/// A token file whose token the attacker knows, created in a separate data directory.
struct ForgedFiles {
    token: String,
    tokens_file: String,
}

impl ForgedFiles {
    fn new() -> Self {
        let home = Home::new();
        let made = home.command(&["token", "create", "--scope", "admin", "--json"]);
        let made = { made }.output().unwrap();
        let made: Value = serde_json::from_slice(&made.stdout).unwrap();
        Self {
            token: text(&made["token"]),
            tokens_file: std::fs::read_to_string(home.data().join("tokens.json")).unwrap(),
        }
    }
}

/// All attempts of a model that knows the path of the data directory relative to the workspace.
fn attempts(data: &str, forged: &ForgedFiles) -> Vec<(&'static str, Value)> {
    let mut attempts = Vec::new();
    for name in ["secrets.key", "tokens.json", "windlass.db"] {
        attempts.push(("read", json!({"path": format!("{data}/{name}")})));
    }
    let tokens = format!("{data}/tokens.json");
    let content = &forged.tokens_file;
    let write = json!({"path": tokens, "content": content});
    attempts.push(("write", write));
    let look = json!({"pattern": "[0-9a-f]{64}", "path": ".", "include_ignored": true});
    attempts.push(("grep", look));
    let everything = json!({"pattern": "**/*", "include_ignored": true});
    attempts.push(("glob", everything));
    attempts.push(("list", json!({"path": data})));
    for command in [
        format!("cat {data}/secrets.key {data}/tokens.json; strings {data}/windlass.db | head"),
        format!("cat > {tokens} <<'END'\n{content}\nEND"),
        format!("mkdir -p w; printf '%s' '{content}' > w/t; cp w/t {tokens}; mv w/t {tokens}"),
        format!(
            "mv {data} elsewhere; cat elsewhere/secrets.key; mkdir -p {data}; printf '%s' '{content}' > {tokens}"
        ),
        format!("rm -rf {data}; ln -s /tmp {data}"),
        "find / -xdev -name secrets.key -exec cat {} + 2>/dev/null".to_owned(),
        "cat /proc/*/root/*/*/data/secrets.key /proc/*/environ 2>/dev/null | tr '\\0' '\\n'"
            .to_owned(),
    ] {
        attempts.push(("shell", json!({"command": command})));
    }
    attempts
}

/// Runs the model in an environment until its turn ends.
fn run_turn(daemon: &Daemon, thread: &Value) {
    let thread = daemon.thread(thread);
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "do it");
    let end = events.until("turn.completed").pop().unwrap();
    assert_eq!(end.data["payload"]["turn"]["status"], "completed");
}

/// Checks that the model read no secret and left no file.
fn assert_out_of_reach(
    home: &Home,
    real: &std::path::Path,
    requests: &ModelRequests,
    forged: &ForgedFiles,
) {
    let key = std::fs::read_to_string(real.join("secrets.key")).unwrap();
    let requests = requests.text();
    assert!(
        !requests.contains(key.trim()),
        "the key was disclosed: {requests}"
    );
    assert!(!requests.contains("SQLite format"), "{requests}");
    assert!(
        !requests.contains("test-key"),
        "a variable was disclosed: {requests}"
    );
    assert!(!real.join("tokens.json").exists(), "a token was made");
    let named = home.named_data.canonicalize().unwrap();
    assert_eq!(named, real, "the next daemon finds its own data");
    let daemon = home.start();
    let forger = daemon.client.with_token(&forged.token);
    assert_eq!(forger.get("/v1/threads").status, 401);
}

/// The configured and the real path of a data directory, and its path as seen from the workspace.
struct Layout {
    named: &'static str,
    real: &'static str,
    seen_as: &'static str,
}

const LAYOUTS: [Layout; 3] = [
    Layout {
        named: "data",
        real: "data",
        seen_as: "data",
    },
    Layout {
        named: "../link",
        real: ".local/state/windlass",
        seen_as: ".local/state/windlass",
    },
    Layout {
        named: "link",
        real: "../data",
        seen_as: "link",
    },
];

impl Layout {
    fn home(&self, url: &str) -> (Home, PathBuf) {
        let mut home = Home::with_model(url);
        let at = |path: &str| home.workspace.join(path);
        let (named, real) = (at(self.named), at(self.real));
        std::fs::create_dir_all(&real).unwrap();
        let real = real.canonicalize().unwrap();
        if !named.exists() {
            symlink(&real, &named).unwrap();
        }
        home.named_data = named;
        (home, real)
    }
}

#[test]
fn data_directory_inside_the_workspace_is_inaccessible_to_the_model() {
    for sandbox in Sandbox::all(
        "protected_paths::data_directory_inside_the_workspace_is_inaccessible_to_the_model",
    ) {
        for layout in LAYOUTS {
            let forged = ForgedFiles::new();
            let (model, requests) = ScriptedModel::calling(attempts(layout.seen_as, &forged));
            let (home, real) = layout.home(&model.url());
            let daemon = home.start_in(sandbox.name());
            run_turn(&daemon, &json!({"auto_approve": true}));
            daemon.kill();
            let results = requests.results();
            assert_eq!(results.len(), 14, "{results:?}");
            for refused in results[..4].iter().chain([&results[6]]) {
                // A symlink that leads out of the workspace is rejected for that reason.
                let is_refused = ["tools cannot access", "path_outside_environment"];
                let is_refused = is_refused.iter().any(|word| refused.contains(word));
                assert!(is_refused, "{refused}");
            }
            assert_out_of_reach(&home, &real, &requests, &forged);
        }
    }
}

#[test]
fn later_registered_environment_exposes_no_protected_path() {
    for sandbox in
        Sandbox::all("protected_paths::later_registered_environment_exposes_no_protected_path")
    {
        let forged = ForgedFiles::new();
        let (model, requests) = ScriptedModel::calling(attempts("data", &forged));
        let home = Home::with_model(&model.url());
        let daemon = home.start_in(sandbox.name());
        let wide = json!({"id": "wide", "root": home.path()});
        daemon.client.post("/v1/environments", &wide).expect(201);
        let at = json!([{"environment_id": "wide", "cwd": ""}]);
        run_turn(&daemon, &json!({"auto_approve": true, "environments": at}));
        let real = home.data().canonicalize().unwrap();
        for hidden in [real.clone(), real.join(".")] {
            let inside = json!({"id": "inside", "root": hidden});
            let refused = daemon.client.post("/v1/environments", &inside);
            assert_eq!(refused.code(), "cwd_outside_root", "{}", refused.body);
            assert!(refused.body.contains("--data"), "{}", refused.body);
        }
        let at = json!([{"environment_id": "wide", "cwd": "data"}]);
        let refused = daemon
            .client
            .post("/v1/threads", &json!({"environments": at}));
        assert_eq!(refused.code(), "cwd_outside_root", "{}", refused.body);
        daemon.kill();
        assert_out_of_reach(&home, &real, &requests, &forged);
    }
}

#[test]
fn workspace_inside_the_data_directory_is_refused() {
    for sandbox in Sandbox::all("protected_paths::workspace_inside_the_data_directory_is_refused") {
        let calls = vec![
            ("list", json!({})),
            ("read", json!({"path": "../secrets.key"})),
            ("write", json!({"path": "f", "content": "x"})),
            ("shell", json!({"command": "ls; cat ../secrets.key"})),
        ];
        let (model, requests) = ScriptedModel::calling(calls);
        let mut home = Home::with_model(&model.url());
        home.start().stop();
        home.workspace = home.data().join("work");
        std::fs::create_dir(&home.workspace).unwrap();
        let daemon = home.start_in(sandbox.name());
        run_turn(&daemon, &json!({"auto_approve": true}));
        for refused in requests.results() {
            assert!(refused.contains("tools cannot access"), "{refused}");
        }
        assert_eq!(requests.results().len(), 4);
        assert!(!home.workspace.join("f").exists());
        let status = daemon.client.get("/v1/workspace/status").expect(200);
        assert!(
            text(&status["git_unknown"]).contains("belongs to the host"),
            "{status}"
        );
    }
}

#[test]
fn key_token_and_configuration_files_in_the_workspace_are_protected() {
    for sandbox in Sandbox::all(
        "protected_paths::key_token_and_configuration_files_in_the_workspace_are_protected",
    ) {
        let files = ["key", "token", "conf/windlass.toml", "again"];
        let mut calls = Vec::new();
        for file in files {
            calls.push(("read", json!({"path": file})));
            calls.push(("write", json!({"path": file, "content": "evil"})));
        }
        let cat = json!({"command": "cat key token conf/windlass.toml; echo evil > key; echo evil > token"});
        calls.push(("shell", cat));
        let (model, requests) = ScriptedModel::calling(calls);
        let home = Home::with_model(&model.url());
        let at = |name: &str| home.workspace.join(name);
        std::fs::create_dir(at("conf")).unwrap();
        let key = "5e".repeat(32);
        let config = format!("# s3cret\n[shell]\nsandbox = \"{}\"\n", sandbox.name());
        for (name, content) in [
            ("key", &key),
            ("token", &"t0ken-s3cret".to_owned()),
            ("conf/windlass.toml", &config),
        ] {
            use std::os::unix::fs::PermissionsExt;
            std::fs::write(at(name), content).unwrap();
            std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        std::fs::hard_link(at("key"), at("again")).unwrap();
        let paths = [at("token"), at("conf/windlass.toml"), at("key")];
        let [token_file, config, key_file] = paths.map(|path| path.display().to_string());
        let arguments = [
            "--token-file",
            &token_file,
            "--config",
            &config,
            "--secrets-key-file",
            &key_file,
        ];
        let mut daemon = home.start_with(&arguments);
        daemon.client.token = Some("t0ken-s3cret".to_owned());
        run_turn(&daemon, &json!({"auto_approve": true}));
        let all = requests.results();
        let is_disclosed = |secret: &str| all.iter().any(|result| result.contains(secret));
        assert!(!is_disclosed("s3cret") && !is_disclosed(&key), "{all:#?}");
        for refused in &requests.results()[..8] {
            assert!(refused.contains("tools cannot access"), "{refused}");
        }
        assert_eq!(std::fs::read_to_string(at("key")).unwrap(), key);
        assert_eq!(
            std::fs::read_to_string(at("token")).unwrap(),
            "t0ken-s3cret"
        );
    }
}

#[test]
fn model_is_informed_why_landlock_refuses_new_files() {
    if !Sandbox::Landlock
        .is_here("protected_paths::model_is_informed_why_landlock_refuses_new_files")
    {
        return;
    }
    let make = json!({"command": "echo x > new"});
    let (model, requests) = ScriptedModel::calling(vec![("shell", make)]);
    let mut home = Home::with_model(&model.url());
    home.workspace = home.path().to_owned();
    let daemon = home.start_in(Sandbox::Landlock.name());
    run_turn(&daemon, &json!({"auto_approve": true}));
    let result = &requests.results()[0];
    for word in [
        "landlock",
        "`--data`",
        "bubblewrap",
        "no entries can be created",
    ] {
        assert!(result.contains(word), "{word}: {result}");
    }
    assert!(!home.workspace.join("new").exists());
}

#[test]
fn commands_are_refused_and_file_tools_work_without_a_sandbox() {
    let calls = vec![
        ("shell", json!({"command": "echo x > by-command"})),
        ("write", json!({"path": "by-tool", "content": "x"})),
    ];
    let (model, requests) = ScriptedModel::calling(calls);
    let home = Home::with_model(&model.url());
    let daemon = home.start_in(Sandbox::None.name());
    run_turn(&daemon, &json!({"auto_approve": true}));
    let results = requests.results();
    assert!(results[0].contains("no sandbox"), "{results:?}");
    assert!(!home.workspace.join("by-command").exists());
    assert!(home.workspace.join("by-tool").exists());
}
