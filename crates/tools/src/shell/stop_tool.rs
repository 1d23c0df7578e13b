//! `shell_stop`: ends a command in the background.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::tools::{SideEffectClass, Tool, ToolExecutionResult, ToolHints};
use windlass_core::traits::ToolContext;

use super::background::Commands;
use crate::tool::{arguments_of, nowhere, object};

const NAME: &str = "shell_stop";

/// Nobody is asked before it: it ends what the conversation itself began, and nothing else.
pub(super) struct ShellStop(pub(super) Commands);

#[derive(Debug, Deserialize)]
struct Args {
    id: String,
}

#[async_trait]
impl Tool for ShellStop {
    fn name(&self) -> &str {
        NAME
    }
    fn description(&self) -> &str {
        "End a command in the background, and show the end of its output. One that has ended is left as it is."
    }
    fn parameters_schema(&self) -> Value {
        object(
            json!({ "id": { "type": "string", "minLength": 1, "description": "The command, as the call of shell named it" } }),
            &["id"],
        )
    }
    fn hints(&self) -> ToolHints {
        ToolHints::default()
            .with_readonly(false)
            .with_idempotent(true)
            .with_side_effect_class(SideEffectClass::Idempotent)
    }
    fn requires_context(&self) -> bool {
        true
    }
    async fn execute(&self, arguments: Value) -> ToolExecutionResult {
        self.execute_with_context(arguments, &nowhere()).await
    }
    async fn execute_with_context(
        &self,
        arguments: Value,
        context: &ToolContext,
    ) -> ToolExecutionResult {
        let args: Args = match arguments_of(NAME, arguments) {
            Ok(args) => args,
            Err(told) => return told,
        };
        if let Some(behind) = self.0.background.find(context.session_id, &args.id) {
            behind.stop();
            behind.ended().await;
        }
        match self.0.show(context, args.id, None).await {
            Ok(result) => ToolExecutionResult::success(result),
            Err(error) => ToolExecutionResult::tool_error(error.to_string()),
        }
    }
}
