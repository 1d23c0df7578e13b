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

use crate::mcp::{McpSession, scope, settings};
use crate::support::{TestWorkspace, soon};

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

async fn ship(mut workspace: TestWorkspace, server: ScopedMcpServer) -> McpSession {
    // Third-party programs are found in the user's `PATH`.
    workspace.settings = workspace.settings.with_variables_of(std::env::vars_os());
    let rules = WebRules::parse(&["127.0.0.1"], &[]).unwrap();
    let egress = Arc::new(WebEgress::new(Arc::new(rules)));
    let (environments, shell) = (workspace.environments.clone(), workspace.settings.clone());
    let servers = ScopedMcpServers::from([("real".to_owned(), server)]);
    let client = McpClient::new(environments, shell, egress, settings()).with_servers(servers);
    McpSession::of(workspace, client, scope()).await
}

async fn call_text(ship: &McpSession, tool: &str, arguments: Value) -> String {
    match ship.call(tool, arguments).await {
        ToolExecutionResult::Success(value)
        | ToolExecutionResult::SuccessWithImages { result: value, .. } => {
            value.as_str().unwrap().to_owned()
        }
        other => panic!("{tool}: {other:?}"),
    }
}

/// Tests every tool of the reference server.
async fn check_reference_server(ship: &McpSession) {
    assert_eq!(ship.found.failures, [], "nothing is left out");
    let names = ship.names();
    assert!(names.contains(&"mcp__real__get-tiny-image"), "{names:?}");
    let echoed = call_text(ship, "echo", json!({"message": "ahoy"})).await;
    assert!(echoed.contains("ahoy"), "{echoed}");
    let sum = call_text(ship, "get-sum", json!({"a": 2, "b": 3})).await;
    assert!(sum.contains('5'), "{sum}");
    let shown = ship.call("get-tiny-image", json!({})).await;
    let ToolExecutionResult::SuccessWithImages { images, .. } = shown else {
        panic!("{shown:?}")
    };
    assert_eq!(images[0].media_type, "image/png");
    let resource = json!({"resourceType": "Text", "resourceId": 1});
    let resource = call_text(ship, "get-resource-reference", resource).await;
    assert!(resource.contains("[resource "), "{resource}");
    let links = call_text(ship, "get-resource-links", json!({"count": 2})).await;
    assert!(links.contains("[resource "), "{links}");
    // It takes longer than the permitted silence, and reports progress.
    let long = json!({"duration": 5, "steps": 10});
    let long = call_text(ship, "trigger-long-running-operation", long).await;
    assert!(long.contains("completed"), "{long}");
    ship.client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs third-party servers; `cargo xtask mcp` runs it"]
async fn reference_server_over_stdio() {
    let Some(node) = installed("WINDLASS_MCP_NODE") else {
        return;
    };
    let everything = node.join("node_modules/.bin/mcp-server-everything");
    let server = ScopedMcpServer {
        timeout_ms: Some(3_000),
        ..program(everything, &["stdio"])
    };
    check_reference_server(&ship(TestWorkspace::new(), server).await).await;
}

/// A program that ends with the test.
struct ServerProcess(Child);

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs third-party servers; `cargo xtask mcp` runs it"]
async fn reference_server_over_http() {
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
    let _listening = ServerProcess(started.unwrap());
    soon("the server listens", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let server = ScopedMcpServer {
        url: Some(format!("http://127.0.0.1:{port}/mcp")),
        timeout_ms: Some(3_000),
        ..ScopedMcpServer::default()
    };
    check_reference_server(&ship(TestWorkspace::new(), server).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs third-party servers; `cargo xtask mcp` runs it"]
async fn file_server_runs_in_the_sandbox_of_commands() {
    let Some(node) = installed("WINDLASS_MCP_NODE") else {
        return;
    };
    let workspace = TestWorkspace::new().files(&[("log.md", "Launched.")]);
    let root = workspace.root();
    std::fs::write(workspace.outside().join("secret"), "7391").unwrap();
    let files = node.join("node_modules/.bin/mcp-server-filesystem");
    let above = root.parent().unwrap().to_str().unwrap().to_owned();
    let outside = workspace.outside().join("secret");
    let ship = ship(workspace, program(files, &[&above])).await;
    assert_eq!(ship.found.failures, []);
    let path = |name: &str| root.join(name).to_str().unwrap().to_owned();
    let read = call_text(&ship, "read_text_file", json!({"path": path("log.md")})).await;
    assert_eq!(read, "Launched.");
    let write = json!({"path": path("new.md"), "content": "Hauled."});
    call_text(&ship, "write_file", write).await;
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
#[ignore = "needs third-party servers; `cargo xtask mcp` runs it"]
async fn python_server() {
    let Some(python) = installed("WINDLASS_MCP_PYTHON") else {
        return;
    };
    let ship = ship(
        TestWorkspace::new(),
        program(python.join("bin/mcp-server-time"), &[]),
    )
    .await;
    assert_eq!(ship.found.failures, []);
    let time = json!({"source_timezone": "Europe/London", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    let error = call_text(&ship, "convert_time", time).await;
    assert!(error.contains("Asia/Tokyo"), "{error}");
    let refused = ship
        .call("get_current_time", json!({"timezone": "Sea/Nowhere"}))
        .await;
    assert!(
        matches!(refused, ToolExecutionResult::ToolError(_)),
        "{refused:?}"
    );
    ship.client.close().await;
}
