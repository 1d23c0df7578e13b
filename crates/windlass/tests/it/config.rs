//! The layers of the configuration: defaults, the user's file, the project's file, environment variables, flags.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};

use crate::support::{Daemon, Home, Sandbox, ScriptedModel, text};

/// A user whose home contains the working directory.
fn user() -> Home {
    let mut home = Home::new();
    home.variables.clear();
    let place = home.path().join("home").to_str().unwrap().to_owned();
    home.variables.push(("HOME".to_owned(), place));
    home
}

fn own_file(home: &Home) -> PathBuf {
    home.path().join("home/.config/windlass/windlass.toml")
}

fn write_own(home: &Home, text: &str) {
    let file = own_file(home);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
}

fn output(home: &Home, arguments: &[&str]) -> Output {
    home.command(arguments).output().unwrap()
}

#[track_caller]
fn refused(home: &Home, arguments: &[&str]) -> String {
    let out = output(home, arguments);
    assert_eq!(out.status.code(), Some(2), "{out:?}");
    String::from_utf8(out.stderr).unwrap()
}

/// Returns the value, the origin and the origin's name of a key.
#[track_caller]
fn shown(home: &Home, flags: &[&str], key: &str) -> (Value, String, Value) {
    let out = output(home, &[&["config", "show", "--json"], flags].concat());
    assert!(out.status.success(), "{out:?}");
    let lines = String::from_utf8(out.stdout).unwrap();
    let mut lines = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let found = lines.find(|line| line["key"] == key);
    let found = found.unwrap_or_else(|| panic!("{key} is not shown"));
    (
        found["value"].clone(),
        text(&found["from"]),
        found["name"].clone(),
    )
}

#[test]
fn later_layers_win_and_each_value_shows_its_origin() {
    let mut home = user();
    let threads = |home: &Home| shown(home, &[], "limits.threads");
    assert_eq!(
        threads(&home),
        (json!(100_000), "default".to_owned(), Value::Null)
    );
    write_own(
        &home,
        "model = 'sim'\n[limits]\nthreads = 5\nconnections = 6\n",
    );
    let own = json!(own_file(&home));
    assert_eq!(threads(&home), (json!(5), "file".to_owned(), own.clone()));
    home.configure("model = 'demonstration'\n[limits]\nthreads = 7\n");
    let project = home.path().canonicalize().unwrap().join("windlass.toml");
    assert_eq!(
        threads(&home),
        (json!(7), "file".to_owned(), json!(project))
    );
    assert_eq!(shown(&home, &[], "limits.connections").2, own);
    assert_eq!(shown(&home, &[], "model").0, "demonstration");

    fs::write(home.path().join("named.toml"), "[limits]\nthreads = 8\n").unwrap();
    let named = shown(&home, &["--config", "named.toml"], "limits.threads");
    assert_eq!(named.0, 8);

    let model = ("WINDLASS_MODEL".to_owned(), "sim/of-variable".to_owned());
    home.variables.push(model);
    let model = shown(&home, &[], "model");
    assert_eq!(
        (model.1.as_str(), &model.2),
        ("variable", &json!("WINDLASS_MODEL"))
    );
    let model = shown(&home, &["--model", "sim/of-flag"], "model");
    assert_eq!(
        model,
        (json!("sim/of-flag"), "flag".to_owned(), json!("model"))
    );
    let workers = shown(&home, &["--workers", "5"], "tasks.workers");
    assert_eq!(workers, (json!(5), "flag".to_owned(), json!("workers")));
    let file = shown(&home, &["--secrets-key-file", "k"], "secrets_key_file");
    assert_eq!(file.0, "k");
    home.variables
        .push(("WINDLASS_MODEL".to_owned(), " ".to_owned()));
    assert_eq!(shown(&home, &[], "model").1, "file");
}

#[test]
fn daemon_merges_both_files_key_by_key() {
    let home = user();
    write_own(&home, "model = 'sim'\n[limits]\nthreads = 1\n");
    home.configure("[limits]\nconnections = 50\n");
    let daemon = home.start();
    daemon.thread(&json!({}));
    let second = daemon.client.post("/v1/threads", &json!({}));
    assert_eq!(
        (second.status, second.code()),
        (429, "limit_reached".to_owned())
    );
}

#[test]
fn keys_and_passwords_are_not_shown() {
    let mut home = user();
    write_own(
        &home,
        "proxy = 'http://me:sk-proxy@proxy.example:1'\n[providers.openai]\napi_key = 'sk-file'\n\
         base_url = 'http://me:sk-url@127.0.0.1:9/v1'\n",
    );
    let key = ("ANTHROPIC_API_KEY".to_owned(), "sk-variable".to_owned());
    home.variables.push(key);
    for words in [&["config", "show"][..], &["config", "show", "--json"]] {
        let out = output(&home, words);
        let shown = String::from_utf8(out.stdout).unwrap();
        assert!(!shown.contains("sk-"), "{shown}");
        for word in [
            "[set]",
            "providers.openai.api_key",
            "ANTHROPIC_API_KEY",
            "http://127.0.0.1:9/v1",
            "http://proxy.example:1",
        ] {
            assert!(shown.contains(word), "{word}: {shown}");
        }
    }
}

