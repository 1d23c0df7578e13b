//! Tools that log each of their effects, so that a repeated one is detected.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use windlass_core::capabilities::Capability;
use windlass_core::tools::{SideEffectClass, Tool, ToolExecutionResult, ToolHints, ToolPolicy};
use windlass_core::traits::ToolContext;

use crate::faults;

/// Every tool of the child, by name.
pub(crate) const TOOLS: &[&str] = &["pure", "idempotent", "once", "asked", "outside"];

/// The capability with these tools.
pub(crate) struct Effects {
    pub(crate) log: PathBuf,
}

impl Capability for Effects {
    fn id(&self) -> &str {
        "effects"
    }
    fn name(&self) -> &str {
        "Effects"
    }
    fn description(&self) -> &str {
        "Tools that log their effects."
    }
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        let tool = |name: &&'static str| {
            Box::new(Effect {
                name,
                log: self.log.clone(),
            }) as _
        };
        TOOLS.iter().map(tool).collect()
    }
}

struct Effect {
    name: &'static str,
    log: PathBuf,
}

impl Effect {
    /// Writes one line per effect in one call, so that a kill leaves complete lines.
    fn log_effect(&self, step: &str) -> std::io::Result<()> {
        let mut log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)?;
        log.write_all(format!("{} {step}\n", self.name).as_bytes())
    }
}

#[async_trait]
impl Tool for Effect {
    fn name(&self) -> &str {
        self.name
    }
    fn description(&self) -> &str {
        "Logs that it ran."
    }
    fn parameters_schema(&self) -> Value {
        json!({ "type": "object", "properties": { "input": { "type": "string" } }, "required": ["input"] })
    }
    fn policy(&self) -> ToolPolicy {
        match self.name {
            "asked" => ToolPolicy::RequiresApproval,
            "outside" => ToolPolicy::ClientSide,
            _ => ToolPolicy::Auto,
        }
    }
    fn hints(&self) -> ToolHints {
        let class = match self.name {
            "pure" => SideEffectClass::Pure,
            "idempotent" => SideEffectClass::Idempotent,
            _ => SideEffectClass::AtMostOnce,
        };
        ToolHints::default().with_side_effect_class(class)
    }
    async fn execute(&self, _arguments: Value) -> ToolExecutionResult {
        ToolExecutionResult::internal_error_msg("this tool needs its context")
    }
    async fn execute_with_context(
        &self,
        _arguments: Value,
        context: &ToolContext,
    ) -> ToolExecutionResult {
        let step = context
            .event_context
            .as_ref()
            .and_then(|context| context.exec_id);
        let Some(step) = step else {
            return ToolExecutionResult::internal_error_msg("the step has no ID");
        };
        faults::pass("tool.before-effect");
        if let Err(error) = self.log_effect(&step.to_string()) {
            return ToolExecutionResult::internal_error(error);
        }
        faults::pass("tool.after-effect");
        context
            .emit_progress(self.name, "the effect is logged")
            .await;
        // Long enough that a random kill occurs between the effect and the result.
        tokio::time::sleep(Duration::from_millis(3)).await;
        ToolExecutionResult::success(json!({ "tool": self.name }))
    }
}
