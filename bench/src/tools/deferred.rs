//! Cost of deferred tools that the model has not discovered.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use windlass_core::capabilities::Capability;
use windlass_core::llmsim_driver::LlmSimConfig;
use windlass_core::mcp::{
    DiscoveredTool, DiscoveredTools, McpConnector, McpScope, ScopedMcpServers,
};
use windlass_core::tools::{Tool, ToolExecutionResult};
use windlass_core::{AgentLoopError, SessionId};
use windlass_runtime::{InProcessRuntime, InProcessRuntimeBuilder, RuntimeSettings};

use super::Result;
use crate::inprocess::PROMPT;
use crate::machine;
use crate::report::{Bound, Report};

const TOOLS: usize = 100;
const TURNS: u32 = 400;
const ROUNDS: usize = 5;

pub(super) async fn measure(report: &mut Report) -> Result<()> {
    report.progress("turns with deferred tools");
    let without = runtime(Many::new(0), None).await?;
    let with = runtime(Many::new(TOOLS), None).await?;
    let unsaid = Many {
        says_revision: false,
        ..Many::new(TOOLS)
    };
    let unsaid = runtime(unsaid, None).await?;
    let of_server = runtime(Many::new(0), Some(FakeMcpServer::new(TOOLS))).await?;
    let (mut least_without, mut least_with) = (f64::INFINITY, f64::INFINITY);
    let (mut least_unsaid, mut least_of_server) = (f64::INFINITY, f64::INFINITY);
    // The variants alternate, so that other load affects all; the first round warms up caches.
    for _ in 0..ROUNDS {
        least_without = least_without.min(cpu_of(&without).await?);
        least_with = least_with.min(cpu_of(&with).await?);
        least_unsaid = least_unsaid.min(cpu_of(&unsaid).await?);
        least_of_server = least_of_server.min(cpu_of(&of_server).await?);
    }
    report.figure(
        "CPU of a turn without tools",
        least_without,
        "us",
        Bound::None,
    );
    report.figure(
        "CPU of a turn, 100 deferred tools / none",
        least_with / least_without,
        "ratio",
        Bound::AtMost(1.1),
    );
    // Without a revision the runtime cannot know whether tools changed, so each turn requests and compares all of them.
    report.figure(
        "the same, of a capability that says no revision / none",
        least_unsaid / least_without,
        "ratio",
        Bound::None,
    );
    report.figure(
        "the same, of an MCP server whose list stays / none",
        least_of_server / least_without,
        "ratio",
        Bound::None,
    );
    Ok(())
}

async fn runtime(
    many: Many,
    server: Option<FakeMcpServer>,
) -> Result<(InProcessRuntime, SessionId)> {
    let settings = RuntimeSettings::default().defer_above(Some(24));
    let mut builder = InProcessRuntimeBuilder::new();
    if let Some(server) = server {
        builder = builder.mcp(Arc::new(server));
    }
    let runtime = builder
        .llm_sim(LlmSimConfig::fixed("The result is forty-two."))
        .settings(settings)
        .capability(many)
        .single_session(|session| {
            session
                .harness("h", "You are an assistant.")
                .with_capability("many")
                .agent("a", "Use tools.")
        })
        .build()
        .await?;
    let session_id = runtime.default_session_id();
    Ok((runtime, session_id.ok_or(AgentLoopError::NoMessages)?))
}

/// Returns the CPU time of a turn, in microseconds.
async fn cpu_of((runtime, session_id): &(InProcessRuntime, SessionId)) -> Result<f64> {
    let before = machine::cpu_time();
    for _ in 0..TURNS {
        if !runtime.run_text_turn(*session_id, PROMPT).await?.success {
            return Err("a turn failed".into());
        }
    }
    let spent = machine::cpu_time() - before;
    Ok(spent.as_secs_f64() * 1e6 / f64::from(TURNS))
}

/// Registers many tools that are never called.
struct Many {
    tools: usize,
    /// Whether the provider reports a revision of its tools.
    says_revision: bool,
}

impl Many {
    fn new(tools: usize) -> Self {
        Self {
            tools,
            says_revision: true,
        }
    }
}

impl Capability for Many {
    fn id(&self) -> &str {
        "many"
    }
    fn name(&self) -> &str {
        "Many"
    }
    fn description(&self) -> &str {
        "Many tools."
    }
    fn tools_revision(&self) -> Option<u64> {
        self.says_revision.then_some(0)
    }
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        let named = |n| Box::new(Idle(format!("tool_{n}"))) as Box<dyn Tool>;
        (0..self.tools).map(named).collect()
    }
}

struct Idle(String);

#[async_trait]
impl Tool for Idle {
    fn name(&self) -> &str {
        &self.0
    }
    fn description(&self) -> &str {
        "Does something of its own with a text and a number, and says what came of it."
    }
    fn parameters_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": { "text": { "type": "string" }, "number": { "type": "integer", "minimum": 0 } },
            "required": ["text"]
        })
    }
    async fn execute(&self, _arguments: Value) -> ToolExecutionResult {
        ToolExecutionResult::success("done")
    }
}

/// Offers the same tools each time.
struct FakeMcpServer(Arc<DiscoveredTools>);

impl FakeMcpServer {
    fn new(tools: usize) -> Self {
        let tools = (0..tools).map(|n| {
            let mut definition = Idle(format!("tool_{n}")).to_definition();
            definition.hints_mut().capability_id = Some("mcp".to_owned());
            DiscoveredTool {
                server: "bench".to_owned(),
                tool: format!("tool_{n}"),
                digest: n.to_string(),
                definition,
            }
        });
        Self(Arc::new(DiscoveredTools::new(tools.collect(), Vec::new())))
    }
}

#[async_trait]
impl McpConnector for FakeMcpServer {
    async fn discover(&self, _: &ScopedMcpServers, _: &McpScope) -> Arc<DiscoveredTools> {
        Arc::clone(&self.0)
    }
    fn tool(&self, recorded: &DiscoveredTool, _: &ScopedMcpServers, _: &McpScope) -> Arc<dyn Tool> {
        Arc::new(Idle(recorded.tool.clone()))
    }
}
