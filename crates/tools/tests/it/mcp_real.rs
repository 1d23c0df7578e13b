//! Third-party MCP servers. `cargo xtask mcp` installs them and runs these tests.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::mcp::{McpConnector, McpTransportType, ScopedMcpServer, ScopedMcpServers};
use windlass_core::tools::ToolExecutionResult;
use windlass_testkit::skipped;
use windlass_tools::mcp::McpClient;
use windlass_tools::{WebEgress, WebRules};

use crate::mcp::{Ship, scope, settings};
use crate::support::{Place, soon};

/// Returns the directory in a variable; without it, the test is reported as skipped.
fn installed(variable: &str) -> Option<PathBuf> {
    let found = std::env::var_os(variable).map(PathBuf::from);
    if found.is_none() {
        let test = std::thread::current();
        let why = format!("{variable} is not set; run `cargo xtask mcp`");
        skipped(test.name().unwrap_or("a test"), &why);
    }
    found
}

fn program(path: PathBuf, args: &[&str]) -> ScopedMcpServer {
    ScopedMcpServer {
        transport_type: McpTransportType::Stdio,
        command: Some(path.to_str().unwrap().to_owned()),
        args: args.iter().map(|word| (*word).to_owned()).collect(),
        ..ScopedMcpServer::default()
    }
}

async fn ship(mut place: Place, server: ScopedMcpServer) -> Ship {
    // Third-party programs are found in the user's `PATH`.
    place.settings = place.settings.with_variables_of(std::env::vars_os());
    let rules = WebRules::parse(&["127.0.0.1"], &[]).unwrap();
    let egress = Arc::new(WebEgress::new(Arc::new(rules)));
    let (environments, shell) = (place.environments.clone(), place.settings.clone());
    let servers = ScopedMcpServers::from([("real".to_owned(), server)]);
    let client = McpClient::new(environments, shell, egress, settings()).with_servers(servers);
    Ship::of(place, client, scope()).await
}

async fn said(ship: &Ship, tool: &str, arguments: Value) -> String {
    match ship.call(tool, arguments).await {
        ToolExecutionResult::Success(value)
        | ToolExecutionResult::SuccessWithImages { result: value, .. } => {
            value.as_str().unwrap().to_owned()
        }
        other => panic!("{tool}: {other:?}"),
    }
}

/// Tests every tool of the reference server.
async fn try_everything(ship: &Ship) {
    assert_eq!(ship.found.failures, [], "nothing is left out");
    let names = ship.names();
    assert!(names.contains(&"mcp__real__get-tiny-image"), "{names:?}");
    let echoed = said(ship, "echo", json!({"message": "ahoy"})).await;
    assert!(echoed.contains("ahoy"), "{echoed}");
    let sum = said(ship, "get-sum", json!({"a": 2, "b": 3})).await;
    assert!(sum.contains('5'), "{sum}");
    let shown = ship.call("get-tiny-image", json!({})).await;
    let ToolExecutionResult::SuccessWithImages { images, .. } = shown else {
        panic!("{shown:?}")
    };
    assert_eq!(images[0].media_type, "image/png");
    let resource = json!({"resourceType": "Text", "resourceId": 1});
    let resource = said(ship, "get-resource-reference", resource).await;
    assert!(resource.contains("[resource "), "{resource}");
    let links = said(ship, "get-resource-links", json!({"count": 2})).await;
    assert!(links.contains("[resource "), "{links}");
    // It takes longer than the permitted silence, and reports progress.
    let long = json!({"duration": 5, "steps": 10});
    let long = said(ship, "trigger-long-running-operation", long).await;
    assert!(long.contains("completed"), "{long}");
    ship.client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs servers of others; `cargo xtask mcp` runs it"]
async fn everything_by_its_pipes() {
    let Some(node) = installed("WINDLASS_MCP_NODE") else {
        return;
    };
    let everything = node.join("node_modules/.bin/mcp-server-everything");
    let server = ScopedMcpServer {
        timeout_ms: Some(3_000),
        ..program(everything, &["stdio"])
    };
    try_everything(&ship(Place::new(), server).await).await;
}

/// A program that ends with the test.
struct Listening(Child);

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs servers of others; `cargo xtask mcp` runs it"]
async fn everything_over_http() {
    let Some(node) = installed("WINDLASS_MCP_NODE") else {
        return;
    };
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let started = Command::new(node.join("node_modules/.bin/mcp-server-everything"))
        .arg("streamableHttp")
        .env("PORT", port.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _listening = Listening(started.unwrap());
    soon("the server listens", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let server = ScopedMcpServer {
        url: Some(format!("http://127.0.0.1:{port}/mcp")),
        timeout_ms: Some(3_000),
        ..ScopedMcpServer::default()
    };
    try_everything(&ship(Place::new(), server).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs servers of others; `cargo xtask mcp` runs it"]
async fn files_in_the_sandbox_of_commands() {
    let Some(node) = installed("WINDLASS_MCP_NODE") else {
        return;
    };
    let place = Place::new().files(&[("log.md", "Launched.")]);
    let root = place.root();
    std::fs::write(place.outside().join("secret"), "7391").unwrap();
    let files = node.join("node_modules/.bin/mcp-server-filesystem");
    let above = root.parent().unwrap().to_str().unwrap().to_owned();
    let outside = place.outside().join("secret");
    let ship = ship(place, program(files, &[&above])).await;
    assert_eq!(ship.found.failures, []);
    let path = |name: &str| root.join(name).to_str().unwrap().to_owned();
    let read = said(&ship, "read_text_file", json!({"path": path("log.md")})).await;
    assert_eq!(read, "Launched.");
    let write = json!({"path": path("new.md"), "content": "Hauled."});
    said(&ship, "write_file", write).await;
    assert_eq!(std::fs::read_to_string(path("new.md")).unwrap(), "Hauled.");
    // The server is subject to the same write restrictions as commands.
    let write = json!({"path": outside.to_str().unwrap(), "content": "x"});
    let refused = ship.call("write_file", write).await;
    assert!(
        matches!(refused, ToolExecutionResult::ToolError(_)),
        "{refused:?}"
    );
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "7391");
    ship.client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs servers of others; `cargo xtask mcp` runs it"]
async fn a_server_in_python() {
    let Some(python) = installed("WINDLASS_MCP_PYTHON") else {
        return;
    };
    let ship = ship(
        Place::new(),
        program(python.join("bin/mcp-server-time"), &[]),
    )
    .await;
    assert_eq!(ship.found.failures, []);
    let time = json!({"source_timezone": "Europe/London", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    let told = said(&ship, "convert_time", time).await;
    assert!(told.contains("Asia/Tokyo"), "{told}");
    let refused = ship
        .call("get_current_time", json!({"timezone": "Sea/Nowhere"}))
        .await;
    assert!(
        matches!(refused, ToolExecutionResult::ToolError(_)),
        "{refused:?}"
    );
    ship.client.close().await;
}
