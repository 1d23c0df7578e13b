//! Tools of the test daemon: one that needs approval, one that runs, one that ignores cancellation, one that is idempotent.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::watch;
use windlass_core::capabilities::Capability;
use windlass_core::tools::{
    SideEffectClass, Tool, ToolExecutionResult, ToolHints, ToolPolicy, ToolShape,
};

struct ShellCommandTool(&'static str, ToolPolicy);

#[async_trait]
impl Tool for ShellCommandTool {
    fn name(&self) -> &str {
        self.0
    }
    fn description(&self) -> &str {
        "Runs a shell command."
    }
    fn parameters_schema(&self) -> Value {
        json!({"type": "object"})
    }
    fn policy(&self) -> ToolPolicy {
        self.1
    }
    fn hints(&self) -> ToolHints {
        ToolHints::default().with_shape(ToolShape::Command)
    }
    async fn execute(&self, _: Value) -> ToolExecutionResult {
        ToolExecutionResult::Success(json!("hi\n"))
    }
}

/// A tool that blocks its thread and ignores cancellation until the model's slow answers are released.
struct Stubborn(watch::Receiver<bool>);

/// An idempotent tool that does not finish its first run.
struct Again(PathBuf);

#[async_trait]
impl Tool for Again {
    fn name(&self) -> &str {
        "again"
    }
    fn description(&self) -> &str {
        "Can run again."
    }
    fn parameters_schema(&self) -> Value {
        json!({"type": "object"})
    }
    fn hints(&self) -> ToolHints {
        ToolHints::default().with_side_effect_class(SideEffectClass::Idempotent)
    }
    async fn execute(&self, _: Value) -> ToolExecutionResult {
        let mark = self.0.join("began");
        if !mark.exists() {
            std::fs::write(mark, "").unwrap();
            std::future::pending::<()>().await;
        }
        ToolExecutionResult::Success(json!("ran again"))
    }
}

#[async_trait]
impl Tool for Stubborn {
    fn name(&self) -> &str {
        "stubborn"
    }
    fn description(&self) -> &str {
        "Does not listen."
    }
    fn parameters_schema(&self) -> Value {
        json!({"type": "object"})
    }
    async fn execute(&self, _: Value) -> ToolExecutionResult {
        while !*self.0.borrow() {
            std::thread::sleep(Duration::from_millis(5));
        }
        ToolExecutionResult::Success(json!("done at last"))
    }
}

/// The capability with all tools of the test daemon.
pub(crate) struct Commands {
    pub(crate) gate: watch::Receiver<bool>,
    /// Directory where the idempotent tool records its runs.
    pub(crate) scratch: PathBuf,
}

impl Capability for Commands {
    fn id(&self) -> &str {
        "commands"
    }
    fn name(&self) -> &str {
        "Commands"
    }
    fn description(&self) -> &str {
        "Commands for tests."
    }
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        vec![
            Box::new(ShellCommandTool("shell", ToolPolicy::RequiresApproval)),
            Box::new(ShellCommandTool("clock", ToolPolicy::Auto)),
            Box::new(Stubborn(self.gate.clone())),
            Box::new(Again(self.scratch.clone())),
        ]
    }
}
