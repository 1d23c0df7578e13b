//! `shell_stop`: stops a background command.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::session_tool::{SessionTool, ToolFailure, object};
use windlass_core::tools::{SideEffectClass, ToolHints};
use windlass_core::traits::ToolContext;

use super::background::Commands;

/// Needs no approval: it only stops commands that the same conversation started.
pub(super) struct ShellStopTool(pub(super) Commands);

#[derive(Debug, Deserialize)]
pub(super) struct Args {
    id: String,
}

#[async_trait]
impl SessionTool for ShellStopTool {
    type Args = Args;
    const NAME: &'static str = "shell_stop";
    const DESCRIPTION: &'static str = "Stop a background command and show the end of its output. A command that has ended is not affected.";

    fn schema(&self) -> Value {
        object(
            json!({ "id": { "type": "string", "minLength": 1, "description": "ID of the command from the result of shell" } }),
            &["id"],
        )
    }
    fn hints(&self) -> ToolHints {
        ToolHints::default()
            .with_readonly(false)
            .with_idempotent(true)
            .with_side_effect_class(SideEffectClass::Idempotent)
    }
    async fn run(&self, args: Args, context: &ToolContext) -> Result<Value, ToolFailure> {
        if let Some(command) = self.0.background.find(context.session_id, &args.id) {
            command.stop();
            command.ended().await;
        }
        let shown = self.0.show(context, args.id, None).await;
        shown.map_err(ToolFailure::error)
    }
}
