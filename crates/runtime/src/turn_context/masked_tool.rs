//! A tool that receives keys, and may return them.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use windlass_core::tools::{Tool, ToolDefinition, ToolExecutionResult, ToolHints, ToolPolicy};
use windlass_core::traits::ToolContext;

use crate::secrets::Mask;

/// A tool of an MCP server: the keys that the servers received are masked in its results.
pub(super) struct MaskedTool {
    pub(super) tool: Arc<dyn Tool>,
    pub(super) keys: Arc<Mask>,
}

impl MaskedTool {
    fn masked(&self, mut result: ToolExecutionResult) -> ToolExecutionResult {
        match &mut result {
            ToolExecutionResult::Success(value)
            | ToolExecutionResult::SuccessWithImages { result: value, .. }
            | ToolExecutionResult::UserInputRequired { request: value } => self.keys.value(value),
            ToolExecutionResult::SuccessWithRawOutput { result, raw_output } => {
                self.keys.value(result);
                self.keys.text(raw_output);
            }
            ToolExecutionResult::ToolError(text) => self.keys.text(text),
            // The log masks this text itself.
            ToolExecutionResult::InternalError(_)
            | ToolExecutionResult::ConnectionRequired { .. } => {}
        }
        result
    }
}

#[async_trait]
impl Tool for MaskedTool {
    fn name(&self) -> &str {
        self.tool.name()
    }
    fn description(&self) -> &str {
        self.tool.description()
    }
    fn parameters_schema(&self) -> Value {
        self.tool.parameters_schema()
    }
    async fn execute(&self, arguments: Value) -> ToolExecutionResult {
        self.masked(self.tool.execute(arguments).await)
    }
    async fn execute_with_context(
        &self,
        arguments: Value,
        context: &ToolContext,
    ) -> ToolExecutionResult {
        let called = self.tool.execute_with_context(arguments, context).await;
        self.masked(called)
    }
    fn requires_context(&self) -> bool {
        self.tool.requires_context()
    }
    fn display_name(&self) -> Option<&str> {
        self.tool.display_name()
    }
    fn policy(&self) -> ToolPolicy {
        self.tool.policy()
    }
    fn hints(&self) -> ToolHints {
        self.tool.hints()
    }
    fn to_definition(&self) -> ToolDefinition {
        self.tool.to_definition()
    }
}
