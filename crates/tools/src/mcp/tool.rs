//! A tool of a server, as recorded.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use windlass_core::mcp::{DiscoveredTool, McpApproval, McpScope, ScopedMcpServer};
use windlass_core::session_tool::no_session;
use windlass_core::tools::{Tool, ToolDefinition, ToolExecutionResult, ToolHints, ToolPolicy};
use windlass_core::traits::ToolContext;

use super::answer;
use super::connection::CallTimeouts;
use super::pool::Pool;
use crate::checkpoint::CheckpointedWork;
use crate::tool::{CHANGES, turn_of};

/// A tool of a server, as recorded.
pub(super) struct McpTool {
    pub(super) recorded: DiscoveredTool,
    /// `None` if the server is no longer configured.
    pub(super) server: Option<ScopedMcpServer>,
    pub(super) scope: McpScope,
    pub(super) pool: Arc<Pool>,
}

impl McpTool {
    async fn call(
        &self,
        arguments: Value,
        context: &ToolContext,
    ) -> Result<ToolExecutionResult, String> {
        let DiscoveredTool {
            server: name,
            tool,
            digest,
            definition,
        } = &self.recorded;
        let server = self.server.as_ref().ok_or("it is no longer configured")?;
        let arguments = match arguments {
            Value::Object(arguments) => arguments,
            Value::Null => serde_json::Map::new(),
            _ => return Err("its arguments are not an object".to_owned()),
        };
        let connection = self.pool.connection(name, server, &self.scope).await?;
        let listed = self.pool.listed(&connection, server).await?;
        let Some(current) = listed.tools.iter().find(|offered| offered.tool == *tool) else {
            return Err(format!("it no longer offers `{tool}`; nothing was called"));
        };
        // The current definition differs from the one that was approved and that the model read.
        if current.digest != *digest {
            return Err(format!(
                "it describes `{tool}` differently than when the turn began; nothing was called, and a new turn uses the new definition"
            ));
        }
        let settings = &self.pool.settings;
        let times = CallTimeouts {
            silence: settings.timeout_of(server, tool),
            total: settings.max_call_of(server, tool),
        };
        let shown = definition.name();
        let mut work = None;
        if self.may_change_files() {
            let (environments, environment) =
                (&self.pool.environments, self.scope.environment.clone());
            let turn = turn_of(context);
            work = Some(CheckpointedWork::begin(environments, environment, turn).await?);
        }
        let result = connection
            .call(tool, arguments, times, context, shown)
            .await;
        // A server's changes after the caller stopped waiting are not attributed to the call.
        if let Some(work) = work {
            work.end().await;
        }
        Ok(answer::tool_result(result?))
    }

    /// Returns whether its calls must run one after the other.
    fn may_change_files(&self) -> bool {
        let class = &self.recorded.definition.hints().concurrency_class;
        class.as_deref() == Some(CHANGES)
    }
}

#[async_trait]
impl Tool for McpTool {
    fn name(&self) -> &str {
        self.recorded.definition.name()
    }
    fn description(&self) -> &str {
        self.recorded.definition.description()
    }
    fn parameters_schema(&self) -> Value {
        self.recorded.definition.parameters().clone()
    }
    fn display_name(&self) -> Option<&str> {
        self.recorded.definition.display_name()
    }
    fn policy(&self) -> ToolPolicy {
        // The operator may have changed the setting since the definition was recorded.
        match self.server.as_ref().map(|server| server.approval) {
            Some(McpApproval::Never) => self.recorded.definition.policy(),
            Some(McpApproval::Ask) | None => ToolPolicy::RequiresApproval,
        }
    }
    fn hints(&self) -> ToolHints {
        self.recorded.definition.hints().clone()
    }
    fn to_definition(&self) -> ToolDefinition {
        self.recorded.definition.clone()
    }
    fn requires_context(&self) -> bool {
        true
    }
    async fn execute(&self, arguments: Value) -> ToolExecutionResult {
        self.execute_with_context(arguments, &no_session()).await
    }
    async fn execute_with_context(
        &self,
        arguments: Value,
        context: &ToolContext,
    ) -> ToolExecutionResult {
        let called = self.call(arguments, context).await;
        let mut called = called.unwrap_or_else(|why| {
            let server = &self.recorded.server;
            ToolExecutionResult::tool_error(format!("MCP server `{server}`: {why}"))
        });
        match &mut called {
            ToolExecutionResult::Success(Value::String(text))
            | ToolExecutionResult::SuccessWithImages {
                result: Value::String(text),
                ..
            }
            | ToolExecutionResult::ToolError(text) => {
                let (server, whole) = (self.server.as_ref(), std::mem::take(text));
                *text = self.pool.shortened(server, context, whole).await;
            }
            _ => {}
        }
        called
    }
}
