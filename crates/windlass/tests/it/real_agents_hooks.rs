//! The real Claude Code and Codex do not run the hooks of a repository. A variable names each program; without it, the test is skipped.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use windlass_testkit::{Answer, FakeServer, Reply, Request, Wire, skipped};

use crate::support::{Daemon, EventReader, Home, ScriptedModel};

const QUIET: [(&str, &str); 4] = [
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("DISABLE_TELEMETRY", "1"),
    ("IS_SANDBOX", "1"),
];

fn program(variable: &str) -> Option<PathBuf> {
    let program = std::env::var_os(variable).map(PathBuf::from);
    if program.is_none() {
        skipped("what a repository says to an agent", variable);
    }
    program
}

/// A repository whose hooks would create files in it.
fn repository(home: &Home) -> &Path {
    let root = &home.workspace;
    let touch = |name: &str| format!("touch {}", root.join(name).display());
    let hook = |name: &str| json!({"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": touch(name)}]}]}});
    let server =
        json!({"mcpServers": {"bad": {"command": "touch", "args": [root.join("bad-server")]}}});
    let codex = format!(
        "[mcp_servers.bad]\ncommand = 'touch'\nargs = ['{}']",
        root.join("bad-codex").display()
    );
    for (name, content) in [
        (".claude/settings.json", hook("bad-hook").to_string()),
        (".claude/settings.local.json", hook("bad-local").to_string()),
        (".mcp.json", server.to_string()),
        (".codex/config.toml", codex),
        (".git/HEAD", "ref: refs/heads/main".to_owned()),
    ] {
        fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        fs::write(root.join(name), content).unwrap();
    }
    root
}

fn files(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| !name.starts_with('.')).collect()
}

fn begin(home: &Home, backend: &str) -> (Daemon, String, EventReader) {
    let daemon = home.start();
    let thread = daemon.thread(&json!({"backend": backend}));
    let events = daemon.client.events(&thread, 0);
    (daemon, thread, events)
}

#[test]
#[ignore = "needs Claude Code; `cargo xtask backends` runs it"]
fn claude_code_ignores_repository_settings() {
    let Some(program) = program("WINDLASS_CLAUDE") else {
        return;
    };
    let model = ScriptedModel::answering(|_| Answer::text(&["Said by a fake model."]));
    let mut home = Home::with_model(&model.url());
    let quiet = QUIET.map(|(name, value)| (name.to_owned(), value.to_owned()));
    home.variables.extend(quiet);
    let path = std::env::var("PATH").unwrap_or_default();
    home.variables.push(("PATH".to_owned(), path));
    let mut names = QUIET.map(|(name, _)| name).to_vec();
    names.extend(["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"]);
    home.configure(&format!(
        "[backends.claude-code]\ncommand = '{}'\nvariables = {names:?}",
        program.display()
    ));
    let root = repository(&home);
    let (daemon, thread, mut events) = begin(&home, "claude-code");
    daemon.turn(&thread, "hello");
    events.until("turn.completed");
    let detail = daemon.detail(&thread);
    assert_eq!(detail["turns"][0]["status"], "completed", "{detail}");
    assert_eq!(files(root), [""; 0]);
    daemon.stop();
}

/// Makes one call of Codex's shell, then ends the turn.
fn call_once(request: &Request) -> Reply {
    let request: Value = request.json();
    let answer = if request.to_string().contains("function_call_output") {
        Answer::text(&["done"])
    } else {
        let call = json!({"cmd": "touch made"}).to_string();
        Answer::default().with_call("call_1", "exec_command", &[&call])
    };
    Reply {
        status: 200,
        headers: Vec::new(),
        after: windlass_testkit::After::End,
        chunks: Wire::OpenAi.events(&answer),
    }
}

#[test]
#[ignore = "needs Codex; `cargo xtask backends` runs it"]
fn codex_ignores_repository_settings_and_asks_before_a_command() {
    let Some(program) = program("WINDLASS_CODEX") else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let model = runtime.block_on(FakeServer::answering(call_once)).unwrap();
    let mut home = Home::new();
    let path = std::env::var("PATH").unwrap_or_default();
    home.variables.push(("PATH".to_owned(), path));
    home.variables.push(("FAKE_KEY".to_owned(), "k".to_owned()));
    let provider = format!(
        "model_providers.fake={{name=\"fake\",base_url=\"{}/v1\",wire_api=\"responses\",env_key=\"FAKE_KEY\"}}",
        model.url()
    );
    home.configure(&format!(
        "[backends.codex]\ncommand = '{}'\nvariables = ['FAKE_KEY']\narguments = ['-c', '{provider}', '-c', 'model_provider=fake']",
        program.display()
    ));
    let root = repository(&home);
    let (daemon, thread, mut events) = begin(&home, "codex");
    daemon.turn(&thread, "go");
    let asked = loop {
        let frame = events.next().unwrap();
        match frame.event.as_str() {
            "approval.required" => break frame.data,
            "turn.completed" => panic!("no approval was requested: {}", daemon.detail(&thread)),
            _ => {}
        }
    };
    assert!(asked.to_string().contains("touch made"), "{asked}");
    let id = asked["payload"]["approval_id"].as_str().unwrap();
    let deny = json!({"decision": "deny"});
    daemon
        .client
        .post(&format!("/v1/approvals/{id}"), &deny)
        .expect(200);
    events.until("turn.completed");
    assert_eq!(files(root), [""; 0]);
    daemon.stop();
}
