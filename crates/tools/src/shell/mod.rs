//! A shell in an environment.

mod error;
mod filtered;
mod look;
mod place;
mod run;
mod settings;

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::capabilities::{Capability, RiskLevel};
use windlass_core::tools::{
    SideEffectClass, Tool, ToolExecutionResult, ToolHints, ToolPolicy, ToolShape,
};
use windlass_core::traits::ToolContext;
use windlass_core::turn_environment::TurnEnvironment;

pub use look::{Look, LookError, LookOutput};
pub use place::PlaceRefused;
pub(crate) use run::code_and_signal;
pub use settings::{ALLOWED_VARIABLES, ShellSettings};

use crate::approval::Approval;
use crate::environments::Environments;
use crate::tool::{arguments_of, changes, nowhere, object};

/// What the model calls.
const NAME: &str = "shell";

/// Commands in the turn's environment.
#[derive(Debug, Clone)]
pub struct ShellCapability {
    environments: Environments,
    settings: Arc<ShellSettings>,
}

impl ShellCapability {
    /// Runs commands in these environments.
    #[must_use]
    pub fn new(environments: Environments, settings: ShellSettings) -> Self {
        Self {
            environments,
            settings: Arc::new(settings),
        }
    }

    fn tools_for(&self, approval: Approval) -> Vec<Box<dyn Tool>> {
        vec![Box::new(Shell {
            environments: self.environments.clone(),
            settings: Arc::clone(&self.settings),
            policy: approval.policy(),
            description: description(&self.settings.secret_names),
        })]
    }
}

impl Capability for ShellCapability {
    fn id(&self) -> &str {
        NAME
    }
    fn name(&self) -> &str {
        "Shell"
    }
    fn description(&self) -> &str {
        "Runs commands in the environment of the turn, in a sandbox."
    }
    fn category(&self) -> Option<&str> {
        Some("Shell")
    }
    fn risk_level(&self) -> RiskLevel {
        RiskLevel::High
    }
    fn config_schema(&self) -> Option<Value> {
        Some(Approval::schema())
    }
    fn validate_config(&self, config: &Value) -> Result<(), String> {
        Approval::of(config).map(drop)
    }
    fn knows_environment(&self, environment: &TurnEnvironment) -> bool {
        self.environments.get(&environment.environment_id).is_some()
    }
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        self.tools_for(Approval::Ask)
    }
    fn tools_with_config(&self, config: &Value) -> Vec<Box<dyn Tool>> {
        // What cannot be read was refused before; here it asks rather than not.
        self.tools_for(Approval::of(config).unwrap_or_default())
    }
}

struct Shell {
    environments: Environments,
    settings: Arc<ShellSettings>,
    policy: ToolPolicy,
    description: String,
}

/// Says what it does, and which secrets there are by name.
fn description(secrets: &[String]) -> String {
    let base = "Run a shell command in the working directory and return its exit code and output. It has no input, may be confined to \
                the environment, and what it leaves running in the background ends with it.";
    match secrets {
        [] => base.to_owned(),
        names => format!(
            "{base} Secrets are in these variables, where the operator gives them: {}; use them by name, their values are never shown.",
            names.join(", ")
        ),
    }
}

/// What the model asks for.
#[derive(Debug, Deserialize)]
struct Args {
    command: String,
    cwd: Option<String>,
    timeout_ms: Option<u64>,
}

#[async_trait]
impl Tool for Shell {
    fn name(&self) -> &str {
        NAME
    }
    fn description(&self) -> &str {
        &self.description
    }
    fn parameters_schema(&self) -> Value {
        let max = self.settings.max_timeout.as_millis();
        let max = u64::try_from(max).unwrap_or(u64::MAX);
        object(
            json!({
                "command": { "type": "string", "minLength": 1, "description": "The command, as a shell takes it" },
                "cwd": { "type": "string", "description": "The directory to run in; the working directory unless said otherwise" },
                "timeout_ms": { "type": "integer", "minimum": 1, "maximum": max, "description": "How long it may take" }
            }),
            &["command"],
        )
    }
    fn hints(&self) -> ToolHints {
        let longest = self.settings.longest_call().as_millis();
        changes(SideEffectClass::AtMostOnce)
            .with_destructive(true)
            .with_open_world(true)
            .with_long_running(true)
            .with_shape(ToolShape::Command)
            .with_timeout_ms(u64::try_from(longest).unwrap_or(u64::MAX))
    }
    fn policy(&self) -> ToolPolicy {
        self.policy
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
        match self.run(args, context).await {
            Ok(result) => ToolExecutionResult::success(result),
            Err(error) => ToolExecutionResult::tool_error(error.to_string()),
        }
    }
}
