//! The operator's MCP servers in threads of the daemon.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Daemon, Home, ScriptedModel};

/// An MCP server in a few lines of shell.
const SERVER: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"winch","version":"1"}}' ;;
    *'"tools/list"'*) result='{"tools":[{"name":"lift","description":"Lifts.","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/call"'*) result='{"content":[{"type":"text","text":"lifted with '$WINCH_TOKEN'"}]}' ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

fn configure(home: &Home) {
    home.configure(&format!(
        "[mcp_servers.winch]\ncommand = \"/bin/sh\"\nargs = [\"-c\", '''{SERVER}''']\nenv = {{ WINCH_TOKEN = \"${{WINCH_KEY}}\" }}\n\
         [mcp_servers.gone]\ncommand = \"/no/such/program\"\n"
    ));
}

#[test]
fn server_tool_is_offered_and_called_and_its_key_is_not_recorded() {
    let (model, requests) = ScriptedModel::calling(vec![("mcp__winch__lift", json!({}))]);
    let mut home = Home::with_model(&model.url());
    let key = ("WINCH_KEY".to_owned(), "rope-and-tar-7391".to_owned());
    home.variables.push(key);
    configure(&home);
    let daemon = home.start();
    let path = daemon.thread(&json!({ "auto_approve": true }));
    let mut events = daemon.client.events(&path, 0);
    daemon.turn(&path, "lift it");
    let frames = events.until("turn.completed");
    let shown = format!("{frames:?}");
    assert!(requests.text().contains("mcp__winch__lift"));
    let results = requests.results();
    assert!(results[0].contains("lifted with"), "{results:?}");
    assert!(!shown.contains("tar-7391"), "{shown}");
    assert!(!requests.text().contains("tar-7391"));
    let exported = daemon.client.get(&format!("{path}/export"));
    assert_eq!(exported.status, 200);
    assert!(exported.body.contains("lifted with") && !exported.body.contains("tar-7391"));
    daemon.stop();
    let shown = home.command(&["config", "show"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.contains("mcp_servers.winch.env.WINCH_TOKEN") && shown.contains("[set]"),
        "{shown}"
    );
    assert!(!shown.contains("WINCH_KEY"), "{shown}");
}

/// Returns the JSON of a successful GET request.
fn get_ok(daemon: &Daemon, path: &str) -> Value {
    let reply = daemon.client.get(path);
    assert!(!reply.body.contains("7391"), "{}", reply.body);
    reply.expect(200)
}

#[test]
fn clients_list_servers_and_connect_only_on_request() {
    let mut home = Home::new();
    let key = ("WINCH_KEY".to_owned(), "rope-and-tar-7391".to_owned());
    home.variables.push(key);
    configure(&home);
    let daemon = home.start();
    let servers = "/v1/apps/mcp/servers";
    let winch = |connected: bool| {
        json!({
            "name": "winch", "enabled": true, "required": false, "command": "/bin/sh", "url": null, "connected": connected,
            "enabled_tools": [], "disabled_tools": []
        })
    };
    assert_eq!(get_ok(&daemon, servers)["servers"][1], winch(false));
    assert_eq!(get_ok(&daemon, "/v1/apps/mcp/tools"), json!({"tools": []}));
    assert_eq!(get_ok(&daemon, servers)["servers"][1], winch(false));
    let tools = get_ok(&daemon, "/v1/apps/mcp/tools?connect=true");
    assert_eq!(
        tools["tools"],
        json!([{
            "server": "winch", "name": "lift", "prefixed_name": "mcp__winch__lift", "description": "Lifts.",
            "input_schema": {"type": "object"}
        }])
    );
    assert_eq!(tools["failures"][0]["server"], "gone", "{tools}");
    assert_eq!(get_ok(&daemon, servers)["servers"][1], winch(true));
    let tools = get_ok(&daemon, "/v1/apps/mcp/tools?server=winch");
    assert_eq!(tools["tools"].as_array().unwrap().len(), 1, "{tools}");
    let refused = daemon.client.get("/v1/apps/mcp/tools?server=unknown");
    assert_eq!(refused.status, 404);
}

#[test]
fn read_only_commands_need_no_tool_configuration() {
    let home = Home::new();
    configure(&home);
    let file = home.path().join("windlass.toml");
    let configured = std::fs::read_to_string(&file).unwrap_or_default();
    home.configure(&format!(
        "{configured}\n[secrets.BUILD_TOKEN]\nvariable = \"NO_SUCH_VARIABLE\"\n"
    ));
    let listed = home.command(&["threads", "list"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&listed.stderr);
    assert!(listed.status.success(), "{stderr}");
}

#[test]
fn server_that_fails_to_start_causes_a_warning_everywhere() {
    let (model, _) = ScriptedModel::calling(Vec::new());
    let mut home = Home::with_model(&model.url());
    home.variables
        .push(("WINCH_KEY".to_owned(), "rope-and-tar-7391".to_owned()));
    configure(&home);
    let ran = home.command(&["run", "work"]).output().unwrap();
    let message = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(message.matches("MCP server `gone`").count(), 1, "{message}");
    let mut chat = home.command(&["chat"]);
    let chat = chat.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut chat = chat.stdout(Stdio::null()).spawn().unwrap();
    chat.stdin.take().unwrap().write_all(b"work\n").unwrap();
    let message = chat.wait_with_output().unwrap().stderr;
    let message = String::from_utf8(message).unwrap();
    assert_eq!(message.matches("MCP server `gone`").count(), 1, "{message}");

    let daemon = home.start();
    let path = daemon.thread(&json!({}));
    let mut events = daemon.client.events(&path, 0);
    daemon.turn(&path, "work");
    let frames = events.until("turn.completed");
    let is_warning = |item: &Value| {
        item["kind"] == "status" && item["detail"].as_str().unwrap().contains("`gone`")
    };
    let warnings = frames
        .iter()
        .filter(|frame| is_warning(&frame.data["payload"]["item"]));
    assert_eq!(warnings.count(), 1, "{frames:?}");
    let detail = daemon.detail(&path);
    let items = detail["items"].as_array().unwrap().iter();
    assert_eq!(items.filter(|item| is_warning(item)).count(), 1, "{detail}");
    daemon.stop();

    let doctor = home.command(&["doctor", "--json"]).output().unwrap();
    let findings = String::from_utf8(doctor.stdout).unwrap();
    let findings = findings
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_servers = findings.filter(|finding| finding["about"] == "mcp server");
    let of_servers: Vec<_> = of_servers
        .map(|it| (it["status"].clone(), it["text"].to_string()))
        .collect();
    assert_eq!(of_servers.len(), 2, "{of_servers:?}");
    assert!(
        of_servers[0].0 == "lacking" && of_servers[0].1.contains("gone"),
        "{of_servers:?}"
    );
    assert!(
        of_servers[1].0 == "good" && of_servers[1].1.contains("winch: 1 tool"),
        "{of_servers:?}"
    );
}

#[test]
fn server_call_needs_an_approval() {
    let (model, requests) = ScriptedModel::calling(vec![("mcp__winch__lift", json!({}))]);
    let mut home = Home::with_model(&model.url());
    home.variables
        .push(("WINCH_KEY".to_owned(), "rope-and-tar-7391".to_owned()));
    configure(&home);
    let daemon = home.start();
    let path = daemon.thread(&json!({}));
    let mut events = daemon.client.events(&path, 0);
    daemon.turn(&path, "lift it");
    events.until("approval.required");
    assert!(requests.results().is_empty());
}

#[test]
fn missing_variable_is_named_and_stops_the_daemon_from_starting() {
    let home = Home::new();
    configure(&home);
    let refused = home.command(&["serve", "--port", "0"]).output().unwrap();
    assert!(!refused.status.success());
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert!(
        stderr.contains("mcp_servers.winch") && stderr.contains("WINCH_KEY"),
        "{stderr}"
    );
}
