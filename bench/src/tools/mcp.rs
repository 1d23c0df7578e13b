//! A call of an MCP server's tool, compared with the same messages over its pipes.

use std::io::{BufRead, Write};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use windlass_core::SessionId;
use windlass_core::egress::DisabledEgressService;
use windlass_core::mcp::{
    McpConnector, McpScope, McpTransportType, ScopedMcpServer, ScopedMcpServers,
};
use windlass_core::traits::ToolContext;
use windlass_tools::mcp::{McpClient, McpSettings};
use windlass_tools::{Environments, ShellSettings};

use super::{Result, median, value_of};
use crate::report::{Bound, Report};

/// The argument that starts this program as the server.
pub const CHILD: &str = "tools-mcp-server";
const CALLS: usize = 500;

pub(super) async fn measure(report: &mut Report, environments: &Environments) -> Result<()> {
    report.progress("calls of an MCP server");
    let program = std::env::current_exe()?;
    let server = ScopedMcpServer {
        transport_type: McpTransportType::Stdio,
        command: Some(program.display().to_string()),
        args: vec![CHILD.to_owned()],
        ..ScopedMcpServer::default()
    };
    let servers = ScopedMcpServers::from([("bench".to_owned(), server)]);
    let shell = ShellSettings {
        ways: Vec::new(),
        ..ShellSettings::default()
    };
    let egress = Arc::new(DisabledEgressService);
    let client = McpClient::new(environments.clone(), shell, egress, McpSettings::default());
    let client = client.with_servers(servers);
    let session_id = SessionId::new();
    let scope = McpScope {
        session_id,
        owner: None,
        environment: None,
        network_access: None,
    };
    let found = client.discover(&ScopedMcpServers::new(), &scope).await;
    let recorded = found.tools.first();
    let recorded = recorded.ok_or_else(|| format!("no tool was found: {:?}", found.failures))?;
    let tool = client.tool(recorded, &ScopedMcpServers::new(), &scope);
    let context = ToolContext::new(session_id);
    let mut ours = Vec::new();
    for _ in 0..CALLS {
        let started = Instant::now();
        let arguments = json!({ "text": "ahoy" });
        let said = tool.execute_with_context(arguments, &context).await;
        ours.push(started.elapsed().as_secs_f64() * 1e6);
        if value_of(said)? != json!("ahoy") {
            return Err("the server said something else".into());
        }
    }
    client.close().await;
    let (ours, theirs) = (median(ours), bare(&program).await?);
    report.figure("a call of an MCP server by hand", theirs, "us", Bound::None);
    report.figure("what we add to it", ours - theirs, "us", Bound::None);
    Ok(())
}

/// Calls the same server over its pipes, and returns the duration of a call.
async fn bare(program: &std::path::Path) -> Result<f64> {
    let mut child = tokio::process::Command::new(program);
    child.arg(CHILD).kill_on_drop(true);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let mut stdin = stdin.ok_or("no pipe")?;
    let mut lines = BufReader::new(stdout.ok_or("no pipe")?).lines();
    let mut times = Vec::new();
    for id in 0..CALLS {
        let started = Instant::now();
        let asked = json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": "echo", "arguments": { "text": "ahoy" } }
        });
        stdin.write_all(format!("{asked}\n").as_bytes()).await?;
        let answer = lines.next_line().await?.ok_or("the server is gone")?;
        let answer: Value = serde_json::from_str(&answer)?;
        times.push(started.elapsed().as_secs_f64() * 1e6);
        if answer["result"]["content"][0]["text"] != "ahoy" {
            return Err("the server said something else".into());
        }
    }
    Ok(median(times))
}

/// Runs a server with one tool that echoes its input.
pub fn live_as_child() -> ExitCode {
    let mut stdout = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let Ok(message) = line.map(|line| serde_json::from_str::<Value>(&line).unwrap_or_default())
        else {
            break;
        };
        let Some(id) = message.get("id") else {
            continue;
        };
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "bench", "version": "1" }
            }),
            "tools/list" => json!({ "tools": [{
                "name": "echo", "description": "Says it again.",
                "inputSchema": { "type": "object", "properties": { "text": { "type": "string" } } }
            }] }),
            "tools/call" => {
                let text = &message["params"]["arguments"]["text"];
                json!({ "content": [{ "type": "text", "text": text }] })
            }
            _ => json!({}),
        };
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        if writeln!(stdout, "{answer}")
            .and_then(|()| stdout.flush())
            .is_err()
        {
            break;
        }
    }
    ExitCode::SUCCESS
}