#[test]
fn user_file_writable_by_others_stops_every_command() {
    let home = user();
    write_own(&home, "model = 'sim'\n");
    let file = own_file(&home);
    for mode in [0o660, 0o602] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let stderr = refused(&home, &["run", "hello"]);
        assert!(stderr.contains("chmod go-w"), "{stderr}");
    }
    fs::rename(&file, file.with_file_name("elsewhere")).unwrap();
    symlink("elsewhere", &file).unwrap();
    let stderr = refused(&home, &["config", "show"]);
    assert!(stderr.contains("it is a symlink to elsewhere"), "{stderr}");
}

#[test]
fn unknown_key_is_reported_with_file_line_and_suggestion() {
    let home = user();
    write_own(&home, "[retention]\n\nmax_age = 3\n");
    let stderr = refused(&home, &["run", "hello"]);
    let file = own_file(&home);
    let expected = format!(
        "error: {}, line 3: unknown key `max_age`; did you mean `max_age_days`?\n",
        file.display()
    );
    assert_eq!(stderr, expected);
}

#[test]
fn unknown_tool_name_causes_one_warning() {
    let home = user();
    write_own(
        &home,
        "model = 'sim'\n[approvals]\nrules = [\n  { tool = 'wirte', action = 'deny' },\n  { tool = 'shell', action = 'ask' },\n\
         { tool = 'mcp__files__x', action = 'ask' },\n  { tool = 'Bash', action = 'ask' },\n]\n[tools]\ndisabled = ['wirte', 'sp*']\n\
         [mcp_servers.files]\nurl = 'http://127.0.0.1:9/'\n",
    );
    let rule = "approvals.rules names `wirte`, which is neither a tool of Windlass nor of a configured MCP server; did you mean `write`?";
    let warned = |stderr: &str| {
        let warnings = stderr.lines().filter(|line| line.starts_with("warning: "));
        let warnings: Vec<_> = warnings.map(str::to_owned).collect();
        let disabled = rule.replace("approvals.rules", "tools.disabled");
        let expected = [rule, disabled.as_str()].map(|text| format!("warning: {text}"));
        assert_eq!(warnings, expected, "{stderr}");
    };
    for words in [&["config", "show"][..], &["run", "hello"]] {
        let out = output(&home, words);
        assert!(out.status.success(), "{out:?}");
        warned(&String::from_utf8(out.stderr).unwrap());
    }
    let doctor = output(&home, &["doctor", "--json"]);
    let findings = String::from_utf8(doctor.stdout).unwrap();
    let findings = findings
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let findings: Vec<Value> = findings
        .filter(|it: &Value| it["about"] == "tools")
        .collect();
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert_eq!(
        (&findings[0]["text"], &findings[0]["status"]),
        (&json!(rule), &json!("lacking"))
    );
    let log = home.path().join("log");
    let mut serve = home.command(&["serve", "--port", "0"]);
    let daemon = Daemon::started(serve.stderr(fs::File::create(&log).unwrap()));
    drop(daemon);
    warned(&fs::read_to_string(&log).unwrap());
}

#[test]
fn config_init_never_overwrites_a_file() {
    let home = user();
    let made = output(&home, &["config", "init"]);
    let stderr = String::from_utf8(made.stderr).unwrap();
    assert!(stderr.contains("`windlass config trust`"), "{stderr}");
    let file = home.path().join("windlass.toml");
    assert!(fs::read_to_string(&file).unwrap().contains("#model = "));
    fs::write(&file, "model = 'sim'\n").unwrap();
    let stderr = refused(&home, &["config", "init"]);
    assert!(stderr.contains("nothing was changed"), "{stderr}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "model = 'sim'\n");

    let made = output(&home, &["config", "init", "--user"]);
    assert!(made.status.success(), "{made:?}");
    let mode = fs::metadata(own_file(&home)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    refused(&home, &["config", "init", "--user"]);
    // The file sets nothing, but it is loaded.
    assert_eq!(shown(&home, &[], "limits.threads").1, "default");
}

#[test]
fn configuration_refused_by_the_daemon_is_reported_by_doctor_show_and_trust() {
    let home = user();
    let file = home.path().join("windlass.toml");
    for (text, expected) in [
        ("[tasks]\nworkers = 20\n", "tasks.workers is 20"),
        ("[budget]\nturn_usd = -3\n", "turn_usd"),
        (
            "[environments.a]\nroot = '/no-such-root'\n",
            "/no-such-root",
        ),
        ("[secrets.X]\ncommands = true\n", "secrets.X"),
        (
            "[providers.opnai]\napi_key = 'k'\n",
            "unknown provider `opnai`",
        ),
    ] {
        fs::write(&file, text).unwrap();
        let trusted = output(&home, &["config", "trust"]);
        let stderr = String::from_utf8(trusted.stderr).unwrap();
        assert!(
            stderr.contains("warning: ") && stderr.contains(expected),
            "{stderr}"
        );
        let shown = output(&home, &["config", "show"]);
        let stderr = String::from_utf8(shown.stderr).unwrap();
        assert!(
            stderr.contains("warning: ") && stderr.contains(expected),
            "{stderr}"
        );
        let doctor = output(&home, &["doctor"]);
        let found = String::from_utf8(doctor.stdout).unwrap();
        assert_eq!(doctor.status.code(), Some(1), "{found}");
        assert_eq!(found.matches(expected).count(), 1, "{found}");
        let stderr = refused(&home, &["run", "hello"]);
        assert!(stderr.contains(expected), "{stderr}");
    }
    // A valid file causes no warning.
    fs::write(&file, "[tasks]\nworkers = 2\n").unwrap();
    for words in [&["config", "trust"][..], &["config", "show"]] {
        let out = output(&home, words);
        let stderr = String::from_utf8(out.stderr).unwrap();
        assert!(!stderr.contains("warning"), "{stderr}");
    }
}

#[test]
fn invalid_proxy_and_program_are_refused_with_their_line() {
    let home = user();
    let file = home.path().join("windlass.toml");
    for text in ["proxy = 'nope'\n", "mcp_servers.a.command = ''\n"] {
        fs::write(&file, text).unwrap();
        let stderr = refused(&home, &["config", "trust"]);
        let place = format!("{}, line 1: ", file.display());
        assert!(stderr.contains(&place), "{stderr}");
        write_own(&home, text);
        let stderr = refused(&home, &["config", "show"]);
        assert!(stderr.contains("windlass.toml, line 1: "), "{stderr}");
        fs::remove_file(own_file(&home)).unwrap();
    }
}

#[test]
fn schema_is_valid_json() {
    let out = output(&user(), &["config", "schema"]);
    let schema: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(schema["title"], "windlass.toml");
    assert!(schema["properties"]["retention"].is_object());
}

#[test]
fn configuration_written_by_a_tool_needs_trust() {
    for sandbox in Sandbox::all("a configuration that a model writes for the user") {
        let evil = "model = 'sim'\n";
        let path = ".config/windlass/windlass.toml";
        let calls = vec![
            ("write", json!({"path": path, "content": evil})),
            (
                "shell",
                json!({"command": format!("mkdir -p .config/windlass; echo \"{evil}\" > {path}")}),
            ),
            (
                "shell",
                json!({"command": format!(
                    "mv .config gone; mkdir -p .config/windlass; echo \"{evil}\" > {path}"
                )}),
            ),
        ];
        let (model, requests) = ScriptedModel::calling(calls);
        let mut home = Home::with_model(&model.url());
        let place = home.path().join("home");
        fs::create_dir(&place).unwrap();
        let variable = ("HOME".to_owned(), place.to_str().unwrap().to_owned());
        home.variables.push(variable);
        home.workspace = place;
        let daemon = home.start_in(sandbox.name());
        let thread = daemon.thread(&json!({"auto_approve": true, "allow_shell": true}));
        let mut events = daemon.client.events(&thread, 0);
        daemon.turn(&thread, "do it");
        events.until("turn.completed");
        assert!(!requests.results().is_empty());
        assert!(
            !own_file(&home).exists(),
            "{sandbox:?}: {}",
            requests.text()
        );
    }
}

/// Collects the names of environment variables that occur in the sources as strings, except those of external agents and of the build.
fn variables(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("backends") {
            variables(&path, found);
        }
        if path.extension() != Some("rs".as_ref()) {
            continue;
        }
        let source = fs::read_to_string(&path).unwrap();
        let of_name = |letter: char| letter.is_ascii_uppercase() || letter == '_';
        let words = source.split('"').skip(1).step_by(2);
        let words = words.filter(|word| word.contains('_') && word.chars().all(of_name));
        let words = words.filter(|word| !word.starts_with("CARGO_"));
        found.extend(words.map(str::to_owned));
    }
}

#[test]
fn configuration_page_names_every_variable() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("../../docs/configuration.md")).unwrap();
    let mut found = BTreeSet::new();
    variables(&root.join("src"), &mut found);
    assert!(found.contains("WINDLASS_RUNTIME_TOKEN"), "{found:?}");
    let missing: Vec<_> = found.iter().filter(|name| !page.contains(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
